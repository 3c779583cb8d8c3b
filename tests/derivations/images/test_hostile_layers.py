"""Hostile layers do nothing but say why they are not read."""

import gzip
import tarfile
from pathlib import Path
from typing import Literal

import pytest
import zstandard

from clock import Clock
from dis_derivations.comparison.causes.package_effects import effect_of_packages
from dis_derivations.images.contents.image_packages import PackageDifference, package_differences
from dis_derivations.images.contents.layer_packages import (
    Unread,
    read_layer,
)
from dis_derivations.images.contents.layer_stream import Allowance, Limits, UnreadableError
from image_layers import compared, layer, read
from images import PACKINGS, Member, distribution, dpkg_status, layer_of

STATUS = "var/lib/dpkg/status"
DIRECTORY, LINK, HARD = tarfile.DIRTYPE, tarfile.SYMTYPE, tarfile.LNKTYPE


HOSTILE: dict[str, tuple[bytes, str]] = {
    "no archive": (b"x" * 2048, "it is no tar archive, or a header of it is damaged"),
    "half a header": (layer_of([])[:0] + b"\1" * 100, "it ends too early"),
    "cut off": (layer_of([Member("a", b"x" * 4096)])[:2048], "it ends too early"),
    "a size of nothing": (layer_of([Member("a", size=1 << 40)], tarfile.GNU_FORMAT), "it ends too early"),
    "a size beyond all": (layer_of([Member("a", size=1 << 62)], tarfile.GNU_FORMAT), "it ends too early"),
    "a negative size": (layer_of([Member("a", size=-5)], tarfile.GNU_FORMAT), "a header of it is damaged"),
    "an absolute path": (layer_of([Member("/etc/x")]), "it names the absolute path '/etc/x'"),
    "a way out": (layer_of([Member("a/../../x")]), "it names 'a/../../x', which leads out of the image"),
    "a way out by pax": (layer_of([Member("../" * 50 + "é")]), "which leads out of the image"),
    "a link out": (layer_of([Member("a", kind=HARD, target="../../x")]), "which leads out of the image"),
    "a whiteout of nothing": (layer_of([Member("a/.wh.")]), "it has the whiteout '.wh.', which names nothing"),
    "something after its end": (layer_of([])[:512] + layer_of([Member("a")]), "something follows its end"),
    "a long header": (
        layer_of([Member("x", b"0" * (2 << 20), kind=b"x")]), "a header of it has more than 1048576 bytes"
    ),
    "a broken header": (layer_of([Member("x", b"99 path=a\n", kind=b"x")]), "an extended header of it is malformed"),
    "a header for all": (
        layer_of([Member("g", b"10 path=a\n", kind=b"g")]), "a header for all of its members gives them one name"
    ),
    "a size that is none": (
        layer_of([Member("x", b"12 size=-99\n", kind=b"x"), Member("a")]), "a size that is no number"
    ),
}  # fmt: skip


@pytest.mark.parametrize("case", HOSTILE)
@pytest.mark.parametrize("packing", sorted(PACKINGS))
def test_a_hostile_layer_says_why_it_is_not_read(tmp_path: Path, case: str, packing: str) -> None:
    data, why = HOSTILE[case]
    good = layer(tmp_path, layer_of([distribution("torch", "1")]))
    bad = layer(tmp_path, PACKINGS[packing](data), packing.removeprefix("+") or "none")
    before = sorted(tmp_path.iterdir())

    found = compared([good], [bad])

    (said,) = found.unread
    assert said.startswith("layer 01 of B could not be read: ")
    assert why in said
    # What B lacks may be in what could not be read.
    assert found.packages == ()
    assert sorted(tmp_path.iterdir()) == before


PACKED = layer_of([distribution("torch", "1"), Member("a", b"0" * 5_000)])
DAMAGED = {
    "gzip that is none": ("gzip", PACKED, "it is not compressed with gzip, as its image says"),
    "Zstandard that is none": ("zstd", PACKED, "it is not compressed with Zstandard, as its image says"),
    "gzip cut off": ("gzip", gzip.compress(PACKED)[:-40], "it is damaged"),
    "gzip changed": ("gzip", gzip.compress(PACKED)[:60] + b"\xff" * 90, "it is damaged"),
    "Zstandard cut off": ("zstd", zstandard.compress(PACKED)[:-40], "it was cut off"),
    "Zstandard changed": ("zstd", zstandard.compress(PACKED)[:20] + b"\xff" * 900, "ecompress|orrupt|cut off"),
}  # fmt: skip


@pytest.mark.parametrize("case", DAMAGED)
def test_a_damaged_layer_says_why_it_is_not_read(tmp_path: Path, case: str) -> None:
    packing, data, why = DAMAGED[case]

    with pytest.raises(UnreadableError, match=why):
        read(tmp_path, data, packing)


def test_links_devices_and_directories_are_no_lists(tmp_path: Path) -> None:
    names = [f"{n}-1.dist-info/METADATA" for n in "abcd"]
    kinds = [LINK, tarfile.CHRTYPE, tarfile.FIFOTYPE, DIRECTORY]
    made = [
        Member(name, kind=kind, target="/etc/passwd")
        for name, kind in zip(names, kinds, strict=True)
    ]

    lists = read(tmp_path, layer_of(made)).lists

    assert [lists[name] for name in names] == [
        Unread("it is a symbolic link, which is not followed"),
        Unread("it is a special file, which is not followed"),
        Unread("it is a special file, which is not followed"),
        (),
    ]


@pytest.mark.parametrize(
    ("limits", "why"),
    [
        ({"unpacked_bytes": 1 << 20}, "it unpacks to more than 1048576 bytes"),
        ({"small_bytes": 1 << 20, "growth": 20}, "it unpacks to more than 1048576 bytes"),
        ({"members": 50}, "it has more than 50 members"),
        ({"packages": 50}, "its lists name more than 50 packages"),
        ({"name_bytes": 500}, "it names too many lists and removes too many files"),
    ],
)
def test_a_layer_beyond_a_limit_says_which(
    tmp_path: Path, limits: dict[str, int], why: str
) -> None:
    many = [distribution(f"p{number}", "1") for number in range(100)]
    bomb = gzip.compress(layer_of([*many, Member("zeros", bytes(4 << 20))]))

    with pytest.raises(UnreadableError, match=why):
        read(tmp_path, bomb, "gzip", **limits)


def test_a_list_beyond_a_limit_is_one_list_that_is_not_read(tmp_path: Path) -> None:
    data = layer_of([Member(STATUS, dpkg_status(a="1") * 50), distribution("torch", "1")])

    lists = read(tmp_path, data, list_bytes=1000).lists

    status = lists[STATUS]
    assert isinstance(status, Unread)
    assert status.why == "it has more than 1000 bytes"
    assert len(lists) == 2


def test_no_more_time_is_spent_than_is_allowed(tmp_path: Path) -> None:
    clock = Clock()
    path = layer(tmp_path, gzip.compress(layer_of([Member("a", bytes(1 << 20))])), "gzip").blob
    assert path is not None
    allowance = Allowance(Limits(seconds=5), clock)
    read_layer(path, "gzip", allowance)
    clock.now = 5.5

    with pytest.raises(UnreadableError, match="reading layers took more than 5 seconds"):
        read_layer(path, "gzip", allowance)


def test_a_decompressor_that_gives_nothing_runs_out_of_time(tmp_path: Path) -> None:
    clock = Clock()
    path = layer(tmp_path, gzip.compress(b"") * 20_000, "gzip").blob
    assert path is not None

    def later() -> float:
        clock.now += 1
        return clock.now

    with pytest.raises(UnreadableError, match="reading layers took more than 20 seconds"):
        read_layer(path, "gzip", Allowance(Limits(seconds=20), later))


@pytest.mark.parametrize("form", [tarfile.GNU_FORMAT, tarfile.PAX_FORMAT])
@pytest.mark.parametrize("part", ["a/", "é/"])
def test_a_name_longer_than_a_system_allows_is_not_read(
    tmp_path: Path, form: Literal[1, 2], part: str
) -> None:
    fits = part * (4096 // len(part.encode()) - 12) + "x-1.dist-info/METADATA"
    fits += "x" * (4096 - len(fits.encode()))

    read(tmp_path, layer_of([Member(fits)], form))
    with pytest.raises(UnreadableError, match="it has a name of more than 4096 bytes"):
        read(tmp_path, layer_of([Member(f"{fits}x")], form))


def test_deep_names_under_many_layers_run_out_of_time(tmp_path: Path) -> None:
    clock = Clock()
    deep = [distribution(f"p{number}", "1", "d/" * 500 + "d") for number in range(20)]
    stack = [layer(tmp_path, layer_of(members)) for members in (deep, *[[Member("a")]] * 20)]

    def later() -> float:
        clock.now += 1
        return clock.now

    found = package_differences(stack, [], Allowance(Limits(seconds=500), later))

    assert found.packages == ()
    assert found.unread == (
        "what layers hide is not known: reading layers took more than 500 seconds",
    )


def test_many_packages_of_one_effect_are_not_compared_with_each_other() -> None:
    compared_names = 0

    class Name(str):
        __slots__ = ()

        def __eq__(self, other: object) -> bool:
            nonlocal compared_names
            compared_names += 1
            return str.__eq__(self, other)

        __hash__ = str.__hash__

    names = [Name(f"cuda-{number:04d}") for number in range(1000)]
    many = [PackageDifference("Debian", name, ("1",), ("2",)) for name in names]

    said = effect_of_packages(many)

    assert said.startswith("cuda-0000, cuda-0001, cuda-0002, cuda-0003 and 996 more: ")
    assert compared_names < 20 * len(names)
