"""The files of one object as one archive: the same bytes every time, and never written to a disk to be sent."""

import hashlib
import json
from bisect import bisect_right
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from itertools import accumulate
from pathlib import Path
from typing import BinaryIO

from dis_derivations.distribution import layout
from dis_derivations.registry.documents import Descriptor
from dis_derivations.registry.uploads import Blob
from dis_store import Store
from dis_store.archives import closure_archive
from dis_store.archives.closure_arrival import read_content
from dis_store.archives.tar_reader import TarReader
from dis_store.digest import Digest, Sha256
from dis_store.errors import IntegrityError, InvalidInputError
from dis_store.hashing import Content
from dis_store.tree import Tree
from dis_store.writing.work_space import WorkSpace

_PIECE = 1 << 18
_PLAN = b"the archive of the files of an object, format 1: "


@dataclass(frozen=True)
class _Segment:
    """A stretch of the archive: bytes of its own, or a file."""

    size: int
    data: bytes = b""
    path: Path | None = None

    def read(self, start: int, end: int) -> Iterator[bytes]:
        if self.path is None:
            yield self.data[start:end]
            return
        with self.path.open("rb", buffering=0) as file:
            file.seek(start)
            left = end - start
            while left:
                piece = file.read(min(left, _PIECE))
                if not piece:
                    raise IntegrityError(
                        f"the file {self.path} is damaged", cause="it is too short"
                    )
                left -= len(piece)
                yield piece


class FilesArchive:
    """The archive of an object that is in the store.

    Its members are the different contents of its files, named `files/<BLAKE3>`, in the order of their names.
    """

    def __init__(self, store: Store, digest: Digest) -> None:
        self._store = store
        self._digest = digest
        tree = store.tree(digest)
        places = {entry.blake3: store.object_path(digest) / entry.path for entry in tree.files}
        self._segments = list(_segments(tree, places))
        self._ends = list(accumulate(segment.size for segment in self._segments))

    @property
    def size(self) -> int:
        """The bytes of it."""
        return self._ends[-1]

    def read(self, start: int, end: int) -> Iterator[bytes]:
        """Yield the bytes from `start` to before `end`."""
        number = bisect_right(self._ends, start)
        while start < end:
            segment, stop = self._segments[number], self._ends[number]
            begin = stop - segment.size
            yield from segment.read(start - begin, min(end, stop) - begin)
            start, number = max(start, stop), number + 1

    def descriptor(self, check_interrupted: Callable[[], None]) -> Descriptor:
        """Return what names it. It is hashed once; the store remembers what came out."""
        key = Digest.of(_PLAN + self._digest.encode())
        known = self._store.recall_plan(key)
        if known is None:
            hasher = hashlib.sha256()
            for piece in self.read(0, self.size):
                hasher.update(piece)
                check_interrupted()
            known = json.dumps(f"sha256:{hasher.hexdigest()}")
            self._store.remember_plan(key, known, [self._digest])
        return Descriptor(layout.TAR_LAYER, Sha256(json.loads(known)), self.size)

    def blob(self, descriptor: Descriptor) -> Blob:
        """Return it as something to send."""
        return Blob(descriptor.digest, descriptor.size, self.read)


def _segments(tree: Tree, places: "dict[Digest, Path]") -> Iterator[_Segment]:
    for blake3, size in closure_archive.contents({tree.digest: tree}):
        header = closure_archive.member_header(closure_archive.file_name(blake3), size)
        yield _Segment(len(header), header)
        yield _Segment(size, path=places[blake3])
        rest = closure_archive.padding(size)
        if rest:
            yield _Segment(len(rest), rest)
    yield _Segment(len(closure_archive.END), closure_archive.END)


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
