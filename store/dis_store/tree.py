"""The tree manifest: what an object consists of, in the one form whose BLAKE3 is the object's digest."""

import re
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any, Self

from dis_store import canonical_json, strict_json
from dis_store.digest import Digest
from dis_store.errors import IntegrityError, InvalidInputError
from dis_store.path_rules import check_path, check_paths

FORMAT = 1
MAX_ENTRIES = 1_000_000

# What a manifest looks like, byte for byte but for the values. Possessive: it is tried once, in one pass.
_TEXT = rb'"(?:[^"\\\x00-\x1f]|\\.)*+"'
_ENTRY = (
    rb'\{(?:"blake3":"[0-9a-f]{64}",(?:"executable":true,)?"path":%b,"size":[0-9]{1,16}'
    rb'|"object":"[0-9a-f]{64}","path":%b(?:,"subpath":%b)?)\}' % (_TEXT, _TEXT, _TEXT)
)
_MANIFEST = re.compile(
    rb'\{"entries":\[(?:%b(?:,%b)*+)?\],"format":[0-9]{1,16}(?:,"portable_names":false)?,"type":"tree"\}'
    % (_ENTRY, _ENTRY)
)
# From here on a manifest must look like one before it is parsed: JSON can take thirty times its bytes of memory.
_LARGE_BYTES = 1 << 20


@dataclass(frozen=True)
class FileEntry:
    """A regular file: its size in bytes, the BLAKE3 of its content, and whether it may be executed."""

    path: str
    size: int
    blake3: Digest
    executable: bool = False

    def __post_init__(self) -> None:
        if not 0 <= self.size <= strict_json.MAX_SAFE_INTEGER:
            raise InvalidInputError(f"the size of {self.path!r} is refused", cause=str(self.size))

    def to_json(self) -> dict[str, Any]:
        """Return the entry as a manifest holds it."""
        document = {"path": self.path, "size": self.size, "blake3": self.blake3}
        return document | ({"executable": True} if self.executable else {})


@dataclass(frozen=True)
class ReferenceEntry:
    """Another object, or the entry or directory `subpath` of its manifest, seen under `path`."""

    path: str
    object: Digest
    subpath: str | None = None

    def to_json(self) -> dict[str, Any]:
        """Return the entry as a manifest holds it."""
        document = {"path": self.path, "object": self.object}
        return document | ({} if self.subpath is None else {"subpath": self.subpath})

    @property
    def link_target(self) -> str:
        """The relative symlink that stands for the entry, seen from its place below `objects/ab/<digest>/`."""
        up = "../" * (self.path.count("/") + 2)
        target = f"{up}{self.object[:2]}/{self.object}"
        return target if self.subpath is None else f"{target}/{self.subpath}"


Entry = FileEntry | ReferenceEntry


@dataclass(frozen=True)
class Tree:
    """The entries of one object, sorted by the bytes of their paths whatever order they are given in.

    Laws: `Tree.decode(tree.encode()) == tree`, and `tree.digest` is the BLAKE3 of `tree.encode()`.

    Raises:
        InvalidInputError: A path breaks `dis_store.path_rules`, two paths collide, or there are too many.
    """

    entries: tuple[Entry, ...]
    portable_names: bool = field(default=True, kw_only=True)

    def __post_init__(self) -> None:
        if len(self.entries) > MAX_ENTRIES:
            raise InvalidInputError(
                f"a tree of {len(self.entries)} entries is refused", cause=f"{MAX_ENTRIES} is most"
            )
        ordered = sorted(
            self.entries, key=lambda entry: entry.path.encode("utf-8", "surrogatepass")
        )
        object.__setattr__(self, "entries", tuple(ordered))
        check_paths((entry.path for entry in self.entries), portable=self.portable_names)
        for entry in self.entries:
            if isinstance(entry, ReferenceEntry) and entry.subpath is not None:
                check_path(entry.subpath, portable=False)

    def encode(self) -> bytes:
        """Return the manifest: canonical JSON, the preimage of the digest."""
        return self._encoded

    @property
    def digest(self) -> Digest:
        """The identity of the object."""
        return self._digest

    @cached_property
    def _encoded(self) -> bytes:
        document: dict[str, Any] = {
            "type": "tree",
            "format": FORMAT,
            "entries": [entry.to_json() for entry in self.entries],
        }
        return canonical_json.encode(
            document | ({} if self.portable_names else {"portable_names": False})
        )

    @cached_property
    def _digest(self) -> Digest:
        return Digest.of(self._encoded)

    @classmethod
    def decode(cls, data: bytes) -> Self:
        """Parse a manifest.

        Raises:
            IntegrityError: `data` is not exactly the encoding of a tree.
        """
        if len(data) > _LARGE_BYTES and not _MANIFEST.fullmatch(data):
            raise IntegrityError(
                "a tree manifest is malformed", cause="it does not have the form of one"
            )
        try:
            tree = cls._from_json(strict_json.decode(data, name="a tree manifest"))
        except InvalidInputError as error:
            raise IntegrityError("a tree manifest is malformed", cause=str(error)) from error
        except (KeyError, TypeError, ValueError, AttributeError) as error:
            raise IntegrityError("a tree manifest is malformed", cause=_describe(error)) from error
        if tree.encode() != data:
            raise IntegrityError(
                "a tree manifest is malformed",
                cause="it is not the canonical encoding of what it says",
            )
        return tree

    @classmethod
    def _from_json(cls, document: dict[str, Any]) -> Self:
        if document["type"] != "tree" or document["format"] != FORMAT:
            raise InvalidInputError(
                "it is no tree of a known format",
                cause=f"{document['type']!r}, format {document['format']!r}",
            )
        # Unknown keys are caught by the comparison of the encodings.
        portable = document.get("portable_names", True)
        return cls(tuple(map(_entry, document["entries"])), portable_names=portable)

    @property
    def files(self) -> tuple[FileEntry, ...]:
        """The regular files."""
        return tuple(entry for entry in self.entries if isinstance(entry, FileEntry))

    @property
    def references(self) -> tuple[ReferenceEntry, ...]:
        """The references, one object possibly several times."""
        return tuple(entry for entry in self.entries if isinstance(entry, ReferenceEntry))

    @cached_property
    def directories(self) -> tuple[str, ...]:
        """The directories that the paths imply, the top aside, each after the one that holds it."""
        found: set[str] = set()
        for entry in self.entries:
            parent = entry.path
            while "/" in parent:
                parent = parent.rpartition("/")[0]
                found.add(parent)
        return tuple(sorted(found))

    @cached_property
    def by_path(self) -> dict[str, Entry]:
        """The entries by their paths."""
        return {entry.path: entry for entry in self.entries}

    def shows(self, path: str) -> bool:
        """Tell whether `path` is an entry or an implied directory."""
        return path in self.by_path or path in self._directory_names

    @cached_property
    def _directory_names(self) -> frozenset[str]:
        return frozenset(self.directories)

    @property
    def size(self) -> int:
        """The bytes of the object's own files."""
        return sum(entry.size for entry in self.files)


def _entry(document: dict[str, Any]) -> Entry:
    if "object" in document:
        return ReferenceEntry(document["path"], Digest(document["object"]), document.get("subpath"))
    size = document["size"]
    if type(size) is not int:
        raise TypeError(f"the size {size!r} is no integer")
    return FileEntry(
        document["path"], size, Digest(document["blake3"]), document.get("executable", False)
    )


def _describe(error: Exception) -> str:
    return f"the key {error} is missing" if isinstance(error, KeyError) else str(error)
