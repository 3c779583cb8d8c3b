"""The files that a REF shows."""

from pathlib import Path

import pytest

from bundles import Run
from dis_derivations.runs.contents import Contents
from dis_derivations.runs.reference import resolve
from dis_store import Store
from dis_store.digest import Digest
from dis_store.errors import IntegrityError, InvalidInputError
from run_shelf import add_object


@pytest.fixture
def inner(store: Store) -> Digest:
    return add_object(store, {"deep/one": b"1", "deep/two": b"22"})


@pytest.fixture
def outer(store: Store, inner: Digest) -> Digest:
    with store.new_tree() as tree:
        tree.write_bytes("run.sh", b"#!/bin/sh\n", executable=True)
        tree.reference("model", inner)
        return tree.register()


@pytest.fixture
def contents(store: Store, outer: Digest) -> Contents:
    return Contents(store, resolve(store, outer))


def test_the_top_shows_directories_with_all_that_is_in_them(contents: Contents) -> None:
    assert [(each.path, each.size, each.directory) for each in contents.listing()] == [
        ("model", 3, True),
        ("run.sh", 10, False),
    ]
    assert [each.executable for each in contents.listing()] == [False, True]


@pytest.mark.parametrize("path", ["model", "model/", "/model"])
def test_a_directory_shows_what_it_holds(contents: Contents, path: str) -> None:
    assert [each.path for each in contents.listing(path)] == ["model/deep"]


def test_recursively_all_files_are_shown_with_their_owners(
    contents: Contents, inner: Digest, outer: Digest
) -> None:
    assert [(each.path, each.owner) for each in contents.listing(recursive=True)] == [
        ("model/deep/one", inner),
        ("model/deep/two", inner),
        ("run.sh", outer),
    ]


def test_a_file_shows_itself_and_gives_its_bytes(contents: Contents) -> None:
    (file,) = contents.listing("model/deep/two")
    assert file == contents.file("model/deep/two")
    assert b"".join(contents.chunks(file)) == b"22"


@pytest.mark.parametrize("path", ["model/deep/twos", "nothing", "..", "mod"])
def test_a_path_to_nothing_is_refused(contents: Contents, path: str) -> None:
    for look in (contents.listing, contents.file):
        with pytest.raises(InvalidInputError, match="has no file"):
            look(path)


def test_an_empty_object_shows_nothing(store: Store) -> None:
    assert Contents(store, resolve(store, add_object(store, {}))).listing() == []


def test_damage_is_told(store: Store, contents: Contents, inner: Digest) -> None:
    file = contents.file("model/deep/two")
    path = store.object_path(inner) / "deep" / "two"
    path.chmod(0o644)
    path.write_bytes(b"23")
    with pytest.raises(IntegrityError, match="not what it must be"):
        list(contents.chunks(file))
    path.parent.chmod(0o755)
    path.unlink()
    with pytest.raises(IntegrityError, match="not there any more"):
        list(contents.chunks(file))


def test_a_run_directory_shows_its_files(store: Store, example: Run, tmp_path: Path) -> None:
    example.write(tmp_path / "laid-out")
    contents = Contents(store, resolve(store, f"{tmp_path}/laid-out"))
    assert [each.path for each in contents.listing()] == sorted(example.files())
    file = contents.file("engine.json")
    assert b"".join(contents.chunks(file)) == example.files()["engine.json"]
    assert (file.owner, file.blake3) == (None, None)


def test_a_manifest_shows_no_files(store: Store, tmp_path: Path) -> None:
    path = tmp_path / "m.json"
    path.write_text('{"kind":"vllm.deterministic_inference_manifest"}', encoding="utf-8")
    with pytest.raises(InvalidInputError, match="a manifest, not a run"):
        Contents(store, resolve(store, str(path)))
