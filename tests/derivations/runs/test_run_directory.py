"""A run as a directory of real files."""

import os
from pathlib import Path

import pytest

from bundles import Run
from dis_derivations.runs.bundle_documents import load_bundle
from dis_derivations.runs.bundle_reader import DirectoryBundle
from dis_derivations.runs.run_directory import copy_file, directory_for, lay_out
from dis_store import Store
from dis_store.digest import Digest, Sha256
from dis_store.errors import InvalidInputError, UnfitEnvironmentError

RUN_ID = Sha256(f"sha256:{'ab' * 32}")


def log_of(store: Store, bundle: Digest) -> Digest:
    (record,) = store.realisations(Digest.of(bundle.encode()))
    return record.outputs["log"]


@pytest.fixture
def directory(store: Store, run: Digest, tmp_path: Path) -> Path:
    return lay_out(store, run, log_of(store, run), tmp_path / "laid" / "out")


def test_the_directory_holds_the_bundle_and_the_run_log_as_real_files(
    store: Store, directory: Path, example: Run
) -> None:
    del store
    files = {path.name: path for path in directory.iterdir()}
    assert {name: path.read_bytes() for name, path in files.items()} == {
        **example.files(),
        "run_log.json": b'{"records":[]}',
    }
    assert not any(path.is_symlink() for path in files.values())
    assert all(os.access(path, os.W_OK) for path in files.values())
    assert load_bundle(DirectoryBundle(directory)).document.name == "example"


def test_nothing_else_is_left_beside_the_directory(directory: Path) -> None:
    assert [path.name for path in directory.parent.iterdir()] == ["out"]


def test_laying_out_the_same_run_again_changes_nothing(
    store: Store, run: Digest, directory: Path
) -> None:
    before = {path: path.stat().st_mtime_ns for path in directory.iterdir()}
    assert lay_out(store, run, log_of(store, run), directory) == directory
    assert {path: path.stat().st_mtime_ns for path in directory.iterdir()} == before


def test_an_empty_directory_is_filled(store: Store, run: Digest, tmp_path: Path) -> None:
    (tmp_path / "empty").mkdir()
    lay_out(store, run, None, tmp_path / "empty")
    assert (tmp_path / "empty" / "bundle.json").is_file()
    assert not (tmp_path / "empty" / "run_log.json").exists()


def test_a_directory_with_other_things_is_refused_and_left_alone(
    store: Store, run: Digest, tmp_path: Path
) -> None:
    (tmp_path / "mine").mkdir()
    (tmp_path / "mine" / "letter.txt").write_text("dear", encoding="utf-8")
    with pytest.raises(InvalidInputError, match="in the way"):
        lay_out(store, run, None, tmp_path / "mine")
    assert [path.name for path in (tmp_path / "mine").iterdir()] == ["letter.txt"]


def test_a_directory_of_another_run_is_refused(store: Store, run: Digest, directory: Path) -> None:
    (directory / "tokens.json").write_bytes(b"{}")
    with pytest.raises(InvalidInputError) as refused:
        lay_out(store, run, None, directory)
    assert refused.value.cause == "its tokens.json is not that of this run"
    assert (directory / "tokens.json").read_bytes() == b"{}"


def test_a_file_in_the_place_of_the_directory_is_refused(
    store: Store, run: Digest, tmp_path: Path
) -> None:
    (tmp_path / "file").write_text("x", encoding="utf-8")
    with pytest.raises(InvalidInputError, match="in the way"):
        lay_out(store, run, None, tmp_path / "file")


def test_a_place_that_cannot_be_written_is_an_unfit_environment(store: Store, run: Digest) -> None:
    with pytest.raises(UnfitEnvironmentError, match="cannot be written"):
        lay_out(store, run, None, Path("/proc/dis/run"))


def test_a_failure_in_the_middle_leaves_nothing(
    store: Store, run: Digest, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    calls: list[int] = []

    def fail(descriptor: int) -> None:
        calls.append(descriptor)
        if len(calls) == 3:
            raise OSError(28, "No space left on device")

    monkeypatch.setattr(os, "fsync", fail)
    with pytest.raises(UnfitEnvironmentError, match="cannot be written"):
        lay_out(store, run, None, tmp_path / "here" / "run")
    assert list((tmp_path / "here").iterdir()) == []


def test_a_copied_file_replaces_what_was_there_when_it_may(tmp_path: Path) -> None:
    (tmp_path / "source").write_text("new", encoding="utf-8")
    (tmp_path / "target").write_text("old", encoding="utf-8")
    with pytest.raises(InvalidInputError, match="there already"):
        copy_file(tmp_path / "source", tmp_path / "target")
    assert (tmp_path / "target").read_text("utf-8") == "old"
    copy_file(tmp_path / "source", tmp_path / "target", replace=True)
    assert (tmp_path / "target").read_text("utf-8") == "new"
    assert len(list(tmp_path.iterdir())) == 2


@pytest.mark.parametrize(
    ("template", "expected"),
    [
        (None, f"runs/{'ab' * 32}"),
        ("out/${manifest_name}/${run_id}", f"out/example/{'ab' * 32}"),
        ("/absolute", "/absolute"),
    ],
)
def test_templates_name_the_directory(template: str | None, expected: str) -> None:
    assert directory_for(template, run_id=RUN_ID, manifest_name="example") == Path(expected)


@pytest.mark.parametrize(
    ("template", "name"), [("${run}", "example"), ("${manifest_name}", ".."), ("x", "a/b")]
)
def test_templates_that_lead_astray_are_refused(template: str, name: str) -> None:
    with pytest.raises(InvalidInputError):
        directory_for(template, run_id=RUN_ID, manifest_name=name)
