"""Reading an archive of closures that may come from anywhere.

Nothing in it is believed. Every block that is no content must be, byte for byte, the one that an export writes there
(`tar_reader`), and no name of the archive is ever used as a path. Every content is compared with a digest, and nothing
is registered before the last byte was. Contents that arrived are kept under `links/` until the next collection, so that
an archive that broke off can be gone on with.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import BinaryIO

from dis_store.archives import closure_archive as archive
from dis_store.archives.closure_arrival import Arrival, check_room, coming, read_content
from dis_store.archives.compression import decompressing
from dis_store.archives.received_objects import register_received
from dis_store.archives.tar_reader import TarReader
from dis_store.closures import closure
from dis_store.digest import Digest
from dis_store.environment import reported
from dis_store.errors import InvalidInputError
from dis_store.hashing import Content
from dis_store.store import Store
from dis_store.tree import Tree
from dis_store.work_progress import Progress, counter
from dis_store.writing.work_space import WorkSpace, work_space

# All tree manifests together; one of a million entries has 200 MiB.
_MAX_MANIFEST_BYTES = 512 << 20
_COMPRESSED = {b"\x1f\x8b": "gzip -dc", b"\xfd7zXZ": "xz -dc"}


@dataclass(frozen=True)
class ImportedClosures:
    """What came in.

    Attributes:
        roots: The objects that the archive was made of; nothing keeps them once the store is closed.
        objects: How many objects it holds with all that they refer to.
        new: How many of them were not in the store before.
        signatures: How many signed documents about them came with them; nothing is believed by that.
        crowded: Objects about which the store has as many documents as it keeps, so that new ones were left out.
    """

    roots: tuple[Digest, ...]
    objects: int
    new: int
    signatures: int
    crowded: tuple[Digest, ...]


CheckSigned = Callable[[bytes], None]
"""Raises InvalidInputError for bytes that are no signed document."""


def unchecked(_data: bytes) -> None:
    """Take any bytes for a signed document."""


def import_closures(
    store: Store,
    stream: BinaryIO,
    *,
    name: str = "the archive",
    check_signed: CheckSigned = unchecked,
    progress: Progress | None = None,
) -> ImportedClosures:
    """Bring the closures of an archive into the store: all of it, or nothing.

    Args:
        store: The store.
        stream: Read to its end, once.
        name: What messages call it.
        check_signed: Looks at the form of each signed document in it.
        progress: Told of the bytes of files.

    Raises:
        InvalidInputError: It is no archive of closures.
        IntegrityError: It is damaged, or its bytes are not what its digests say.
        UnfitEnvironmentError: Its format is newer, or the disk is full.
    """
    with decompressing(stream, name) as unpacked:
        source = _reader(unpacked, name)
        header, trees, documents = _front(source, name, check_signed)
        with reported(store.path), work_space(store.path / "tmp") as space:
            arrival = Arrival(store, source, space)
            found = arrival.contents(header, archive.contents(trees), progress)
            source.check_end()
            new = _register_all(store, header.roots, trees, found, space)
            # Last, since what is signed must be there. It says nothing of whom to believe.
            crowded = _keep_signatures(store, header.signatures, documents)
            return ImportedClosures(header.roots, len(trees), new, len(documents), crowded)


def _keep_signatures(
    store: Store,
    signatures: Mapping[Digest, tuple[Digest, ...]],
    documents: Mapping[Digest, bytes],
) -> tuple[Digest, ...]:
    """Keep signed documents; return the objects that have too many for all of them.

    Whoever filled a store with documents about an object must not keep the object itself from coming in.
    """
    crowded = []
    for digest, listed in signatures.items():
        known = store.signatures(digest).keys()
        for each in listed:
            if each in known:
                continue
            if store.is_full_of_signatures(digest):
                crowded.append(digest)
                break
            store.add_signature(digest, documents[each])
    return tuple(crowded)


@dataclass(frozen=True)
class PlannedImport:
    """What importing an archive would do.

    Attributes:
        roots: The objects that the archive was made of.
        objects: How many objects it holds with all that they refer to.
        new: Those of them that are not in the store.
        bytes: The bytes of the files that it holds.
        signatures: How many signed documents about them it holds.
    """

    roots: tuple[Digest, ...]
    objects: int
    new: tuple[Digest, ...]
    bytes: int
    signatures: int


def plan_import(
    store: Store,
    stream: BinaryIO,
    *,
    name: str = "the archive",
    check_signed: CheckSigned = unchecked,
    progress: Progress | None = None,
) -> PlannedImport:
    """Return what `import_closures` would do; every byte is read and compared, and nothing is written.

    Raises:
        InvalidInputError, IntegrityError, UnfitEnvironmentError: As `import_closures`.
    """
    with decompressing(stream, name) as unpacked:
        source = _reader(unpacked, name)
        header, trees, documents = _front(source, name, check_signed)
        wanted = coming(header, archive.contents(trees))
        size = check_room(store, wanted)
        on_bytes = counter(progress, size)
        for blake3, length in wanted:
            read_content(source, blake3, length, None, on_bytes)
        source.check_end()
    new = tuple(digest for digest in sorted(trees) if not store.is_valid(digest))
    return PlannedImport(header.roots, len(trees), new, size, len(documents))


def _front(
    source: TarReader, name: str, check_signed: CheckSigned
) -> tuple[archive.Header, dict[Digest, Tree], dict[Digest, bytes]]:
    """Read what stands before the files: the header, the manifests, and the signed documents."""
    header = _header(source, name)
    trees = _manifests(source, header.objects)
    _check_whole(source, header.roots, trees)
    for digest in header.signatures.keys() - trees.keys():
        source.refuse(f"it has signatures about {digest}, which is not in it")
    return header, trees, _documents(source, header.documents, check_signed)


def _documents(
    source: TarReader, expected: Sequence[Digest], check_signed: CheckSigned
) -> dict[Digest, bytes]:
    """Read the signed documents, whose names are their digests, in ascending order."""
    documents: dict[Digest, bytes] = {}
    left = archive.MAX_SIGNATURES_BYTES
    for digest in expected:
        limit = min(left, archive.MAX_SIGNATURE_BYTES)
        data = source.document(lambda data: archive.signature_name(Digest.of(data)), limit)
        left -= len(data)
        if Digest.of(data) != digest:
            source.refuse(f"it lacks the signature {digest}")
        check_signed(data)
        documents[digest] = data
    return documents


def _manifests(source: TarReader, count: int) -> dict[Digest, Tree]:
    """Read the manifests, whose names are their digests, in ascending order."""
    trees: dict[Digest, Tree] = {}
    left, last = _MAX_MANIFEST_BYTES, ""
    for _ in range(count):
        data = source.document(lambda data: archive.manifest_name(Digest.of(data)), left)
        left -= len(data)
        digest = Digest.of(data)
        if digest <= last:
            source.refuse("its manifests are out of order")
        trees[digest], last = Tree.decode(data), digest
    return trees


def _check_whole(source: TarReader, roots: Sequence[Digest], trees: Mapping[Digest, Tree]) -> None:
    def references(digest: Digest) -> set[Digest]:
        if digest not in trees:
            source.refuse(f"it has no manifest of the object {digest}")
        return {entry.object for entry in trees[digest].references}

    members = closure(roots, references)
    if len(members) != len(trees):
        source.refuse("it has manifests that no root refers to")
    for digest in members:
        for entry in trees[digest].references:
            if entry.subpath is not None and not trees[entry.object].shows(entry.subpath):
                source.refuse(f"{entry.path!r:.200} of {digest} leads nowhere")


def _register_all(
    store: Store,
    roots: Sequence[Digest],
    trees: Mapping[Digest, Tree],
    contents: Mapping[Digest, Content],
    space: WorkSpace,
) -> int:
    """Register what is not in the store; return how many objects that were."""
    ordered = closure(roots, lambda digest: {entry.object for entry in trees[digest].references})
    new = 0
    for digest in ordered:
        if not store.protect(digest):
            register_received(store, digest, trees[digest], contents, space)
            new += 1
    return new


def _reader(stream: BinaryIO, name: str) -> TarReader:
    return TarReader(
        stream,
        name=name,
        kind="an archive of closures",
        header=archive.member_header,
        record_bytes=archive.BLOCK_BYTES,
    )


def _header(source: TarReader, name: str) -> archive.Header:
    """Read the first member."""
    block = source.next_block()
    for magic, command in _COMPRESSED.items():
        if block.startswith(magic):
            raise InvalidInputError(
                f"{name} is not an archive of closures",
                cause="it is compressed",
                hint=f"unpack it on the way: {command} FILE | dis store import -",
            )
    return archive.decode_header(
        source.document(lambda _: archive.HEADER, archive.MAX_HEADER_BYTES)
    )
