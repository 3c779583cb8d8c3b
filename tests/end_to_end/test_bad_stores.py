"""Stores that are something else, too new, or damaged: what is said names the way on, and that way leads on."""

import os
import shutil
import sqlite3
import subprocess
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest

from users import User


@pytest.fixture
def owner(user: User, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> User:
    """A user with a store of their own, a copy, in which the run is realised as `first`."""
    user.does("realize", "tiny.json", "--name", "first")
    store = tmp_path / "own"
    # Files of the store are hard links of each other, and a copy that cuts them is another store.
    subprocess.run(["cp", "-a", str(user.store), str(store)], check=True)
    monkeypatch.setenv("DIS_STORE", str(store))
    return replace(user, store=store)


def damage(path: Path, change: Callable[[bytes], bytes]) -> None:
    """Change a file of a store, whatever its mode, and leave its mode as it is."""
    mode = path.stat().st_mode
    path.chmod(0o644)
    path.write_bytes(change(path.read_bytes()))
    path.chmod(mode)


def flip(data: bytes) -> bytes:
    """Return the bytes with one bit changed."""
    return data[:-9] + bytes([data[-9] ^ 1]) + data[-8:]


def stored(user: User, name: str) -> Path:
    """Return a file at the top of an object."""
    return min((user.store / "objects").glob(f"*/*/{name}"))


PLACES: dict[str, tuple[str, int, str]] = {
    "a file": ("prompts.txt", 2, "it is not a directory"),
    "below a file": ("prompts.txt/store", 2, "it is not a directory"),
    "another directory": ("model", 2, "is not a store"),
    "a device": ("/dev/null", 2, "it is not a directory"),
    "where nothing can be": ("/proc/nowhere", 5, "cannot be used"),
    "a name that is too long": ("x" * 300, 5, "File name too long"),
    "a name that is no text": ("\udcff", 2, "its path is not UTF-8"),
    "no name": ("", 2, "names no directory"),
}


@pytest.mark.parametrize("case", PLACES)
def test_a_place_that_is_no_store_is_refused_and_left_alone(user: User, case: str) -> None:
    place, code, says = PLACES[case]
    for argv in (["list"], ["realize", "tiny.json"], ["gc"]):
        user.refused(*argv, "--store", place, code=code, says=says)
    user.recovers()


def test_a_store_of_a_newer_version_is_left_alone(owner: User) -> None:
    record = owner.store / "format.json"
    before = record.read_bytes()
    damage(record, lambda _: b'{"format":99,"type":"store"}\n')
    for argv in (["list"], ["realize", "tiny.json"], ["gc"], ["store", "reindex"]):
        says = ("too new for this version of dis", "upgrade dis")
        owner.refused(*argv, code=5, says=says)
    damage(record, lambda _: before)
    owner.recovers()


def test_an_index_of_a_newer_version_is_left_alone(owner: User) -> None:
    with sqlite3.connect(owner.store / "index.sqlite") as index:
        (version,) = index.execute("PRAGMA user_version").fetchone()
        index.execute("PRAGMA user_version = 99")
    owner.refused("realize", "tiny.json", code=5, says=("too new for this version", "upgrade dis"))
    with sqlite3.connect(owner.store / "index.sqlite") as index:
        index.execute(f"PRAGMA user_version = {version}")
    owner.recovers()


INDEXES: dict[str, Callable[[Path], object]] = {
    "garbage": lambda path: path.write_bytes(b"garbage" * 1000),
    "cut off": lambda path: path.write_bytes(path.read_bytes()[: path.stat().st_size // 2]),
    "cut off in the header": lambda path: path.write_bytes(path.read_bytes()[:1000]),
    "garbage in the middle": lambda path: damage(
        path, lambda data: data[:4096] + b"\xff" * 8192 + data[12288:]
    ),
    "empty": lambda path: path.write_bytes(b""),
    "deleted": lambda path: path.unlink(),
}


@pytest.mark.parametrize("case", INDEXES)
def test_a_damaged_index_names_the_command_that_rebuilds_it(owner: User, case: str) -> None:
    path = owner.store / "index.sqlite"
    # Without connections nothing is left in the log beside the index.
    with sqlite3.connect(path) as index:
        index.execute("PRAGMA wal_checkpoint(TRUNCATE)")
    for beside in ("-wal", "-shm"):
        path.with_name(f"{path.name}{beside}").unlink(missing_ok=True)
    INDEXES[case](path)
    says = (f"the index of the store {owner.store} is", "rebuild it: dis store reindex")
    for argv in (["list"], ["show", "first"], ["gc"], ["realize", "tiny.json", "--rebuild"]):
        owner.refused(*argv, code=4, says=says)
    owner.does("store", "reindex")
    owner.recovers()
    assert "first" in owner.does("list").out


@pytest.mark.parametrize("name", ["model.safetensors", "config.json", "tokenizer.json"])
def test_a_flipped_bit_is_found_and_named_and_can_be_repaired(owner: User, name: str) -> None:
    path = stored(owner, name)
    damage(path, flip)
    found = owner.dis("store", "verify", "--all")
    assert found.code == 4
    assert f"changed: {path.parent.name}/{name}" in found.out
    # Anything that would use the file notices it as well, and says so.
    arguments = ("realize", "tiny.json", "--set", "inference.n_prompts=2")
    owner.refused(*arguments, code=4, says=(name, "has changed in the store", "dis store verify"))
    assert owner.dis("store", "reindex").code == 4
    assert [each for each in (owner.store / "quarantine").rglob("*") if each.name == name]
    owner.does(*arguments)
    owner.does("realize", "tiny.json", "--rebuild")
    owner.recovers()


def test_a_flipped_bit_in_the_prompts_is_noticed_by_the_next_build(owner: User) -> None:
    damage(stored(owner, "dataset.txt"), flip)
    arguments = ("realize", "tiny.json", "--set", "inference.n_prompts=2")
    owner.refused(*arguments, code=4, says="dataset.txt of the object")


@pytest.mark.parametrize("name", ["model.safetensors", "bundle.json", "requests.json"])
def test_an_object_that_is_gone_is_found_and_can_be_made_again(owner: User, name: str) -> None:
    directory = stored(owner, name).parent
    directory.chmod(0o755)
    shutil.rmtree(directory)
    found = owner.dis("store", "verify", "--all")
    assert found.code == 4
    assert f"row without tree: {directory.name}" in found.out
    owner.dis("store", "reindex")
    owner.does("realize", "tiny.json", "--rebuild")
    owner.does("realize", "tiny.json")
    owner.recovers()


def test_a_damaged_run_is_listed_as_damaged_beside_the_others(owner: User) -> None:
    owner.does("realize", "tiny.json", "--name", "second", "--set", "inference.n_prompts=2")
    bundle = Path(owner.does("path-info", "second").out.strip())
    damage(bundle / "bundle.json", lambda _: b'{"x')
    rows = {row["name"]: row for row in owner.does("list", "--json").document}
    assert rows["second"]["grade"] == "damaged"
    assert "bundle.json" in rows["second"]["problem"]
    assert rows["first"]["grade"] == "conformant"
    for argv in (["show", "second"], ["diff", "first", "second"], ["inspect", "second"]):
        owner.refused(*argv, code=4, says=("bundle.json", "dis store verify"))
    owner.does("show", "first")


@pytest.mark.parametrize("name", ["bundle.json", "tokens.json", "manifest.used.json"])
def test_a_stored_document_that_changed_but_can_be_read_is_noticed(owner: User, name: str) -> None:
    bundle = Path(owner.does("path-info", "first").out.strip())
    damage(bundle / name, lambda data: data.replace(b"1", b"2"))
    owner.refused("show", "first", code=4, says=(name, "its BLAKE3 is"))


def test_an_incomplete_closure_says_how_to_go_on_and_that_way_leads_on(owner: User) -> None:
    damage(stored(owner, "model.safetensors"), flip)
    found = owner.dis("store", "verify", "--all")
    assert "dis store reindex" in found.err
    again = owner.dis("store", "reindex")
    assert "dis realize CONFIG --rebuild" in again.err
    found = owner.dis("store", "verify", "--all")
    assert (found.code, "incomplete: " in found.out) == (4, True)
    assert "dis realize CONFIG --rebuild" in found.err
    assert "dis store reindex" not in found.err
    owner.does("realize", "tiny.json", "--rebuild")
    owner.does("store", "verify", "--all")
    owner.recovers()


def test_an_incomplete_closure_that_nothing_keeps_any_more_is_collected(owner: User) -> None:
    damage(stored(owner, "model.safetensors"), flip)
    owner.dis("store", "reindex")
    names = [row["name"] for row in owner.does("root", "list", "--json").document]
    owner.does("root", "remove", *names)
    owner.does("gc")
    owner.recovers()


FORMATS: dict[str, Callable[[Path], object]] = {
    "lost": lambda path: path.unlink(),
    "garbage": lambda path: damage(path, lambda _: b"xx"),
    "of something else": lambda path: damage(path, lambda _: b"{}"),
}


@pytest.mark.parametrize("case", FORMATS)
def test_a_store_that_lost_its_format_is_still_known_as_a_store(owner: User, case: str) -> None:
    record = owner.store / "format.json"
    FORMATS[case](record)
    says = ("does not say which format it has", str(record), "echo")
    for argv in (["list"], ["realize", "tiny.json"], ["gc"], ["store", "reindex"]):
        said = owner.refused(*argv, code=4, says=says)
    command = said.partition("made the store: ")[2].partition("\nmore: ")[0]
    subprocess.run(["sh", "-c", command], check=True)
    owner.does("show", "first")
    owner.recovers()


def test_an_index_that_became_a_directory_can_be_rebuilt(owner: User) -> None:
    path = owner.store / "index.sqlite"
    for each in owner.store.glob("index.sqlite*"):
        each.unlink()
    path.mkdir()
    says = (f"the index of the store {owner.store} is damaged", "dis store reindex")
    for argv in (["list"], ["gc"]):
        owner.refused(*argv, code=4, says=says)
    owner.does("store", "reindex")
    owner.recovers()


def test_a_damaged_root_is_named_and_nothing_is_collected_by_a_guess(owner: User) -> None:
    damage(owner.store / "roots" / "first.json", lambda _: b"xx")
    owner.refused("gc", code=4, says="the root 'first' is damaged")
    found = owner.dis("store", "verify", "--all")
    assert (found.code, "damaged root: first" in found.out) == (4, True)
    owner.does("realize", "tiny.json")
    (owner.store / "roots" / "first.json").unlink()
    owner.does("gc")
    owner.recovers()


def test_a_damaged_root_stops_only_what_is_about_it(owner: User) -> None:
    owner.does("realize", "tiny.json", "--name", "second", "--set", "inference.n_prompts=2")
    record = owner.store / "roots" / "first.json"
    damage(record, lambda _: b"xx")
    says = ("the root 'first' is damaged", str(record), "dis root remove first")
    for argv in (["show", "first"], ["gc"], ["root", "add", "third", "first"]):
        owner.refused(*argv, code=4, says=says)
    for argv in (["list"], ["root", "list"]):
        outcome = owner.dis(*argv)
        assert outcome.code == 4
        assert all(part in outcome.err for part in says)
        assert "second" in outcome.out
        outcome.check_one_block()
    digest = Path(owner.does("path-info", "second").out.strip()).name
    for argv in (["show", "second"], ["show", digest], ["ls", "second"], ["inspect", "second"]):
        owner.does(*argv)
    for argv in (["store", "verify", "--all"], ["store", "reindex"]):
        found = owner.dis(*argv)
        assert (found.code, "damaged root: first" in found.out) == (4, True)
        assert str(record) in found.out
    assert "damaged" in owner.does("root", "remove", "first").err
    owner.does("list")
    owner.does("gc")
    owner.recovers()


def test_a_damaged_record_of_a_build_is_named_and_costs_a_build(owner: User) -> None:
    record = min((owner.store / "realisations").rglob("*.json"))
    damage(record, lambda _: b"xx")
    found = owner.dis("store", "verify", "--all")
    assert found.code == 4
    assert f"damaged realisation: {record.parent.name}/{record.name}" in found.out
    owner.dis("store", "reindex")
    owner.does("realize", "tiny.json", "--rebuild")
    owner.recovers()


def test_a_damaged_derivation_is_named(owner: User) -> None:
    path = min(each for each in (owner.store / "derivations").rglob("*") if each.is_file())
    damage(path, lambda _: b"xx")
    found = owner.dis("store", "verify", "--all")
    assert found.code == 4
    assert f"damaged derivation: {path.name[:64]}" in found.out


def test_what_somebody_else_put_into_a_store_is_left_alone(owner: User) -> None:
    for name in ("objects/README", "roots/README", "README"):
        (owner.store / name).write_text("mine", "utf-8")
    os.mkfifo(owner.store / "realisations/pipe")
    owner.does("gc")
    owner.does("store", "reindex")
    owner.recovers()
    assert (owner.store / "README").read_text("utf-8") == "mine"
