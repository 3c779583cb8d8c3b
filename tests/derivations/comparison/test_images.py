"""Images are compared by layer and by what a process in them finds, as objects and as causes."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from bundles import Diff, FolderStore, Run
from dis_derivations.comparison.anything import compare
from dis_derivations.runs.reference import resolve
from dis_store import Store
from dis_store.digest import Digest
from images import Json, LayoutMaker, sha256, tar_of
from run_shelf import make_writable
from stored_images import store_image

BASE, OLD, NEW = (tar_of({"file": content}) for content in (b"base", b"old", b"new"))


@pytest.fixture
def real_store(tmp_path: Path) -> Iterator[Store]:
    with Store.open(tmp_path / "store") as opened:
        yield opened
    make_writable(tmp_path / "store")


def image(store: Store, directory: Path, top: bytes, **members: Any) -> Digest:
    maker = LayoutMaker(directory)
    maker.finish(maker.image((BASE, top), **members))
    return store_image(store, maker)


def test_images_are_compared_by_layer_and_by_variable(real_store: Store, tmp_path: Path) -> None:
    one = image(real_store, tmp_path / "one", OLD, config={"Env": ["TORCH=2.10", "LANG=C"]})
    two = image(real_store, tmp_path / "two", NEW, config={"Env": ["TORCH=2.11", "LANG=C"]})

    report = compare(real_store, resolve(real_store, one), resolve(real_store, two)).report

    document = report.to_json()
    assert (document["subject"], report.same) == ("images", False)
    assert document["groups"][0]["changes"] == [
        {"where": "image", "name": "/layers/02/content", "old": sha256(OLD), "new": sha256(NEW)},
        {"where": "image", "name": "/variables/TORCH", "old": "2.10", "new": "2.11"},
    ]


def test_the_command_that_made_a_layer_is_said(real_store: Store, tmp_path: Path) -> None:
    def history(version: str) -> list[Json]:
        return [
            {"created_by": "ADD rootfs.tar /"},
            {"created_by": "ENV X=1", "empty_layer": True},
            {"created_by": f"RUN install torch=={version}"},
        ]

    one = image(real_store, tmp_path / "one", OLD, history=history("2.10"))
    two = image(real_store, tmp_path / "two", NEW, history=history("2.11"))

    text = compare(real_store, resolve(real_store, one), resolve(real_store, two)).text()

    assert '/layers/02/made_by: "RUN install torch==2.10" → "RUN install torch==2.11"' in text
    assert "/layers/01" not in text


def test_runs_in_other_images_say_which_layers_differ(
    diff: Diff, store: FolderStore, tmp_path: Path
) -> None:
    for name, top in (("one", OLD), ("two", NEW)):
        maker = LayoutMaker(tmp_path / name)
        layout = maker.finish(maker.image((BASE, top)))
        store.add(name, {_below(layout, file): file.read_bytes() for file in _files(layout)})

    report = diff(Run().with_input("image", "one"), Run().with_input("image", "two"))

    (cause,) = report.causes
    assert cause.kind == "software"
    assert [change.name for change in cause.changes] == ["/layers/02/content"]


@pytest.mark.parametrize("index", [b"{}", b"no JSON", b'{"schemaVersion": 2, "manifests": []}'])
def test_what_is_no_image_as_dis_keeps_them_is_named_by_object(
    diff: Diff, store: FolderStore, index: bytes
) -> None:
    for name in ("one", "two"):
        store.add(name, {"oci-layout": name.encode(), "index.json": index})

    (cause,) = diff(Run().with_input("image", "one"), Run().with_input("image", "two")).causes

    assert [(change.where, change.name) for change in cause.changes] == [("object", "image")]


def _files(directory: Path) -> list[Path]:
    return [path for path in sorted(directory.rglob("*")) if path.is_file()]


def _below(directory: Path, path: Path) -> str:
    return path.relative_to(directory).as_posix()
