"""What a layer does to the packages of an image: the lists that it brings, and what it hides of the layers below.

It follows the image layer specification of OCI: a whiteout removes what lies below it in lower layers, an opaque
directory all that lower layers have in it, and a member that is no directory takes the place of one.
"""

from array import array
from bisect import bisect_left
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from itertools import islice
from pathlib import Path

from dis_derivations.images.contents.layer_members import LayerMember, LayerMembers
from dis_derivations.images.contents.layer_stream import (
    Allowance,
    UnreadableError,
    opened_layer,
)
from dis_derivations.images.contents.package_lists import (
    Package,
    bytes_needed,
    packages_in,
    system_of,
)

_WHITEOUT = ".wh."
_OPAQUE = ".wh..wh..opq"
_RESERVED = ".wh..wh."


@dataclass(frozen=True)
class Unread:
    """A list of packages that is there and is not read.

    Attributes:
        why: In words that follow its name.
        content: Tells one content from another where it was looked at.
    """

    why: str
    content: str = ""


PackageList = tuple[Package, ...] | Unread
"""What one file says; no package at all where a directory has taken its place."""


@dataclass(frozen=True, eq=False)
class LayerPackages:
    """A layer, as far as packages are concerned.

    Attributes:
        lists: By path.
        removed: The paths that whiteouts name.
        emptied: The directories that are opaque.
        links: The hashes of the names of links and special files, sorted; they hide what was below a directory.
        files: Those of regular files.
    """

    lists: Mapping[str, PackageList] = field(default_factory=dict)
    removed: frozenset[str] = frozenset()
    emptied: frozenset[str] = frozenset()
    links: "array[int]" = field(default_factory=lambda: array("q"))
    files: "array[int]" = field(default_factory=lambda: array("q"))

    @property
    def touched(self) -> tuple[frozenset[object], ...]:
        """What it may hide of the layers below, regular files that are no lists aside."""
        return frozenset(self.lists), self.removed, self.emptied, frozenset(self.links)

    def hides(self, path: str) -> bool:
        """Tell whether a list of a lower layer is no more to be seen through this one."""
        if path in self.lists or path in self.removed:
            return True
        parent = path
        while parent:
            parent = parent.rpartition("/")[0]
            if parent in self.removed or parent in self.emptied:
                return True
            if parent and self._replaces(parent):
                return True
        return False

    def _replaces(self, directory: str) -> bool:
        wanted = hash(directory)
        for names in (self.links, self.files):
            place = bisect_left(names, wanted)
            if place < len(names) and names[place] == wanted:
                return True
        return False


def read_layer(path: Path, packing: str, allowance: Allowance) -> LayerPackages:
    """Read a layer once, from its begin to its end.

    Args:
        path: Of its blob.
        packing: `none`, `gzip` or `zstd`.
        allowance: How much may be read.

    Raises:
        UnreadableError: It is damaged, hostile, or beyond a limit.
    """
    with opened_layer(path, packing, allowance) as stream:
        return _Reader(LayerMembers(stream, allowance.limits.members), allowance).read()


def apply_layers(
    layers: Iterable[LayerPackages],
    allowance: Allowance,
    below: Mapping[str, PackageList] | None = None,
) -> dict[str, PackageList]:
    """Return the lists that are to be seen when layers lie on each other.

    Args:
        layers: Lowest first.
        allowance: How long it may take.
        below: What is to be seen of the layers below.

    Raises:
        UnreadableError: The time is over.
    """
    seen = dict(below or {})
    for layer in layers:
        shown: dict[str, PackageList] = {}
        for path, each in seen.items():
            # Names that are deep make this long.
            allowance.check_time()
            if not layer.hides(path):
                shown[path] = each
        seen = {**shown, **layer.lists}
    return seen


class _Reader:
    """Goes through one layer."""

    def __init__(self, members: LayerMembers, allowance: Allowance) -> None:
        self._members = members
        self._allowance = allowance
        self._limits = allowance.limits
        self._lists: dict[str, PackageList] = {}
        self._removed: set[str] = set()
        self._emptied: set[str] = set()
        self._links = array("q")
        self._files = array("q")
        self._packages = 0
        self._name_bytes = 0

    def read(self) -> LayerPackages:
        for member in self._members:
            directory, _, name = member.path.rpartition("/")
            if name.startswith(_WHITEOUT):
                self._whiteout(directory, name)
            elif not (directory.startswith(_WHITEOUT) or f"/{_WHITEOUT}" in directory):
                self._take(member)
        return LayerPackages(
            self._lists,
            frozenset(self._removed),
            frozenset(self._emptied),
            array("q", sorted(self._links)),
            array("q", sorted(self._files)),
        )

    def _whiteout(self, directory: str, name: str) -> None:
        if name == _OPAQUE:
            self._emptied.add(self._kept(directory))
            return
        if name.startswith(_RESERVED):
            return  # what the file system AUFS kept for itself
        hidden = name.removeprefix(_WHITEOUT)
        if hidden in ("", ".", ".."):
            raise UnreadableError(f"it has the whiteout {name!a}, which names nothing")
        self._removed.add(self._kept(f"{directory}/{hidden}" if directory else hidden))

    def _take(self, member: LayerMember) -> None:
        if system_of(member.path) is not None:
            # Of two members of one name the later one counts, as when they are unpacked.
            self._lists[self._kept(member.path)] = self._list(member)
        elif member.kind in ("file", "hard link"):
            self._files.append(hash(member.path))
        elif member.kind != "directory":
            self._links.append(hash(member.path))

    def _list(self, member: LayerMember) -> PackageList:
        if member.kind == "directory":
            return ()
        if member.kind == "hard link" and member.target in self._lists:
            return self._linked(member)
        if member.kind == "file":
            return self._file(member)
        return Unread(f"it is a {member.kind}, which is not followed")

    def _file(self, member: LayerMember) -> PackageList:
        wanted = bytes_needed(member.path, self._limits.list_bytes)
        data = self._members.content(wanted)
        content = f"{member.size} {hash(data)}"
        if member.size > wanted == self._limits.list_bytes:
            return Unread(f"it has more than {wanted} bytes", content)
        most = self._limits.packages - self._packages
        try:
            entries = tuple(islice(packages_in(member.path, data, self._allowance), most + 1))
        except UnreadableError as error:
            return Unread(str(error), content)
        self._count(len(entries))
        return tuple(entry for entry in entries if entry is not None)

    def _linked(self, member: LayerMember) -> PackageList:
        """Return a list that is one file with another; a directory gives a Python distribution its name."""
        there = self._lists[member.target]
        names = {
            path.rpartition("/")[0].rpartition("/")[2] for path in (member.path, member.target)
        }
        if len(names) == 1:
            self._count(0 if isinstance(there, Unread) else len(there))
            return there
        return Unread("it is a hard link to the list of something else")

    def _count(self, packages: int) -> None:
        self._packages += packages
        if self._packages > self._limits.packages:
            raise UnreadableError(f"its lists name more than {self._limits.packages} packages")

    def _kept(self, name: str) -> str:
        self._name_bytes += len(name)
        if self._name_bytes > self._limits.name_bytes:
            raise UnreadableError("it names too many lists and removes too many files")
        return name
