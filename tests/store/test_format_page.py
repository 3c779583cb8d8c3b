"""docs/internals/formats/store.md: its worked examples are what the code writes, byte for byte."""

import re
from dataclasses import replace
from pathlib import Path

import pytest

from dis_store import (
    Digest,
    Input,
    Realisation,
    Retention,
    Root,
    Store,
    index_schema,
    layout,
)
from dis_store.realisations import FORMAT as REALISATION_FORMAT
from trees import Blob, write_tree

PAGE = (Path(__file__).parents[2] / "docs/internals/formats/store.md").read_text("utf-8")
FORMAT, GREETING, GREETER, DERIVATION, REALISATION, ROOT, WISHES, LINK = re.findall(
    r"```json\n(.*?)\n```", PAGE, re.DOTALL
)
SCRIPT = b"#!/bin/sh\ncat ../greeting\n"


@pytest.fixture
def greeting(store: Store) -> Digest:
    return write_tree(store, {"greeting.txt": Blob(b"hello\n")})


@pytest.fixture
def greeter(store: Store, greeting: Digest) -> Digest:
    files = {"bin/greet": Blob(SCRIPT, executable=True)}
    return write_tree(store, files, {"greeting": (greeting, "greeting.txt")})


def stored(store: Store, path: str) -> str:
    return (store.path / path).read_text("utf-8")


def test_the_example_of_the_format_is_what_is_on_disk(store: Store) -> None:
    assert stored(store, "format.json").rstrip("\n") == FORMAT


def test_the_examples_of_manifests_are_what_is_on_disk(
    store: Store, greeting: Digest, greeter: Digest
) -> None:
    for digest, example in ((greeting, GREETING), (greeter, GREETER)):
        assert stored(store, f"manifests/{digest[:2]}/{digest}.json") == example
        assert f"Its digest is `{digest}`" in PAGE
    target = (store.object_path(greeter) / "greeting").readlink()
    assert f"is a symlink to `{target}`" in PAGE
    assert f"{Digest.of(b'hello' + bytes([10]))}  objects" in PAGE


def test_the_examples_of_records_are_what_is_on_disk(
    store: Store, tmp_path: Path, greeting: Digest, greeter: Digest
) -> None:
    derivation = store.add_derivation(DERIVATION.encode())
    assert f"Its digest is `{derivation}`" in PAGE
    key = Digest.of(b"the key of the example")
    realisation = Realisation(
        key=key,
        builder="example",
        outputs={"out": greeter},
        compared=("out",),
        inputs={"text": Input(greeting, None)},
        derivation=derivation,
        platform={"class": "any", "facts": {}},
        origin="built",
        started_at="2026-01-01T12:00:00+00:00",
        finished_at="2026-01-01T12:00:01+00:00",
        host="a-host",
        user="a-user",
        build="000102030405060708090a0b0c0d0e0f",
    )
    store.add_realisation(realisation)
    path = f"realisations/{key[:2]}/{key}/{realisation.build}.json"
    assert stored(store, path) == REALISATION
    root = Root(
        greeter, derivation, key, label="an example", created_at="2026-01-01T12:00:02+00:00"
    )
    store.set_root("example", root)
    assert stored(store, "roots/example.json") == ROOT
    wishes = replace(
        root, automatic=True, retention=Retention(30, "an example"), include=("tokens",)
    )
    store.set_root("wishes", wishes)
    assert stored(store, "roots/wishes.json") == WISHES
    link = tmp_path / "result"
    store.add_result_link(link, root)
    record = f"roots/auto/{Digest.of(bytes(link))[:32]}.json"
    assert stored(store, record).replace(str(link), "/home/someone/result") == LINK


def test_the_example_of_a_result_link_has_its_own_name() -> None:
    name = Digest.of(b"/home/someone/result")[:4]
    assert f"`roots/auto/{name}….json`" in PAGE


def test_the_versions_on_the_page_are_those_of_the_code(store: Store) -> None:
    assert f'"format":{layout.FORMAT},' in FORMAT
    assert f'"format":{REALISATION_FORMAT},' in REALISATION
    assert f"`PRAGMA user_version` is {index_schema.VERSION}." in PAGE
    assert f"{layout.RESERVE_BYTES >> 20} MiB" in PAGE


def test_every_table_and_room_is_on_the_page(store: Store) -> None:
    store.objects()
    tables = store._foundation.index.query(
        "SELECT name FROM sqlite_schema WHERE type = 'table' AND name NOT LIKE 'sqlite_%'"
    )
    described = PAGE.partition("## Index")[2].partition("## Locks")[0]
    assert {name for (name,) in tables} == set(
        re.findall(r"`([a-z_]+)`(?=[^|\n]*\| )", described)
    ) - {"user_version"}
    for path in store.path.iterdir():
        assert re.search(rf"^  .*\b{re.escape(path.name.partition('-')[0])}", PAGE, re.MULTILINE)
