"""Reading an archive of closures that may come from anywhere.

Nothing in it is believed. Every block that is no content must be, byte for byte, the one that an export writes there:
so there are no links, devices, long names or sparse files to be careful with, and no name of the archive is ever used
as a path. Every content is compared with a digest, and nothing is registered before the last byte was.
"""

import shutil
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import BinaryIO, NoReturn

from dis_store import closure_archive as archive
from dis_store.closures import closure
from dis_store.digest import Digest
from dis_store.environment import disk_full, reported
from dis_store.errors import IntegrityError, InvalidInputError
from dis_store.hashing import CHUNK_BYTES, Content, ContentHasher
from dis_store.platform_linux import write_all
from dis_store.store import Store
from dis_store.tree import FileEntry, Tree
from dis_store.work_space import WorkSpace, work_space

_MAX_HEADER_BYTES = 1 << 20
# All tree manifests together; one of a million entries has 200 MiB.
_MAX_MANIFEST_BYTES = 512 << 20
_COMPRESSED = {b"\x1f\x8b": "gzip -dc", b"\x28\xb5\x2f\xfd": "zstd -dc", b"\xfd7zXZ": "xz -dc"}


@dataclass(frozen=True)
class ImportedClosures:
    """What came in.

    Attributes:
        roots: The objects that the archive was made of; nothing keeps them once the store is closed.
        objects: How many objects it holds with all that they refer to.
        new: How many of them were not in the store before.
    """

    roots: tuple[Digest, ...]
    objects: int
    new: int


def import_closures(
    store: Store, stream: BinaryIO, *, name: str = "the archive"
) -> ImportedClosures:
    """Bring the closures of an archive into the store: all of it, or nothing.

    Args:
        store: The store.
        stream: Read to its end, once.
        name: What messages call it.

    Raises:
        InvalidInputError: It is no archive of closures.
        IntegrityError: It is damaged, or its bytes are not what its digests say.
        UnfitEnvironmentError: Its format is newer, or the disk is full.
    """
    source = _Input(stream, name)
    roots, count = archive.decode_header(source.first())
    trees = _manifests(source, count)
    _check_whole(source, roots, trees)
    with reported(store.path), work_space(store.path / "tmp") as space:
        found = _contents(source, store, space, trees)
        source.check_end()
        return _register_all(store, roots, trees, found, space)


def _manifests(source: "_Input", count: int) -> dict[Digest, Tree]:
    """Read the manifests, whose names are their digests, in ascending order."""
    trees: dict[Digest, Tree] = {}
    left, last = _MAX_MANIFEST_BYTES, ""
    for _ in range(count):
        data = source.manifest(left)
        left -= len(data)
        digest = Digest.of(data)
        if digest <= last:
            source.refuse("its manifests are out of order")
        trees[digest], last = Tree.decode(data), digest
    return trees


def _check_whole(source: "_Input", roots: list[Digest], trees: Mapping[Digest, Tree]) -> None:
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


def _contents(
    source: "_Input", store: Store, space: WorkSpace, trees: Mapping[Digest, Tree]
) -> dict[Digest, Content]:
    """Unpack the files under their digests."""
    wanted = archive.contents(trees)
    needed, free = sum(size for _, size in wanted), shutil.disk_usage(store.path).free
    if free < needed:
        raise disk_full(store.path, f"{needed} bytes are needed, and {free} are free")
    return {blake3: source.file(blake3, size, space.path / blake3) for blake3, size in wanted}


def _register_all(
    store: Store,
    roots: list[Digest],
    trees: Mapping[Digest, Tree],
    contents: Mapping[Digest, Content],
    space: WorkSpace,
) -> ImportedClosures:
    ordered = closure(roots, lambda digest: {entry.object for entry in trees[digest].references})
    new = 0
    for digest in ordered:
        if not store.protect(digest):
            _register(store, digest, trees[digest], contents, space)
            new += 1
    return ImportedClosures(tuple(roots), len(ordered), new)


def _register(
    store: Store, digest: Digest, tree: Tree, contents: Mapping[Digest, Content], space: WorkSpace
) -> None:
    with store.new_tree(portable_names=tree.portable_names) as writer:
        for entry in tree.entries:
            if not isinstance(entry, FileEntry):
                writer.reference(entry.path, entry.object, entry.subpath)
                continue
            # A file that is executable in one place and not in another needs two inodes.
            source = space.path / (f"{entry.blake3}-x" if entry.executable else entry.blake3)
            if not source.exists():
                shutil.copyfile(space.path / entry.blake3, source)
            status = source.lstat()
            writer.take(
                entry.path,
                source,
                contents[entry.blake3],
                inode=(status.st_dev, status.st_ino),
                executable=entry.executable,
                shared=True,
            )
        writer.register(expected=digest)


class _Input:
    """The stream, of which only what an export would have written there is taken."""

    def __init__(self, stream: BinaryIO, name: str) -> None:
        self._stream = stream
        self._name = name

    def first(self) -> bytes:
        """Return the content of the first member."""
        block = self._read(archive.BLOCK_BYTES)
        for magic, command in _COMPRESSED.items():
            if block.startswith(magic):
                raise InvalidInputError(
                    f"{self._name} is not an archive of closures",
                    cause="it is compressed",
                    hint=f"unpack it on the way: {command} FILE | dis store import -",
                )
        return self._body(archive.HEADER, block, _MAX_HEADER_BYTES)

    def manifest(self, limit: int) -> bytes:
        """Return the next tree manifest, whose BLAKE3 is its name."""
        block = self._read(archive.BLOCK_BYTES)
        size = _size_field(block)
        if size is None or size > limit:
            self.refuse("a tree manifest is missing, or they are too large together")
        data = self._read(size)
        self._check(block, archive.manifest_name(Digest.of(data)), size)
        self._skip_padding(size)
        return data

    def file(self, digest: Digest, size: int, target: Path) -> Content:
        """Write the next content to a new file."""
        self._check(self._read(archive.BLOCK_BYTES), archive.file_name(digest), size)
        hasher, left = ContentHasher(), size
        try:
            with target.open("xb", buffering=0) as file:
                while left:
                    chunk = self._read(min(left, CHUNK_BYTES))
                    write_all(file.fileno(), chunk)
                    hasher.update(chunk)
                    left -= len(chunk)
        except BaseException:
            hasher.abandon()
            raise
        content = hasher.finish()
        if content.blake3 != digest:
            raise IntegrityError(
                f"{self._name} is damaged",
                cause=f"the BLAKE3 of files/{digest} is {content.blake3}",
            )
        self._skip_padding(size)
        return content

    def check_end(self) -> None:
        """Refuse whatever comes after the last file."""
        if self._read(len(archive.END)) != archive.END or self._stream.read(1):
            self.refuse("something follows its last file")

    def refuse(self, cause: str) -> NoReturn:
        """Refuse the archive."""
        raise InvalidInputError(f"{self._name} is not an archive of closures", cause=cause)

    def _body(self, name: str, block: bytes, limit: int) -> bytes:
        size = _size_field(block)
        if size is None or size > limit:
            self.refuse(f"it does not begin with {name}")
        self._check(block, name, size)
        data = self._read(size)
        self._skip_padding(size)
        return data

    def _check(self, block: bytes, name: str, size: int) -> None:
        if block != archive.member_header(name, size):
            self.refuse(f"what stands before {name} is not what an export writes there")

    def _skip_padding(self, size: int) -> None:
        expected = archive.padding(size)
        if self._read(len(expected)) != expected:
            self.refuse("there is something between two of its files")

    def _read(self, size: int) -> bytes:
        data = bytearray()
        while len(data) < size:
            # A pipe gives what it has.
            piece = self._stream.read(min(size - len(data), CHUNK_BYTES))
            if not piece:
                raise IntegrityError(f"{self._name} is damaged", cause="it ends too early")
            data += piece
        return bytes(data)


def _size_field(block: bytes) -> int | None:
    """Return what the size field of a header says, octal as for all members of less than 8 GiB."""
    try:
        return int(block[124:135], 8)
    except ValueError:
        return None
