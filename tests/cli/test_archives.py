"""`dis bundle`, and the commands that read what it makes."""

import json
from pathlib import Path

import pytest

from command_line import SHORTER, Dis, Realised

LIMITS = ("--set", "inference.n_prompts=2", "--set", SHORTER)


@pytest.fixture
def archive(dis: Dis, realised: Realised, tmp_path: Path) -> Path:
    """Return an archive of the first run, and make the store forget where the run is."""
    del realised
    assert dis("bundle", "first", "--output", "first.tar.zst").out == "first.tar.zst\n"
    return tmp_path / "first.tar.zst"


def test_bundle_names_the_archive_after_the_run(
    dis: Dis, realised: Realised, tmp_path: Path
) -> None:
    digest = Path(realised.first).name
    outcome = dis("bundle", "first", "--json")
    assert outcome.document["path"] == f"quickstart.{digest[:8]}.tar.gz"
    assert outcome.document["bundle"] == digest
    written = tmp_path / outcome.document["path"]
    assert written.stat().st_size == outcome.document["size"]
    before = written.read_bytes()
    assert dis("bundle", digest[:12]).code == 0
    assert written.read_bytes() == before


@pytest.mark.parametrize("name", ["laid-out", "./laid-out", "laid-out/"])
def test_bundle_takes_a_run_directory(
    dis: Dis, realised: Realised, archive: Path, tmp_path: Path, name: str
) -> None:
    assert dis("run", realised.config, *LIMITS, "--run-dir", "laid-out").code == 0
    assert dis("bundle", "--run-dir", name, "--output", "other.tar.zst").code == 0
    assert (tmp_path / "other.tar.zst").read_bytes() == archive.read_bytes()


@pytest.mark.parametrize("argv", [[], ["first", "--run-dir", "x"], ["first", "--output", "x.zip"]])
def test_bundle_wants_one_run_and_a_name_for_an_archive(
    dis: Dis, realised: Realised, argv: list[str]
) -> None:
    del realised
    outcome = dis("bundle", *argv)
    outcome.check_one_block()
    assert outcome.code == 2


def test_commands_read_an_archive_like_the_run_without_its_store(
    dis: Dis, archive: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    shown, listed = dis("show", "first").out, dis("ls", "first").out
    engine = dis("cat", "first", "engine.json").out
    about = dis("inspect", "first", "--json").document
    monkeypatch.setenv("DIS_STORE", str(tmp_path / "empty-store"))
    assert dis("show", archive).out == shown
    assert dis("ls", archive).out == listed
    assert dis("cat", archive, "engine.json").out == engine
    assert {**dis("inspect", archive, "--json").document, "path": about["path"]} == about
    assert dis("path-info", about["bundle"]).code == 2


def test_diff_and_verify_compare_with_an_archive(dis: Dis, archive: Path) -> None:
    assert dis("diff", "first", archive, "--strict").code == 0
    assert dis("diff", archive, "second").code == 1
    assert dis("verify", archive, "first").code == 0


def test_a_damaged_archive_is_an_integrity_error(dis: Dis, archive: Path) -> None:
    data = bytearray(archive.read_bytes())
    data[len(data) // 2] ^= 1
    archive.write_bytes(data)
    outcome = dis("show", archive)
    outcome.check_one_block()
    assert outcome.code == 4


@pytest.mark.parametrize("command", ["log", "path-info", "why-alive"])
def test_an_archive_is_no_object_of_the_store(dis: Dis, archive: Path, command: str) -> None:
    outcome = dis(command, archive)
    outcome.check_one_block()
    assert "is an archive outside the store" in outcome.err


def test_ls_and_cat_show_what_an_object_holds(dis: Dis, realised: Realised) -> None:
    closure = json.loads(dis("cat", "first", "bundle.json").out)["inputs"]["closure"]
    assert dis("ls", closure).out == "closure.json\nmodel/\n"
    assert "model/config.json\n" in dis("ls", "-r", closure, "model").out
    rows = dis("ls", "-l", closure).out.splitlines()
    assert rows[0].split() == ["closure.json", rows[0].split()[1], closure[:12]]
    (document,) = dis("ls", closure, "model/config.json", "--json").document
    assert set(document) == {"path", "directory", "size", "executable", "object", "blake3"}
    assert realised.config.is_file()


def test_cat_gives_the_bytes_as_they_are(dis: Dis, realised: Realised) -> None:
    path = realised.path_of("first") / "bundle.json"
    assert dis("cat", "first", "bundle.json").out == path.read_text("utf-8")
    document = dis("cat", "first", "bundle.json", "--json").document
    assert document["size"] == path.stat().st_size


def test_cat_of_what_is_not_there_suggests_what_is(dis: Dis, realised: Realised) -> None:
    del realised
    outcome = dis("cat", "first", "bundel.json")
    outcome.check_one_block()
    assert "hint: did you mean bundle.json?" in outcome.err


def test_cat_of_a_damaged_file_is_an_integrity_error(dis: Dis, own_store: Realised) -> None:
    tokens = own_store.path_of("first") / "tokens.json"
    tokens.chmod(0o644)
    tokens.write_text("{}", encoding="utf-8")
    outcome = dis("cat", "first", "tokens.json")
    outcome.check_one_block()
    assert outcome.code == 4
