"""Writing closures as one archive: the same bytes every time."""

from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import BinaryIO

from blake3 import blake3

from dis_store.archives import closure_archive as archive
from dis_store.digest import Digest
from dis_store.environment import reading
from dis_store.errors import IntegrityError, InvalidInputError
from dis_store.hashing import CHUNK_BYTES
from dis_store.signatures import MAX_OF_KEY, about_objects
from dis_store.store import Store
from dis_store.tree import Tree
from dis_store.work_progress import Progress, counter


@dataclass(frozen=True)
class ExportedClosures:
    """An archive that was written: how many objects, files and signatures it has, its size, its BLAKE3."""

    objects: int
    files: int
    signatures: int
    size: int
    blake3: Digest


def export_closures(
    store: Store,
    digests: Sequence[Digest],
    stream: BinaryIO,
    *,
    after: Digest | None = None,
    progress: Progress | None = None,
) -> ExportedClosures:
    """Write the closures of objects to a stream, with the signed documents about them and about what gave them.

    Args:
        store: The store.
        digests: The objects.
        stream: Where to.
        after: Leave out the contents of files up to this one: whoever reads the archive has them already.
        progress: Told of the bytes of files.

    Raises:
        IntegrityError: An object is not in the store or is damaged; what was written is no archive then.
        InvalidInputError: There are more signed documents than an archive holds, or `after` is none of the files.
        OSError: The stream refuses.
    """
    roots = list(dict.fromkeys(digests))
    members = store.closure(roots)
    store.protect_all(members)
    trees = {digest: store.tree(digest) for digest in sorted(members)}
    contents = archive.contents(trees)
    _check_after(after, dict(contents))
    output = _Output(stream)
    signed, documents = _signed(store, trees)
    header = archive.Header(tuple(roots), len(trees), after, signed)
    encoded = header.encode()
    _check_amount(encoded, documents)
    output.add(archive.HEADER, encoded)
    for digest, tree in trees.items():
        output.add(archive.manifest_name(digest), tree.encode())
    for digest in header.documents:
        output.add(archive.signature_name(digest), documents[digest])
    places = _places(store, trees)
    contents = [each for each in contents if each[0] > (after or "")]
    on_bytes = counter(progress, sum(size for _, size in contents))
    for blake3_digest, size in contents:
        output.add_file(blake3_digest, size, places[blake3_digest], on_bytes)
    output.write(archive.END)
    return ExportedClosures(
        len(trees), len(contents), len(header.documents), output.size, output.digest
    )


def _signed(
    store: Store, trees: Mapping[Digest, Tree]
) -> tuple[dict[Digest, tuple[Digest, ...]], dict[Digest, bytes]]:
    """Return which signed documents are about each object, and their bytes."""
    foundation = store._foundation  # noqa: SLF001 - of one package
    found = {
        digest: dict(sorted(about.items())[:MAX_OF_KEY])
        for digest, about in about_objects(foundation, trees.keys()).items()
    }
    documents = {digest: data for about in found.values() for digest, data in about.items()}
    return {digest: tuple(about) for digest, about in found.items()}, documents


def _check_amount(header: bytes, documents: Mapping[Digest, bytes]) -> None:
    size = sum(map(len, documents.values()))
    if len(header) > archive.MAX_HEADER_BYTES or size > archive.MAX_SIGNATURES_BYTES:
        raise InvalidInputError(
            "these objects cannot be in one archive",
            cause=f"they have {len(documents)} signatures of {size} bytes, more than it holds",
            hint="export fewer objects at a time",
        )


def _check_after(after: Digest | None, known: Collection[Digest]) -> None:
    if after is not None and after not in known:
        raise InvalidInputError(
            f"the archive cannot go on after {after}",
            cause="it is none of the files of these objects",
            hint="name the objects that the archive was made of, all of them",
        )


def _places(store: Store, trees: dict[Digest, Tree]) -> dict[Digest, Path]:
    return {
        entry.blake3: store.object_path(digest) / entry.path
        for digest, tree in trees.items()
        for entry in tree.files
    }


class _Output:
    """The stream, counted and hashed."""

    def __init__(self, stream: BinaryIO) -> None:
        self._stream = stream
        self._hasher = blake3()
        self.size = 0

    @property
    def digest(self) -> Digest:
        return Digest(self._hasher.hexdigest())

    def write(self, data: bytes) -> None:
        view = memoryview(data)
        while view:
            # A raw stream, such as a pipe, may take less.
            view = view[self._stream.write(view) or 0 :]
        self._hasher.update(data)
        self.size += len(data)

    def add(self, name: str, data: bytes) -> None:
        self.write(archive.member_header(name, len(data)) + data + archive.padding(len(data)))

    def add_file(
        self, digest: Digest, size: int, place: Path, on_bytes: Callable[[int], None]
    ) -> None:
        """Copy a file of the store, hashing what is copied: an archive must not spread damage."""
        self.write(archive.member_header(archive.file_name(digest), size))
        hasher = blake3()
        left = size
        with place.open("rb", buffering=0) as file:
            while left and (chunk := _piece(file, min(left, CHUNK_BYTES), place)):
                hasher.update(chunk)
                self.write(chunk)
                left -= len(chunk)
                on_bytes(len(chunk))
        if left or hasher.hexdigest() != digest:
            raise IntegrityError(
                f"the file {place} is damaged",
                cause=f"its BLAKE3 is not {digest}",
                hint="find what else is damaged: dis store verify --all",
            )
        self.write(archive.padding(size))


def _piece(file: BinaryIO, size: int, place: Path) -> bytes:
    # By itself: where the archive goes may fail as well, and that is no damage.
    with reading(place):
        return file.read(size)
