import os
from pathlib import Path

from dis_derivations.sources.local import LocalDirectory, LocalFile
from dis_derivations.sources.source import Problem
from dis_store.errors import InvalidInputError, UnfitEnvironmentError
from model_directories import MODEL_FILES, write_model


def reason(problem: Problem | None) -> str | None:
    return None if problem is None else problem.reason


def test_a_directory_lists_its_files_and_has_no_problem_with_them(tmp_path: Path) -> None:
    source = LocalDirectory(write_model(tmp_path / "model"))
    assert source.listing() == sorted(MODEL_FILES)
    assert [source.problem(name) for name in MODEL_FILES] == [None] * len(MODEL_FILES)
    assert source.size("config.json") == 3
    assert source.available() is None


def test_directories_are_not_listed(tmp_path: Path) -> None:
    (tmp_path / "x.safetensors").mkdir()
    assert LocalDirectory(tmp_path).listing() == []


def test_a_directory_that_is_not_there_is_not_available(tmp_path: Path) -> None:
    gone = LocalDirectory(tmp_path / "gone").available()
    assert gone is not None
    assert gone.reason == f"there is no directory {tmp_path / 'gone'}"
    (tmp_path / "file").write_text("")
    file = LocalDirectory(tmp_path / "file").available()
    assert file is not None
    assert file.reason.endswith("file is not a directory")
    assert LocalDirectory(tmp_path / "gone").listing() == []


def test_what_is_missing_or_no_file_is_a_problem(tmp_path: Path) -> None:
    (tmp_path / "directory").mkdir()
    os.mkfifo(tmp_path / "pipe")
    (tmp_path / "loop").symlink_to("loop")
    (tmp_path / "file").write_text("")
    source = LocalDirectory(tmp_path)
    assert reason(source.problem("gone")) == "not_found"
    assert reason(source.problem("file/below")) == "not_found"
    assert reason(source.problem("loop")) == "not_found"
    assert reason(source.problem("directory")) == "not_a_file"
    assert reason(source.problem("pipe")) == "not_a_file"
    assert source.size("gone") is None
    assert reason(LocalFile(tmp_path / "directory", "dataset.json").problem("")) == "not_a_file"


def test_a_link_within_the_directory_is_followed_and_one_out_of_it_is_refused(
    tmp_path: Path,
) -> None:
    model = write_model(tmp_path / "model")
    secret = tmp_path / "secret"
    secret.write_text("key")
    (model / "inside.json").symlink_to("config.json")
    (model / "outside.json").symlink_to(secret)
    (model / "sub").symlink_to(tmp_path)
    source = LocalDirectory(model)
    assert source.problem("inside.json") is None
    assert reason(source.problem("outside.json")) == "symlink"
    assert reason(source.problem("sub/secret")) == "symlink"


def test_a_directory_may_itself_be_a_link(tmp_path: Path) -> None:
    write_model(tmp_path / "model")
    (tmp_path / "link").symlink_to("model")
    assert LocalDirectory(tmp_path / "link").problem("config.json") is None


def test_a_snapshot_of_the_hub_cache_may_link_into_the_blobs_beside_it(tmp_path: Path) -> None:
    repository = tmp_path / "models--org--name"
    snapshot = repository / "snapshots" / ("0" * 40)
    snapshot.mkdir(parents=True)
    (repository / "blobs").mkdir()
    (repository / "blobs/abc").write_text("{}")
    (repository / "refs").write_text("secret")
    (snapshot / "config.json").symlink_to("../../blobs/abc")
    (snapshot / "other.json").symlink_to("../../refs")
    source = LocalDirectory(snapshot)
    assert source.listing() == ["config.json", "other.json"]
    assert source.problem("config.json") is None
    assert reason(source.problem("other.json")) == "symlink"


def test_what_a_check_refuses_is_a_problem_with_its_hint(tmp_path: Path) -> None:
    write_model(tmp_path)

    def unsafe(path: str, _source: Path) -> None:
        raise InvalidInputError(f"{path} is a pickle", hint="convert it")

    def unfit(path: str, _source: Path) -> None:
        raise UnfitEnvironmentError(f"{path} is a GGUF file")

    problem = LocalDirectory(tmp_path, check=unsafe).problem("config.json")
    assert problem == Problem("unsafe_file", "config.json is a pickle", "convert it")
    assert (
        reason(LocalDirectory(tmp_path, check=unfit).problem("config.json")) == "format_unavailable"
    )
    assert reason(LocalDirectory(tmp_path, check=unsafe).problem("gone")) == "not_found"
