"""What an archive of closures holds, under which names, in which order (docs/internals/formats/closures.md)."""

import tarfile
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field

from dis_store import canonical_json, strict_json
from dis_store.archives.tar_reader import BLOCK_BYTES, padding
from dis_store.digest import Digest
from dis_store.errors import InvalidInputError, UnfitEnvironmentError
from dis_store.signatures import MAX_BYTES, MAX_OF_KEY
from dis_store.tree import Tree

__all__ = [
    "BLOCK_BYTES",
    "END",
    "FORMAT",
    "HEADER",
    "MAX_HEADER_BYTES",
    "MAX_SIGNATURES_BYTES",
    "MAX_SIGNATURE_BYTES",
    "TYPE",
    "Header",
    "contents",
    "decode_header",
    "file_name",
    "manifest_name",
    "member_header",
    "padding",
    "signature_name",
]

FORMAT = 2
_FORMAT_WITHOUT_SIGNATURES = 1
TYPE = "closures"
HEADER = "archive.json"
END = bytes(2 * BLOCK_BYTES)
MAX_HEADER_BYTES = 1 << 20
MAX_SIGNATURE_BYTES = MAX_BYTES
MAX_SIGNATURES_BYTES = 64 << 20
"""All signed documents together."""


def manifest_name(digest: Digest) -> str:
    """Return the name of an object's tree manifest."""
    return f"manifests/{digest}.json"


def signature_name(digest: Digest) -> str:
    """Return the name of a signed document."""
    return f"signatures/{digest}.json"


def file_name(blake3: Digest) -> str:
    """Return the name of the content of a file."""
    return f"files/{blake3}"


def contents(trees: Mapping[Digest, Tree]) -> list[tuple[Digest, int]]:
    """Return the BLAKE3 and the size of each different content of a file, in the order of an archive.

    Raises:
        InvalidInputError: Two manifests contradict each other about a size.
    """
    found: dict[Digest, int] = {}
    for tree in trees.values():
        for entry in tree.files:
            if found.setdefault(entry.blake3, entry.size) != entry.size:
                raise InvalidInputError(
                    f"two manifests contradict each other about the size of {entry.blake3}"
                )
    return sorted(found.items())


@dataclass(frozen=True)
class Header:
    """What `archive.json` says.

    Attributes:
        roots: The objects whose closures are here.
        objects: How many objects these have.
        after: The content after which the files begin, where the archive goes on with another one; else None.
        signatures: The signed documents about each object that has some, ascending.
    """

    roots: tuple[Digest, ...]
    objects: int
    after: Digest | None = None
    signatures: Mapping[Digest, tuple[Digest, ...]] = field(default_factory=dict)

    @property
    def documents(self) -> list[Digest]:
        """The different signed documents, in the order of an archive."""
        return sorted({each for listed in self.signatures.values() for each in listed})

    def encode(self) -> bytes:
        """Return the content of `archive.json`. Only what has signatures is of the newer format."""
        document: dict[str, object] = {
            "type": TYPE,
            "format": FORMAT if self.signatures else _FORMAT_WITHOUT_SIGNATURES,
            "roots": sorted(set(self.roots)),
            "objects": self.objects,
        }
        if self.after is not None:
            document["after"] = self.after
        if self.signatures:
            document["signatures"] = {
                digest: sorted(set(listed)) for digest, listed in self.signatures.items()
            }
        return canonical_json.encode(document)


def decode_header(data: bytes) -> Header:
    """Return what `archive.json` says.

    Raises:
        InvalidInputError: It is no header.
        UnfitEnvironmentError: The format is newer than this version.
    """
    document = strict_json.decode(data, name=HEADER)
    fields = document if isinstance(document, dict) else {}
    if fields.get("type") != TYPE:
        raise InvalidInputError(f"{HEADER} is refused", cause=f"its type is not {TYPE!r}")
    found = fields.get("format")
    if type(found) is int and found > FORMAT:
        raise UnfitEnvironmentError(
            "the archive cannot be read",
            cause=f"its format is {found}, and this version reads up to {FORMAT}",
        )
    try:
        after = fields.get("after")
        header = Header(
            roots=tuple(Digest(each) for each in fields["roots"]),
            objects=fields["objects"],
            after=None if after is None else Digest(after),
            signatures={
                Digest(digest): _listed(map(Digest, listed))
                for digest, listed in fields.get("signatures", {}).items()
            },
        )
        if header.roots and type(header.objects) is int and header.encode() == data:
            return header
    except (KeyError, TypeError, AttributeError) as error:
        raise InvalidInputError(f"{HEADER} is refused", cause=str(error)) from error
    raise InvalidInputError(
        f"{HEADER} is refused", cause="it is not what an export writes, or has no roots"
    )


def _listed(digests: Iterable[Digest]) -> tuple[Digest, ...]:
    listed = tuple(digests)
    if not 0 < len(listed) <= MAX_OF_KEY:
        raise InvalidInputError(
            f"{HEADER} is refused",
            cause=f"an object has 1 to {MAX_OF_KEY} signatures, or is not listed",
        )
    return listed


def member_header(name: str, size: int) -> bytes:
    """Return the one block that stands before a member: no owner, no time, one mode."""
    information = tarfile.TarInfo(name)
    information.size = size
    information.mode = 0o644
    return information.tobuf(tarfile.GNU_FORMAT)
