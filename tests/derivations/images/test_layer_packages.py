"""Packages of images are those that are to be seen when layers lie on each other, and few layers are read for it."""

import tarfile
from collections.abc import Sequence
from pathlib import Path
from typing import Literal

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from dis_derivations.images.contents.image_packages import (
    ImageLayer,
    PackageDifferences,
)
from dis_derivations.images.contents.layer_packages import (
    LayerPackages,
    PackageList,
    Unread,
    apply_layers,
    read_layer,
)
from dis_derivations.images.contents.layer_stream import Allowance
from image_layers import compared, layer, read, shown
from images import PACKINGS, Member, distribution, dpkg_status, layer_of

STATUS = "var/lib/dpkg/status"
FORMS: tuple[Literal[0, 1, 2], ...] = (tarfile.USTAR_FORMAT, tarfile.GNU_FORMAT, tarfile.PAX_FORMAT)
DIRECTORY, LINK = tarfile.DIRTYPE, tarfile.SYMTYPE


# A layer is drawn as operations, and its meaning is told twice: by dis, and by a dictionary of files.

LISTS = (
    STATUS,
    "var/lib/dpkg/status.d/base",
    "lib/apk/db/installed",
    "p/q/x-1.dist-info/METADATA",
    "p/y-1.dist-info/METADATA",
    "z-1.dist-info/METADATA",
)
PLACES = sorted({*LISTS, "p", "p/q", "var", "var/lib", "other"})
Operation = tuple[str, str]


def parents(path: str) -> list[str]:
    parts = path.split("/")[:-1]
    return ["/".join(parts[: count + 1]) for count in range(len(parts))]


def without_contradictions(operations: Sequence[Operation]) -> list[Operation]:
    """Keep one member of a name, and none below one that is no directory: such layers mean nothing."""
    kept: dict[str, Operation] = {}
    for kind, path in operations:
        if kind in ("whiteout", "opaque"):
            kept[f"{kind} {path}"] = (kind, path)
            continue
        below = any(kept.get(each, ("directory",))[0] != "directory" for each in parents(path))
        above = kind != "directory" and any(each.startswith(f"{path}/") for each in kept)
        if not (below or above):
            kept[path] = (kind, path)
    return list(kept.values())


layers = st.lists(
    st.tuples(
        st.sampled_from(
            ("list", "list", "list", "file", "link", "directory", "whiteout", "opaque")
        ),
        st.sampled_from(PLACES),
    ),
    max_size=8,
).map(without_contradictions)


def content(path: str, number: int) -> bytes:
    if path.endswith("METADATA"):
        name, version = path.split("/")[-2].removesuffix(".dist-info").split("-")
        return f"Name: {name}\nVersion: {version}\n".encode()
    if path.endswith("installed"):
        return f"C:Q1=\nP:musl\nV:{number}\n\n".encode()
    # A name of its own for each list, so that the model needs no rule for packages that two lists name.
    return dpkg_status(**{"status" if path == STATUS else "base": str(number)})


def members(operations: Sequence[Operation], number: int) -> list[Member]:
    made = []
    for kind, path in operations:
        directory, _, name = path.rpartition("/")
        if kind == "whiteout":
            made.append(Member(f"{directory}/.wh.{name}" if directory else f".wh.{name}"))
        elif kind == "opaque":
            made.append(Member(f"{path}/.wh..wh..opq"))
        elif kind == "directory":
            made.append(Member(f"./{path}/", kind=DIRECTORY))
        elif kind == "link":
            made.append(Member(path, kind=LINK, target="elsewhere"))
        elif path in LISTS:
            made.append(Member(path, content(path, number)))
        else:
            made.append(Member(path, b"any"))
    return made


def model(stack: Sequence[tuple[Sequence[Operation], int]]) -> dict[str, int | None]:
    """Return the files that are to be seen: the number of their layer, or None for a link."""
    files: dict[str, int | None] = {}
    for operations, number in stack:
        hiding = [each for each in operations if each[0] in ("whiteout", "opaque")]
        for kind, path in hiding:
            remove(files, path, itself=kind == "whiteout")
        for kind, path in (each for each in operations if each not in hiding):
            for parent in parents(path):
                files.pop(parent, None)
            if kind == "directory":
                files.pop(path, None)
            else:
                remove(files, path, itself=True)
                files[path] = None if kind == "link" else number
    return {path: number for path, number in files.items() if path in LISTS}


def remove(files: dict[str, int | None], path: str, *, itself: bool) -> None:
    for each in list(files):
        if each.startswith(f"{path}/") or (itself and each == path):
            del files[each]


def told(lists: dict[str, PackageList]) -> dict[str, int | None]:
    """Return the same of what dis says; the version of a Python distribution says nothing of its layer."""
    seen: dict[str, int | None] = {}
    for path, packages in lists.items():
        if isinstance(packages, Unread):
            seen[path] = None
        elif packages:
            (package,) = packages
            seen[path] = 1 if path.endswith("METADATA") else int(package.version)
    return seen


@given(
    st.lists(layers, min_size=1, max_size=4),
    st.sampled_from(FORMS),
    st.sampled_from(sorted(PACKINGS)),
)
@settings(max_examples=80, deadline=None, suppress_health_check=[HealthCheck.too_slow])
def test_layers_lie_on_each_other_as_a_simple_model_says(
    tmp_path_factory: pytest.TempPathFactory,
    stack: list[list[Operation]],
    form: Literal[0, 1, 2],
    packing: str,
) -> None:
    directory = tmp_path_factory.mktemp("layers")
    found = [
        read(
            directory,
            PACKINGS[packing](layer_of(members(operations, number), form)),
            packing.removeprefix("+") or "none",
        )
        for number, operations in enumerate(stack)
    ]

    expected = model([(operations, number) for number, operations in enumerate(stack)])
    expected = {
        path: 1 if number is not None and path.endswith("METADATA") else number
        for path, number in expected.items()
    }
    assert told(apply_layers(found, Allowance())) == expected


@given(st.lists(layers, max_size=2), st.lists(layers, max_size=2), st.lists(layers, max_size=2))
@settings(max_examples=60, deadline=None, suppress_health_check=[HealthCheck.too_slow])
def test_two_images_differ_in_the_packages_that_the_model_says(
    tmp_path_factory: pytest.TempPathFactory,
    below: list[list[Operation]],
    only_a: list[list[Operation]],
    only_b: list[list[Operation]],
) -> None:
    directory = tmp_path_factory.mktemp("layers")
    # Layers below are not read for a regular file that takes the place of a directory and does nothing else.
    kinds, others = (
        [
            [each for each in operations if each[0] not in ("file", "list") or each[1] in LISTS]
            for operations in side
        ]
        for side in (only_a, only_b)
    )
    stacks = [
        [*enumerate(below), *enumerate(kinds, 100)],
        [*enumerate(below), *enumerate(others, 200)],
    ]
    shared = [
        layer(directory, layer_of(members(each, number))) for number, each in enumerate(below)
    ]
    a, b = (
        [
            *shared,
            *(layer(directory, layer_of(members(each, n))) for n, each in stack[len(below) :]),
        ]
        for stack in stacks
    )

    found = compared(a, b)

    seen = [model([(each, number) for number, each in stack]) for stack in stacks]
    names = [{_name(path): number for path, number in side.items()} for side in seen]
    unread = {_system(path) for side in seen for path, number in side.items() if number is None}
    wanted = {
        name
        for name in {*names[0], *names[1]}
        if not _same(name, names[0].get(name, -1), names[1].get(name, -1))
    }
    assert {(each.system, each.name) for each in found.packages if each.system not in unread} == {
        name for name in wanted if name[0] not in unread
    }


def _name(path: str) -> tuple[str, str]:
    """Return what is installed where a list is; no two lists here name one package."""
    if path.endswith("METADATA"):
        return "Python", path.split("/")[-2].partition("-")[0]
    return _system(path), "musl" if path.endswith("installed") else path.rpartition("/")[2]


def _system(path: str) -> str:
    return {"M": "Python", "i": "Alpine"}.get(path.rpartition("/")[2][0], "Debian")


def _same(name: tuple[str, str], old: int | None, new: int | None) -> bool:
    return (old == -1) == (new == -1) if name[0] == "Python" else old == new


def test_an_opaque_top_hides_everything_below(tmp_path: Path) -> None:
    old = read(tmp_path, layer_of([Member(STATUS, dpkg_status(a="1")), distribution("b", "1")]))
    new = read(tmp_path, layer_of([Member("./.wh..wh..opq"), distribution("c", "1")]))

    (only,) = apply_layers([old, new], Allowance())
    assert only.endswith("c-1.dist-info/METADATA")


def test_a_whiteout_hides_nothing_of_its_own_layer(tmp_path: Path) -> None:
    one = layer_of([Member(STATUS, dpkg_status(a="2")), Member("var/lib/.wh.dpkg")])

    seen = apply_layers(
        [read(tmp_path, layer_of([Member(STATUS, dpkg_status(a="1"))])), read(tmp_path, one)],
        Allowance(),
    )
    assert told(seen) == {STATUS: 2}


def test_a_layer_that_is_not_in_the_store_is_absent(tmp_path: Path) -> None:
    here = layer(tmp_path, layer_of([distribution("torch", "1")]))
    found = compared([here], [ImageLayer("far", None, "gzip")])
    assert (found.unread, found.packages) == (("layer 01 of B is not in the store",), ())


def test_what_both_have_is_compared_although_a_layer_below_is_absent(tmp_path: Path) -> None:
    base = ImageLayer("far", None, "gzip")
    a, b = (
        layer(tmp_path, layer_of([distribution("torch", version), *more]))
        for version, more in (("1", []), ("2", [distribution("numpy", "2")]))
    )

    found = compared([base, a], [base, b])

    assert shown(found) == [("Python", "torch", ("1",), ("2",))]
    assert found.unread == ("layer 01 of both is not in the store",)


def test_layers_below_are_read_only_where_those_above_hide_different_things(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    opened: list[str] = []

    def reading(path: Path, packing: str, allowance: Allowance) -> LayerPackages:
        opened.append(path.name)
        return read_layer(path, packing, allowance)

    monkeypatch.setattr("dis_derivations.images.contents.image_packages.read_layer", reading)
    base = layer(tmp_path, layer_of([distribution("numpy", "1"), distribution("tzdata", "1")]))
    code, other = (layer(tmp_path, layer_of([Member("app.py", text)])) for text in (b"1", b"2"))
    removing = layer(
        tmp_path, layer_of([Member("usr/lib/python3/site-packages/.wh.numpy-1.dist-info")])
    )

    assert compared([base, code], [base, other]) == PackageDifferences((), ())
    assert opened == ["layer-1", "layer-2"]
    opened.clear()
    assert shown(compared([base, code], [base, removing, code])) == [
        ("Python", "numpy", ("1",), ())
    ]
    assert sorted(opened) == ["layer-0", "layer-1", "layer-3"]
