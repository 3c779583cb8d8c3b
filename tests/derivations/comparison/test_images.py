"""Images are compared by layer and by what a process in them finds, as objects and as causes."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from bundles import Diff, FolderStore, Run
from dis_derivations.comparison.anything import compare
from dis_derivations.comparison.diff_schema import diff_schema
from dis_derivations.comparison.documents.documents_schema import documents_schema
from dis_derivations.comparison.page.diff_page import diff_page
from dis_derivations.comparison.render_text import render_text
from dis_derivations.runs.reference import resolve
from dis_store import Store
from dis_store.digest import Digest
from images import (
    Json,
    LayoutMaker,
    Member,
    distribution,
    dpkg_status,
    layer_of,
    sha256,
    tar_of,
)
from json_schema import faults
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


def software(torch: str, *, tzdata: str = "2024a", libc6: str = "2.36") -> bytes:
    """Return a layer with packages of two systems."""
    status = Member("var/lib/dpkg/status", dpkg_status(libc6=libc6, tzdata=tzdata, zlib1g="1.3"))
    return layer_of([status, distribution("torch", torch), distribution("some-tool", "1.0")])


def test_runs_in_other_images_say_which_packages_differ(
    diff: Diff, store: FolderStore, tmp_path: Path
) -> None:
    tops = {"one": software("2.10.0"), "two": software("2.11.0", tzdata="2025b", libc6="2.41")}
    for name, top in tops.items():
        maker = LayoutMaker(tmp_path / name)
        layout = maker.finish(maker.image((BASE, top), packing="+zstd"))
        store.add(name, {_below(layout, file): file.read_bytes() for file in _files(layout)})

    report = diff(Run().with_input("image", "one"), Run().with_input("image", "two"))

    (cause,) = report.causes
    assert cause.effect.endswith(
        "torch: computes results: can change bits; "
        "libc6: brings the mathematics of the system: can change last bits"
    )
    text = render_text(report)
    section = text[text.index("Packages in the images") :].split("\n\n")[0].splitlines()
    assert [" ".join(line.split()) for line in section] == [
        "Packages in the images: 3 changed, 0 added, 0 removed",
        "torch Python 2.10.0 → 2.11.0 computes results: can change bits",
        "libc6 Debian 2.36 → 2.41 brings the mathematics of the system: can change last bits",
        "tzdata Debian 2024a → 2025b cannot change a bit",
    ]
    document = report.to_json()
    assert faults(document, diff_schema()) == []
    assert document["image_packages"]["packages"][0] == {
        "system": "Python",
        "name": "torch",
        "old": ["2.10.0"],
        "new": ["2.11.0"],
        "effect": "computes results: can change bits",
    }
    page = diff_page(report)
    assert 'href="#packages"' in page
    assert page.index("<td>torch</td>") < page.index("<td>tzdata</td>")


def test_an_image_that_differs_in_harmless_packages_alone_says_so(
    real_store: Store, tmp_path: Path, diff: Diff, store: FolderStore
) -> None:
    for name, zone in (("one", "2024a"), ("two", "2025b")):
        maker = LayoutMaker(tmp_path / name)
        layout = maker.finish(maker.image((software("2.10.0", tzdata=zone),)))
        store.add(name, {_below(layout, file): file.read_bytes() for file in _files(layout)})

    (cause,) = diff(Run().with_input("image", "one"), Run().with_input("image", "two")).causes

    assert "only such differ as cannot change a bit" in cause.effect


def test_objects_that_are_images_say_which_packages_differ(
    real_store: Store, tmp_path: Path
) -> None:
    many = [distribution(f"p{number}", "1") for number in range(40)]
    stored = []
    for name, members in (("one", []), ("two", [*many, distribution("vllm", "0.33.0")])):
        maker = LayoutMaker(tmp_path / name)
        maker.finish(maker.image((BASE, layer_of(members)), packing=""))
        stored.append(store_image(real_store, maker))

    report = compare(real_store, *(resolve(real_store, each) for each in stored))

    text = report.text()
    assert "Packages in the images: 0 changed, 41 added, 0 removed" in text
    assert text.index("vllm") < text.index("p0 ")
    assert "… and 29 more (--json has them)" in text
    document = report.report.to_json()
    assert faults(document, documents_schema()) == []
    assert len(document["image_packages"]["packages"]) == 41


def test_a_layer_that_cannot_be_read_is_said_and_stops_nothing(
    real_store: Store, tmp_path: Path
) -> None:
    one = image(real_store, tmp_path / "one", software("2.10.0"))
    two = image(real_store, tmp_path / "two", layer_of([Member("/etc/passwd", b"root")]))

    text = compare(real_store, resolve(real_store, one), resolve(real_store, two)).text()

    assert "Packages in the images: none differs, as far as they could be read" in text
    assert "- layer 02 of B could not be read: it names the absolute path '/etc/passwd'" in text


def test_images_of_the_same_layers_have_no_packages_to_compare(
    real_store: Store, tmp_path: Path
) -> None:
    one, two = (
        image(real_store, tmp_path / value, OLD, config={"Env": [f"X={value}"]}) for value in "ab"
    )

    found = compare(real_store, resolve(real_store, one), resolve(real_store, two))

    assert found.report.to_json()["image_packages"] is None
    assert "Packages" not in found.text()


def test_closures_with_other_images_are_compared_by_layer_and_package(
    real_store: Store, tmp_path: Path
) -> None:
    closures = []
    for name, top in (("one", software("2.10.0")), ("two", software("2.11.0"))):
        inside = image(real_store, tmp_path / name, top)
        with real_store.new_tree() as tree:
            tree.write_bytes("closure.json", b'{"engine": {"name": "vllm"}}')
            tree.reference("image", inside)
            closures.append(tree.register())

    found = compare(real_store, *(resolve(real_store, each) for each in closures))

    document = found.report.to_json()
    fields = next(group for group in document["groups"] if group["kind"] == "fields")
    assert [(each["where"], each["name"]) for each in fields["changes"]] == [
        ("image", "/layers/02/content")
    ]
    assert [each["name"] for each in document["image_packages"]["packages"]] == ["torch"]
    assert "image/index.json/" not in found.text()


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
