"""The files of one object as one archive: the same bytes every time, and never written to a disk to be sent."""

from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from typing import BinaryIO

from dis_derivations.distribution import layout
from dis_derivations.distribution.segments import Segment, Segments
from dis_derivations.registry.documents import Descriptor
from dis_derivations.registry.uploads import Blob
from dis_store import Store
from dis_store.archives import closure_archive
from dis_store.archives.closure_arrival import read_content
from dis_store.archives.tar_reader import TarReader
from dis_store.digest import Digest
from dis_store.errors import IntegrityError, InvalidInputError
from dis_store.hashing import Content
from dis_store.tree import Tree
from dis_store.writing.work_space import WorkSpace

_PLAN = b"the archive of the files of an object, format 1: "


class FilesArchive:
    """The archive of an object that is in the store.

    Its members are the different contents of its files, named `files/<BLAKE3>`, in the order of their names.
    """

    def __init__(self, store: Store, digest: Digest) -> None:
        self._store = store
        self._digest = digest
        tree = store.tree(digest)
        places = {entry.blake3: store.object_path(digest) / entry.path for entry in tree.files}
        self._segments = Segments(_segments(tree, places))

    @property
    def size(self) -> int:
        """The bytes of it."""
        return self._segments.size

    def read(self, start: int, end: int) -> Iterator[bytes]:
        """Yield the bytes from `start` to before `end`."""
        return self._segments.read(start, end)

    def descriptor(self, check_interrupted: Callable[[], None]) -> Descriptor:
        """Return what names it."""
        key = Digest.of(_PLAN + self._digest.encode())
        sha256 = self._segments.sha256(self._store, key, [self._digest], check_interrupted)
        return Descriptor(layout.TAR_LAYER, sha256, self.size)

    def blob(self, descriptor: Descriptor) -> Blob:
        """Return it as something to send."""
        return self._segments.blob(descriptor.digest)


def _segments(tree: Tree, places: "dict[Digest, Path]") -> Iterator[Segment]:
    for blake3, size in closure_archive.contents({tree.digest: tree}):
        header = closure_archive.member_header(closure_archive.file_name(blake3), size)
        yield Segment.of_bytes(header)
        yield Segment(size, path=places[blake3])
        yield Segment.of_bytes(closure_archive.padding(size))
    yield Segment.of_bytes(closure_archive.END)


def archive_size(tree: Tree) -> int:
    """Return the bytes that the archive of an object has."""
    contents: Iterable[tuple[Digest, int]] = closure_archive.contents({tree.digest: tree})
    block = closure_archive.BLOCK_BYTES
    return sum(block + size + -size % block for _, size in contents) + len(closure_archive.END)


def unpack(
    stream: BinaryIO, tree: Tree, space: WorkSpace, on_bytes: Callable[[int], None]
) -> dict[Digest, Content]:
    """Write each content of an archive to its place in a work space, after comparing it with its digest.

    Raises:
        IntegrityError: It is not, byte for byte, the archive of this tree.
    """
    reader = TarReader(
        stream,
        name="an archive of the registry",
        kind="the files of its object",
        header=closure_archive.member_header,
        record_bytes=closure_archive.BLOCK_BYTES,
    )
    found = {}
    try:
        for blake3, size in closure_archive.contents({tree.digest: tree}):
            target = space.path / blake3
            if target.exists():
                found[blake3] = read_content(reader, blake3, size, None, on_bytes)
                continue
            found[blake3] = read_content(reader, blake3, size, target, on_bytes)
        reader.check_end()
    except InvalidInputError as error:
        raise IntegrityError(error.what, cause=error.cause) from error
    return found
