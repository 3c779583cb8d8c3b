"""The logs of what was built."""

import os
from pathlib import Path

import pytest

from dis_derivations.runs.bundle_reader import MAX_DOCUMENT_BYTES
from dis_derivations.runs.logs import build_logs, run_log_of
from dis_derivations.runs.reference import resolve
from dis_derivations.runs.run_directory import lay_out
from dis_store import Root, Store
from dis_store.digest import Digest
from dis_store.errors import InvalidInputError
from run_shelf import add_object


def test_a_run_has_the_log_of_its_generation_and_its_own(store: Store, run: Digest) -> None:
    logs = build_logs(store, resolve(store, run))
    assert [(log.path, log.text) for log in logs] == [
        ("generation/build.log", "generated example.00000000\n"),
        ("build.log", "assembled example.00000000\n"),
    ]


def test_the_run_log_is_that_of_the_generation(store: Store, run: Digest) -> None:
    assert run_log_of(store, resolve(store, run)).text == '{"records":[]}'


def test_a_run_directory_has_its_run_log(store: Store, run: Digest, tmp_path: Path) -> None:
    (record,) = store.realisations(Digest.of(run.encode()))
    directory = lay_out(store, run, record.outputs["log"], tmp_path / "run")
    found = resolve(store, str(directory))
    assert run_log_of(store, found).text == '{"records":[]}'
    with pytest.raises(InvalidInputError, match="outside the store"):
        build_logs(store, found)


@pytest.mark.parametrize("kind", ["a link out of it", "a pipe", "too much"])
def test_a_run_directory_from_elsewhere_leads_to_no_other_file(
    store: Store, run: Digest, tmp_path: Path, kind: str
) -> None:
    directory = lay_out(store, run, None, tmp_path / "run")
    place = directory / "run_log.json"
    if kind == "a link out of it":
        (tmp_path / "secret").write_text("secret", "utf-8")
        place.symlink_to(tmp_path / "secret")
    elif kind == "a pipe":
        os.mkfifo(place)
    else:
        with place.open("wb") as stream:
            stream.truncate(MAX_DOCUMENT_BYTES + 1)
    with pytest.raises(InvalidInputError, match="no log"):
        run_log_of(store, resolve(store, str(directory)))


def test_an_object_that_nobody_remembers_building_has_no_log(store: Store) -> None:
    digest = add_object(store, {"value": b"1"})
    store.set_root("thing", Root(digest))
    for ref in (digest, "thing"):
        with pytest.raises(InvalidInputError, match="there is no log"):
            build_logs(store, resolve(store, ref))
