"""Receiving the contents of files from an archive of closures, so that what has arrived need not come again."""

import os
import shutil
import stat
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import BinaryIO

from dis_store.archives import closure_archive as archive
from dis_store.archives.tar_reader import TarReader
from dis_store.digest import Digest
from dis_store.durability import fsync_file
from dis_store.errors import IntegrityError
from dis_store.hashing import Content, ContentHasher, hash_content
from dis_store.integrity.copies import Copies
from dis_store.integrity.inspection import FILE_MODE, MTIME, hash_file
from dis_store.platform_linux import write_all
from dis_store.store import Store
from dis_store.tree import FileEntry
from dis_store.work_progress import Progress, counter
from dis_store.writing.ingestion import open_source
from dis_store.writing.registration import tolerated
from dis_store.writing.work_space import WorkSpace

_Contents = Sequence[tuple[Digest, int]]


class Arrival:
    """The contents of one archive on their way into a work space, each under its digest."""

    def __init__(self, store: Store, source: TarReader, space: WorkSpace) -> None:
        foundation = store._foundation  # noqa: SLF001 - of one package
        self._layout = foundation.layout
        self._copies = Copies(foundation, ())
        self._store = store
        self._source = source
        self._space = space

    def contents(
        self, header: archive.Header, contents: _Contents, progress: Progress | None
    ) -> dict[Digest, Content]:
        """Put all contents into the work space; those that the archive leaves out come from the store.

        Raises:
            InvalidInputError: The store lacks one that the archive leaves out.
            IntegrityError: The archive is damaged, or ends too early; its hint says how to go on then.
        """
        expected = coming(header, contents)
        on_bytes = counter(progress, check_room(self._store, expected))
        found = {
            blake3: self._here(blake3, size)
            for blake3, size in contents
            if header.after is not None and blake3 <= header.after
        }
        last = header.after
        try:
            for blake3, size in expected:
                found[blake3] = self._receive(blake3, size, on_bytes)
                last = blake3
        except IntegrityError as error:
            if last is None:
                raise
            raise IntegrityError(error.what, cause=error.cause, hint=_way_on(last)) from error
        return found

    def _receive(self, blake3: Digest, size: int, on_bytes: Callable[[int], None]) -> Content:
        """Take the next content of the archive, and keep it for the next try."""
        target = self._space.path / blake3
        link = self._layout.link(blake3, executable=False)
        if _is_waiting(link) and hash_file(link) == blake3:
            os.link(link, target)
            return read_content(self._source, blake3, size, None, on_bytes)
        content = read_content(self._source, blake3, size, target, on_bytes)
        target.chmod(FILE_MODE)
        os.utime(target, ns=MTIME)
        # What lies in `links/` is on the disk: after a power cut it must not be something else under that name.
        fsync_file(target)
        with tolerated():
            link.parent.mkdir(exist_ok=True)
            os.link(target, link)
        return content

    def _here(self, blake3: Digest, size: int) -> Content:
        copy = self._copies.find(FileEntry("file", size, blake3))
        if copy is None:
            self._source.refuse(f"it goes on after other files, and the store lacks {blake3}")
        target = self._space.path / blake3
        # Another name for a file of another mode would change that mode.
        if stat.S_IMODE(copy.lstat().st_mode) == FILE_MODE:
            os.link(copy, target)
        else:
            shutil.copyfile(copy, target)
        with open_source(target) as descriptor:
            return hash_content(descriptor)


def coming(header: archive.Header, contents: _Contents) -> _Contents:
    """Return those contents that the archive holds."""
    return [each for each in contents if each[0] > (header.after or "")]


def check_room(store: Store, wanted: _Contents) -> int:
    """Refuse when the disk cannot hold the files; return their bytes."""
    size = sum(each for _, each in wanted)
    store.check_room(size, files=len(wanted))
    return size


def read_content(
    source: TarReader,
    digest: Digest,
    size: int,
    target: Path | None,
    on_bytes: Callable[[int], None],
) -> Content:
    """Write the next content to a new file; where there is no target, only compare it with its digest.

    Raises:
        InvalidInputError, IntegrityError: Something else comes next.
    """
    name = archive.file_name(digest)
    hasher = ContentHasher()
    try:
        with _written_to(target) as write:
            for chunk in source.chunks(name, size):
                write(chunk)
                hasher.update(chunk)
                on_bytes(len(chunk))
    except BaseException:
        hasher.abandon()
        raise
    content = hasher.finish()
    if content.blake3 != digest:
        source.damaged(f"the BLAKE3 of {name} is {content.blake3}")
    return content


def _is_waiting(link: Path) -> bool:
    """Tell whether a content arrived before, and is part of no object."""
    try:
        status = link.lstat()
    except FileNotFoundError:
        return False
    return stat.S_ISREG(status.st_mode) and status.st_nlink == 1


def _way_on(last: Digest) -> str:
    return (
        "what arrived is kept until the next dis gc; let the rest come:"
        f" dis store export REF... --after {last}"
    )


@contextmanager
def _written_to(target: Path | None) -> Iterator[Callable[[bytes], None]]:
    if target is None:
        yield lambda _: None
        return
    with target.open("xb", buffering=0) as file:
        yield lambda chunk: _write(file, chunk)


def _write(file: BinaryIO, chunk: bytes) -> None:
    write_all(file.fileno(), chunk)
