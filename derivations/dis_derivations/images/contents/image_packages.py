"""Which packages two images do not share: their layers, of which as few are read as can say it."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import takewhile
from pathlib import Path

from dis_derivations.images.contents.layer_packages import (
    LayerPackages,
    PackageList,
    Unread,
    apply_layers,
    read_layer,
)
from dis_derivations.images.contents.layer_stream import Allowance, UnreadableError
from dis_derivations.images.contents.package_lists import System, system_of

Versions = Mapping[tuple[System, str], tuple[str, ...]]


@dataclass(frozen=True)
class ImageLayer:
    """A layer of an image.

    Attributes:
        content: What it is when it is unpacked: two layers of one content are one.
        blob: Where it lies on this machine; None where it does not.
        packing: `none`, `gzip` or `zstd`.
    """

    content: str
    blob: Path | None
    packing: str


@dataclass(frozen=True, order=True)
class PackageDifference:
    """A package that two images do not share.

    Attributes:
        system: What manages it.
        name: Of the package.
        old: The versions that A has of it, sorted; none where A lacks it.
        new: Those of B.
    """

    system: System
    name: str
    old: tuple[str, ...]
    new: tuple[str, ...]


@dataclass(frozen=True)
class PackageDifferences:
    """What was found.

    Attributes:
        packages: Those that are not the same, by system and name.
        unread: What could not be read, and why; what is said of packages is then said of the rest.
    """

    packages: tuple[PackageDifference, ...]
    unread: tuple[str, ...]


def package_differences(
    a: Sequence[ImageLayer], b: Sequence[ImageLayer], allowance: Allowance
) -> PackageDifferences:
    """Compare the packages of two images.

    The lowest layers, which both have, are read only where the others hide different things of them. Each layer is
    read at most once.

    Args:
        a: The layers of A, lowest first.
        b: Those of B.
        allowance: How much may be read.
    """
    layers = _Layers(allowance)
    pairs = zip(a, b, strict=False)
    same = len([*takewhile(lambda pair: pair[0].content == pair[1].content, pairs)])
    try:
        return _differences(a, b, same, layers, allowance)
    except UnreadableError as error:
        return PackageDifferences((), (*layers.unread, f"what layers hide is not known: {error}"))


def _differences(
    a: Sequence[ImageLayer],
    b: Sequence[ImageLayer],
    same: int,
    layers: "_Layers",
    allowance: Allowance,
) -> PackageDifferences:
    own = [layers.read(side, label, same) for side, label in ((a, "A"), (b, "B"))]
    touched = [[each.touched for each in side] for side in own]
    below: dict[str, PackageList] = {}
    if _union(touched[0]) != _union(touched[1]):
        below = apply_layers(layers.read(a[:same], "both", 0), allowance)
    sides = [apply_layers(side, allowance, below) for side in own]
    left, right = map(_versions, sides)
    unread = [*layers.unread, *_unread_lists(sides[0], sides[1])]
    found = [
        PackageDifference(*key, left.get(key, ()), right.get(key, ()))
        for key in sorted({*left, *right})
        if left.get(key) != right.get(key)
    ]
    known = _Known(layers.incomplete, *sides)
    return PackageDifferences(tuple(filter(known.shows, found)), tuple(unread))


class _Layers:
    """Reads layers, each once, and remembers which could not be read."""

    def __init__(self, allowance: Allowance) -> None:
        self._allowance = allowance
        self._known: dict[str, LayerPackages | str] = {}
        self.unread: list[str] = []
        self.incomplete: set[str] = set()

    def read(self, layers: Sequence[ImageLayer], label: str, start: int) -> list[LayerPackages]:
        """Return what layers do, from a place on; one that cannot be read does nothing, and that is noted."""
        found: list[LayerPackages] = []
        for place, layer in enumerate(layers[start:], start + 1):
            if layer.content not in self._known:
                self._known[layer.content] = self._one(layer)
            one = self._known[layer.content]
            if isinstance(one, str):
                self.unread.append(f"layer {place:02d} of {label} {one}")
                self.incomplete |= {"A", "B"} if label == "both" else {label}
            else:
                found.append(one)
        return found

    def _one(self, layer: ImageLayer) -> LayerPackages | str:
        if layer.blob is None:
            return "is not in the store"
        try:
            return read_layer(layer.blob, layer.packing, self._allowance)
        except UnreadableError as error:
            return f"could not be read: {error}"


class _Known:
    """Tells what may be said of a package although not everything could be read.

    Args:
        incomplete: The sides that have a layer which could not be read.
        a: The lists of A.
        b: The lists of B.
    """

    def __init__(
        self, incomplete: set[str], a: Mapping[str, PackageList], b: Mapping[str, PackageList]
    ) -> None:
        self._lacking = [
            {system_of(path) for path, each in lists.items() if isinstance(each, Unread)}
            for lists in (a, b)
        ]
        self._incomplete = [label in incomplete for label in ("A", "B")]

    def shows(self, found: PackageDifference) -> bool:
        """Tell whether a side that shows no version of a package is known to have none."""
        return all(
            versions or not (incomplete or found.system in lacking)
            for versions, incomplete, lacking in zip(
                (found.old, found.new), self._incomplete, self._lacking, strict=True
            )
        )


def _union(touched: Sequence[tuple[frozenset[object], ...]]) -> list[frozenset[object]]:
    return [frozenset().union(*parts) for parts in zip(*touched, strict=True)] or [frozenset()] * 4


def _versions(lists: Mapping[str, PackageList]) -> Versions:
    found: dict[tuple[System, str], set[str]] = {}
    for each in lists.values():
        for package in () if isinstance(each, Unread) else each:
            found.setdefault((package.system, package.name), set()).add(package.version)
    return {key: tuple(sorted(versions)) for key, versions in found.items()}


def _unread_lists(a: Mapping[str, PackageList], b: Mapping[str, PackageList]) -> list[str]:
    """Say of each list that is not read, and not the same in both, why."""
    said: list[str] = []
    for path in sorted({*a, *b}):
        old, new = a.get(path), b.get(path)
        for label, each, other in (("A", old, new), ("B", new, old)):
            if isinstance(each, Unread) and (each != other or not each.content):
                said.append(f"{path!a:.200} in {label} could not be read: {each.why}")
    return said
