"""Locks that were edited, and files that are not what a lock or a manifest says: nothing is replaced by a guess."""

import os
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from dis_store import canonical_json
from users import User

LOCK = "tiny.lock.json"


def locked(user: User) -> dict[str, Any]:
    """Lock the manifest and return the lock."""
    user.does("lock", "tiny.json")
    return user.document(LOCK)


EDITS: dict[str, tuple[Callable[[dict[str, Any]], None], int, str]] = {
    "a digest": (
        lambda lock: lock["artifacts"][0].update(digest="sha256:" + "0" * 64),
        4,
        "was changed after it was made",
    ),
    "its id": (
        lambda lock: lock.update(lock_id="sha256:" + "0" * 64),
        4,
        "was changed after it was made",
    ),
    "its id to no text": (lambda lock: lock.update(lock_id=5), 4, "it says 5"),
    "its kind": (lambda lock: lock.update(kind="x"), 2, "its kind is 'x'"),
    "its version": (lambda lock: lock.update(schema_version=2), 2, "its schema_version is 2"),
    "a missing field": (lambda lock: lock.pop("sources"), 2, "has no 'sources'"),
    "an unknown field": (lambda lock: lock.update(extra=1), 2, "the unknown field 'extra'"),
    "a path that leads out": (
        lambda lock: lock["artifacts"][0].update(path="../../etc/passwd"),
        2,
        "it has the component '..'",
    ),
    "an absolute path": (lambda lock: lock["artifacts"][0].update(path="/etc/passwd"), 2, "path"),
    "a size that is none": (lambda lock: lock["artifacts"][0].update(size=-1), 2, "a wrong size"),
    "a file twice": (
        lambda lock: lock["artifacts"].append(lock["artifacts"][0]),
        2,
        "'dataset.txt' of inference.prompt_dataset twice",
    ),
    "no list of files": (lambda lock: lock.update(artifacts={}), 2, "artifacts is a list"),
}


@pytest.mark.parametrize("case", EDITS)
def test_an_edited_lock_is_refused_until_it_is_out_of_the_way(user: User, case: str) -> None:
    edit, code, says = EDITS[case]
    lock = locked(user)
    edit(lock)
    user.write(LOCK, lock)
    for command in ("realize", "lock", "inspect"):
        user.refused(command, "tiny.json", code=code, says=(LOCK, says, "move it away"))
    user.path(LOCK).rename(user.path("away"))
    user.does("lock", "tiny.json")
    user.does("realize", "tiny.json")


TEXTS: dict[str, Callable[[bytes], bytes]] = {
    "cut off": lambda text: text[:300],
    "empty": lambda _: b"",
    "with a key twice": lambda text: text.replace(b"{", b'{"kind": "x",', 1),
    "in UTF-16": lambda text: text.decode().encode("utf-16"),
}


@pytest.mark.parametrize("case", TEXTS)
def test_a_lock_that_is_no_json_is_refused_until_it_is_out_of_the_way(
    user: User, case: str
) -> None:
    locked(user)
    user.alter(LOCK, TEXTS[case])
    says = (LOCK, "is not valid JSON", "move it away")
    user.refused("realize", "tiny.json", says=says)
    user.refused("lock", "tiny.json", says=says)
    user.recovers()


@pytest.mark.timeout(30)
@pytest.mark.parametrize("thing", ["a directory", "a named pipe"])
def test_a_lock_that_is_no_file_is_refused_at_once(user: User, thing: str) -> None:
    user.path(LOCK).mkdir() if thing == "a directory" else os.mkfifo(user.path(LOCK))
    user.refused("realize", "tiny.json", says=LOCK)
    user.recovers()


def test_a_forged_lock_with_a_right_id_is_found_out_by_the_bytes(user: User) -> None:
    lock = locked(user)
    lock["artifacts"][-1]["digest"] = "sha256:" + "0" * 64
    sealed = {
        "schema_version": 1,
        "kind": lock["kind"],
        "sources": lock["sources"],
        "artifacts": [
            {name: file[name] for name in ("name", "path", "size", "digest", "executable")}
            for file in lock["artifacts"]
        ],
    }
    lock["lock_id"] = str(canonical_json.sha256(sealed))
    user.write(LOCK, lock)
    says = ("model.safetensors is not the file that was locked", "dis lock")
    user.refused("realize", "tiny.json", code=4, says=says)
    user.recovers()


def test_a_lock_that_must_be_there_is_named(user: User) -> None:
    user.refused("realize", "tiny.json", "--locked", says=("--locked", "dis lock tiny.json"))
    user.does("lock", "tiny.json")
    user.does("realize", "tiny.json", "--locked")
    user.edit({"model.weights.files": [{"path": "model.safetensors"}]})
    user.refused("realize", "tiny.json", "--locked", says=("stale", "dis lock tiny.json"))


CHANGES: dict[str, Callable[[Path], object]] = {
    "model/model.safetensors": lambda path: path.write_bytes(path.read_bytes()[:-1] + b"\1"),
    "model/tokenizer.json": lambda path: path.write_bytes(path.read_bytes() + b" "),
    "model/config.json": lambda path: path.write_bytes(path.read_bytes() + b" "),
    "prompts.txt": lambda path: path.write_text("other\nprompts\nthan before\n"),
}


@pytest.mark.parametrize("name", CHANGES)
def test_a_file_that_changed_since_it_was_locked_is_not_taken_for_it(
    user: User, name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    locked(user)
    CHANGES[name](user.path(name))
    # The store that locked still has what was locked.
    user.does("realize", "tiny.json")
    monkeypatch.setenv("DIS_STORE", str(tmp_path / "elsewhere"))
    file = "dataset.txt" if name == "prompts.txt" else Path(name).name
    user.refused("realize", "tiny.json", code=4, says=(f"{file} is not the file", "wanted sha256:"))
    shutil.copy(user.pristine / name, user.path(name))
    user.does("realize", "tiny.json")


@pytest.mark.parametrize("name", CHANGES)
def test_a_file_that_is_gone_since_it_was_locked_is_named(
    user: User, name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    locked(user)
    user.path(name).unlink()
    user.does("realize", "tiny.json")
    monkeypatch.setenv("DIS_STORE", str(tmp_path / "elsewhere"))
    user.refused("realize", "tiny.json", code=3, says=f"there is no file {user.path(name)}")
    shutil.copy(user.pristine / name, user.path(name))
    user.does("realize", "tiny.json")


@pytest.mark.parametrize(
    ("field", "value"),
    [
        ("model.weights.files", [{"path": "model.safetensors", "digest": "sha256:" + "1" * 64}]),
        ("model.config.files", [{"path": "config.json", "digest": "1" * 64}]),
        ("inference.dataset.digest", "sha256:" + "1" * 64),
    ],
)
def test_a_wrong_declared_digest_is_refused_with_the_one_that_was_found(
    user: User, field: str, value: object
) -> None:
    user.edit({field: value})
    says = ("is not what the manifest declares", "declared sha256:1111", "found sha256:")
    user.refused("realize", "tiny.json", code=4, says=says)
    user.recovers()
    user.does("lock", "tiny.json")
    user.edit({field: value})
    user.refused("realize", "tiny.json", code=4, says=says)


@pytest.mark.parametrize(
    ("name", "says"),
    [
        ("model/model.safetensors", "model.weight *.safetensors: no such file was found"),
        ("model/tokenizer.json", "model.tokenizer *: no such file was found"),
        ("model/config.json", "model.config config.json: no such file was found"),
        ("prompts.txt", "inference.prompt_dataset dataset.txt: there is no file"),
    ],
)
def test_a_file_that_is_not_there_is_named(user: User, name: str, says: str) -> None:
    user.path(name).unlink()
    user.refused("realize", "tiny.json", code=5, says=says)
    user.refused("lock", "tiny.json", code=5, says=says)
    assert not user.path(LOCK).exists()
    user.recovers()


@pytest.mark.timeout(30)
@pytest.mark.parametrize("thing", ["a directory", "a named pipe", "a device", "a link outside"])
@pytest.mark.parametrize("name", ["model/model.safetensors", "model/config.json", "prompts.txt"])
def test_a_thing_that_is_no_file_of_the_model_is_refused_at_once(
    user: User, name: str, thing: str
) -> None:
    path = user.path(name)
    path.rename(user.path("away"))
    if thing == "a directory":
        path.mkdir()
    elif thing == "a named pipe":
        os.mkfifo(path)
    else:
        path.symlink_to("/dev/zero" if thing == "a device" else user.path("away"))
    if (name, thing) == ("prompts.txt", "a link outside"):
        user.does("realize", "tiny.json")  # a dataset is named by itself, not by a directory
        return
    outcome = user.dis("realize", "tiny.json")
    assert outcome.code in {2, 5}
    user.refused("realize", "tiny.json", code=outcome.code, says="cannot be")
    user.recovers()
