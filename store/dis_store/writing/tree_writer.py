"""Writing the files of a new object, in private, until it is registered."""

import contextlib
import os
import threading
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from types import TracebackType
from typing import BinaryIO, Self

from dis_store.digest import Digest, Sha256
from dis_store.environment import reported
from dis_store.errors import BuildError, IntegrityError, InvalidInputError
from dis_store.foundation import Foundation
from dis_store.hashing import CHUNK_BYTES, Content
from dis_store.path_rules import PathSet
from dis_store.tree import Entry, FileEntry, ReferenceEntry, Tree
from dis_store.work_progress import uncounted
from dis_store.writing.file_writer import FileWriter, WrittenFile
from dis_store.writing.ingestion import Way, copy_and_hash, open_source, refuse_change
from dis_store.writing.registration import TREE, register
from dis_store.writing.room import check_room
from dis_store.writing.tree_directory import (
    create_file,
    create_hard_link,
    create_link,
    remove_entry,
)
from dis_store.writing.work_space import WorkSpace, open_work_space


@dataclass(frozen=True)
class _Expected:
    """What the content of a file must be, as far as that is known."""

    path: str
    size: int | None
    sha256: Sha256 | None

    def check(self, content: Content) -> None:
        if self.size is not None and content.size != self.size:
            raise self.refusal(f"it has {content.size} bytes, not {self.size}")
        if self.sha256 is not None and content.sha256 != self.sha256:
            raise self.refusal(f"its digest is {content.sha256}, not {self.sha256}")

    def refusal(self, cause: str) -> IntegrityError:
        return IntegrityError(f"the file {self.path!r} is not what was expected", cause=cause)


@dataclass(frozen=True)
class _Site:
    """Where the tree is being written: the work space, and its directory held open."""

    space: WorkSpace
    top: int


class TreeWriter:
    """A new object in the making. A context manager: what is not registered at its end leaves nothing.

    Several threads may write different files of one tree.

    Every method raises `InvalidInputError` for a path that breaks the rules or collides with another, and
    `UnfitEnvironmentError` when the disk is full or refuses.
    """

    def __init__(
        self,
        foundation: Foundation,
        *,
        expected_bytes: int = 0,
        expected_files: int = 1,
        portable_names: bool = True,
        reuses: bool = True,
    ) -> None:
        self._foundation = foundation
        self.reuses = reuses
        self._expected = expected_bytes, expected_files
        self._portable_names = portable_names
        self._paths = PathSet(portable=portable_names)
        self._entries: dict[str, Entry] = {}
        self._contents: dict[Digest, Content] = {}
        # Files that have names elsewhere still: no other object may share their inodes.
        self._unshared: set[str] = set()
        self._unfinished = 0
        self._writers: set[FileWriter] = set()
        self._sealed = False
        self._lock = threading.Lock()
        self._opened: _Site | None = None
        # What is done once the object is there.
        self._afterwards: list[Callable[[], None]] = []

    def __enter__(self) -> Self:
        with reported(self._foundation.top):
            check_room(self._foundation, self._expected[0], files=self._expected[1])
            space = open_work_space(self._foundation.layout.room("tmp"))
            try:
                self._opened = _Site(space, _make_top(space.path / TREE))
            except BaseException:
                space.remove()
                raise
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        if self._opened is not None:
            for writer in list(self._writers):
                writer.abandon()
            site, self._opened = self._opened, None
            os.close(site.top)
            with reported(self._foundation.top):
                site.space.remove()

    @property
    def foundation(self) -> Foundation:
        """The store that the object becomes part of."""
        return self._foundation

    def write_bytes(self, path: str, data: bytes, *, executable: bool = False) -> WrittenFile:
        """Write a file from memory."""
        with self.create(path, executable=executable) as file:
            file.write(data)
        return file.written

    def write_stream(
        self,
        path: str,
        source: BinaryIO,
        *,
        size: int | None = None,
        sha256: Sha256 | None = None,
        executable: bool = False,
    ) -> WrittenFile:
        """Write a file from a stream, read to its end.

        Args:
            path: Where in the object.
            source: Read in pieces of a bounded size.
            size: The bytes that the stream must have, if that is known.
            sha256: The SHA-256 that the stream must have, if that is known.
            executable: Whether the file may be executed.

        Raises:
            IntegrityError: The stream is not what was expected. It is read no further than shows that.
        """
        expected = _Expected(path, size, sha256)
        check_room(self._foundation, size or 0)
        with self._begin(path, expected.check, executable=executable) as file:
            taken = 0
            while chunk := source.read(CHUNK_BYTES):
                taken += len(chunk)
                if size is not None and taken > size:
                    raise expected.refusal(f"more than {size} bytes came")
                file.write(chunk)
        return file.written

    def ingest(
        self,
        path: str,
        source: Path,
        *,
        size: int | None = None,
        sha256: Sha256 | None = None,
        executable: bool | None = None,
        on_bytes: Callable[[int], None] = uncounted,
        with_sha256: bool = True,
    ) -> WrittenFile:
        """Copy a regular file into the object, by shared blocks where the file system can.

        Args:
            path: Where in the object.
            source: Read once, never modified.
            size: The bytes that it must have, if that is known.
            sha256: The SHA-256 that it must have, if that is known.
            executable: Whether the file may be executed; None: as the source.
            on_bytes: Called with the number of bytes of each piece; the file is given up when it raises.
            with_sha256: Whether its SHA-256 is computed, also where it is not known; else the store computes it
                when somebody asks (`Store.sha256_of`).

        Raises:
            InvalidInputError: The source is missing, unreadable, a symlink or no regular file.
            BuildError: The source changed while it was read.
            IntegrityError: The source is not what was expected, or the disk does not give what is in it.
        """
        expected = _Expected(path, size, sha256)
        with open_source(source) as opened:
            before = os.fstat(opened)
            if size is not None and before.st_size != size:
                raise expected.refusal(f"{source} has {before.st_size} bytes, not {size}")
            check_room(self._foundation, before.st_size)
            with self._new_file(path) as descriptor, reported(self._foundation.top):
                content, way = copy_and_hash(
                    opened,
                    descriptor,
                    path=source,
                    on_bytes=on_bytes,
                    with_sha256=with_sha256 or sha256 is not None,
                )
                refuse_change(source, before, os.fstat(opened), content.size)
                expected.check(content)
        if executable is None:
            executable = before.st_mode & 0o111 != 0
        return self._add_file(path, content, executable=executable, way=way)

    def take(
        self,
        path: str,
        source: Path,
        content: Content,
        *,
        inode: tuple[int, int],
        executable: bool,
        shared: bool,
    ) -> WrittenFile:
        """Make a file part of the object by a second name for it, without a copy.

        The caller answers for it that nobody can change the file.

        Args:
            path: Where in the object.
            source: The first name of the file, on the store's file system.
            content: What the file was found to hold.
            inode: Device and inode of what was read.
            executable: Whether the file may be executed.
            shared: Whether objects with an equal file may share this one.

        Raises:
            BuildError: Another file is at `source` by now.
            OSError: It cannot have a second name.
        """
        with self._claimed(path):
            found = create_hard_link(self._site().top, path, str(source))
        if found != inode:
            self._give_up(path)
            raise BuildError(f"the file {source} was replaced while it was read")
        if not shared:
            self._unshared.add(path)
        return self._add_file(path, content, executable=executable, way="move")

    def when_registered(self, action: Callable[[], None]) -> None:
        """Have something done once the object is in the store; never where that does not come about."""
        self._afterwards.append(action)

    def create(self, path: str, *, executable: bool = False) -> FileWriter:
        """Begin a file that is written piece by piece."""
        return self._begin(path, lambda _: None, executable=executable)

    def reference(self, path: str, digest: Digest, subpath: str | None = None) -> None:
        """Let another object, or the entry or directory `subpath` of it, appear under `path`.

        Raises:
            IntegrityError: The other object is not in the store.
            InvalidInputError: Its manifest has no `subpath`.
        """
        with reported(self._foundation.top):
            self._foundation.require(digest)
            target = self._foundation.tree(digest)
            if subpath is not None and not target.shows(subpath):
                raise InvalidInputError(
                    f"the reference {path!r} leads nowhere",
                    cause=f"the object {digest} has no {subpath!r}",
                )
            entry = ReferenceEntry(path, digest, subpath)
            with self._claimed(path):
                create_link(self._site().top, path, entry.link_target)
            with self._lock:
                self._entries[path] = entry
                self._unfinished -= 1

    def finished_file(self, path: str) -> Path:
        """Return where a finished file lies until the tree is registered, for somebody who looks at it.

        Raises:
            InvalidInputError: There is no such finished file.
        """
        site = self._site()
        if path not in self._entries:
            raise InvalidInputError(f"a tree has no finished file {path!r}")
        return site.space.path / TREE / path

    def register(self, *, expected: Digest | None = None) -> Digest:
        """Make what was written an object of the store; return its digest. Durable when it returns.

        Args:
            expected: What the digest must be, if that is known.

        Raises:
            IntegrityError: The digest is another one.
            InvalidInputError: A file is unfinished.
        """
        site = self._site()
        if self._unfinished:
            raise InvalidInputError(
                "a tree cannot be registered", cause="a file of it is unfinished"
            )
        tree = Tree(tuple(self._entries.values()), portable_names=self._portable_names)
        if expected is not None and tree.digest != expected:
            raise IntegrityError(
                "a tree is not what was expected",
                cause=f"its digest is {tree.digest}, not {expected}",
            )
        self._sealed = True
        with reported(self._foundation.top):
            digest = register(
                self._foundation, site.space, tree, self._contents, unshared=self._unshared
            )
            for action in self._afterwards:
                action()
        return digest

    def _site(self) -> _Site:
        if self._opened is None or self._sealed:
            raise InvalidInputError(
                "nothing can be written to a tree", cause="it is registered, or not open (`with`)"
            )
        return self._opened

    def _begin(
        self, path: str, check: Callable[[Content], None], *, executable: bool
    ) -> FileWriter:
        def accept(content: Content) -> WrittenFile:
            check(content)
            self._writers.discard(writer)
            return self._add_file(path, content, executable=executable)

        def give_up() -> None:
            self._writers.discard(writer)
            self._give_up(path)

        store = self._foundation.top
        with reported(store), self._claimed(path):
            descriptor = create_file(self._site().top, path)
        writer = FileWriter(descriptor, store=store, accept=accept, give_up=give_up)
        self._writers.add(writer)
        return writer

    @contextlib.contextmanager
    def _new_file(self, path: str) -> Iterator[int]:
        with reported(self._foundation.top), self._claimed(path):
            descriptor = create_file(self._site().top, path)
        try:
            yield descriptor
        except BaseException:
            self._give_up(path)
            raise
        finally:
            os.close(descriptor)

    @contextlib.contextmanager
    def _claimed(self, path: str) -> Iterator[None]:
        """Take `path` for an entry that is unfinished from here on, unless the block fails."""
        self._site()
        with self._lock:
            self._paths.add(path)
            self._unfinished += 1
        try:
            yield
        except BaseException:
            self._forget(path)
            raise

    def _give_up(self, path: str) -> None:
        if self._opened is not None:
            with contextlib.suppress(OSError):
                remove_entry(self._opened.top, path)
        self._forget(path)

    def _forget(self, path: str) -> None:
        with self._lock:
            self._paths.discard(path)
            self._unfinished -= 1

    def _add_file(
        self, path: str, content: Content, *, executable: bool, way: Way | None = None
    ) -> WrittenFile:
        with self._lock:
            self._entries[path] = FileEntry(path, content.size, content.blake3, executable)
            self._contents[content.blake3] = content
            self._unfinished -= 1
        return WrittenFile(
            path, content.size, content.blake3, content.known_sha256, executable, way
        )


def _make_top(path: Path) -> int:
    path.mkdir()
    path.chmod(0o755)
    return os.open(path, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW)
