"""Making an object of a file or a directory that lies outside the store."""

import contextlib
import os
import stat
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path

from dis_store.digest import Digest
from dis_store.environment import reported
from dis_store.errors import InvalidInputError
from dis_store.path_rules import PathSet
from dis_store.store import Store
from dis_store.tree import MAX_ENTRIES
from dis_store.work_progress import Progress, counter
from dis_store.writing.adoption import (
    Adopted,
    adopt,
    check_stored,
    may_move,
    remove_source,
    restore,
)
from dis_store.writing.file_writer import WrittenFile


def _untold(_file: WrittenFile) -> None:
    """Let a file go by."""


def _unkept(_digest: Digest) -> None:
    """Let the object be garbage until somebody gives it a root."""


@dataclass(frozen=True)
class _Source:
    """A file to be added.

    Attributes:
        path: Where it goes in the object.
        real: Where it is.
        size: Its bytes when it was seen.
    """

    path: str
    real: Path
    size: int


@dataclass(frozen=True)
class PlannedAddition:
    """What adding a path would do.

    Attributes:
        files: How many files it has.
        bytes: Their bytes.
        moved: How many would move into the store without being copied; the others are copied.
    """

    files: int
    bytes: int
    moved: int


def plan_addition(store: Store, path: Path, *, adopt: bool = False) -> PlannedAddition:
    """Return what `add_path` would do, reading no file and changing nothing.

    Raises:
        InvalidInputError: As `add_path`, as far as it can be told without reading.
    """
    sources = _survey(store, path)
    moved = 0
    if adopt:
        _check_removable(path, sources)
        moved = sum(may_move(each.real, store.path) for each in sources)
    return PlannedAddition(len(sources), sum(each.size for each in sources), moved)


def add_path(
    store: Store,
    path: Path,
    *,
    adopt: bool = False,
    jobs: int = 1,
    progress: Progress | None = None,
    on_file: Callable[[WrittenFile], None] = _untold,
    keep: Callable[[Digest], None] = _unkept,
) -> Digest:
    """Make an object of a file, which keeps its name, or of all that is in a directory.

    Args:
        store: The store.
        path: The file or directory. A symlink is refused, here and anywhere below.
        adopt: Whether the files move into the store, so that they are gone from `path` afterwards; else they are
            copied, and nothing at `path` is touched.
        jobs: How many files are read at a time.
        progress: Told of the bytes that are read, from several threads.
        on_file: Told of each file when it is in the object, and how it came there; from several threads.
        keep: Called with the object when it is in the store, and before a file that moves loses its first name: what
            gets a root here has one from the moment in which it is the only copy.

    Raises:
        InvalidInputError: Something there is neither a regular file nor a directory, is empty, cannot be read or
            moved, or has a name that an object may not hold.
        BuildError: A file changed while it was read, or could not be removed after it was moved.
        IntegrityError: The object is in the store already, and is damaged.
    """
    sources = _survey(store, path)
    size = sum(each.size for each in sources)
    on_bytes = counter(progress, size)
    if adopt:
        return _adopt_all(store, path, sources, jobs, on_bytes, on_file, keep)
    with store.new_tree(expected_bytes=size, expected_files=len(sources)) as tree:
        _at_once(
            sources,
            lambda each: on_file(
                tree.ingest(each.path, each.real, on_bytes=on_bytes, with_sha256=False)
            ),
            jobs,
        )
        digest = tree.register()
        keep(digest)
        return digest


def _survey(store: Store, path: Path) -> list[_Source]:
    """Look at everything before anything is read, so that a refusal comes early."""
    real, own = Path(os.path.realpath(path)), Path(os.path.realpath(store.path))
    if real == own or own in real.parents or real in own.parents:
        raise _refusal(path, "the store lies in it, or it lies in the store")
    known = PathSet()
    found: list[_Source] = []
    for source in _files(path, path.name or real.name):
        known.add(source.path)
        found.append(source)
        if len(found) > MAX_ENTRIES:
            raise _refusal(path, f"it holds more than {MAX_ENTRIES} files")
    return found


def _files(path: Path, name: str) -> Iterator[_Source]:
    try:
        status = path.lstat()
        if stat.S_ISDIR(status.st_mode):
            yield from _below(path, "")
            return
    except OSError as error:
        raise _refusal(path, error.strerror or str(error)) from error
    yield _file(path, name, status)


def _below(directory: Path, prefix: str) -> Iterator[_Source]:
    names = sorted(entry.name for entry in directory.iterdir())
    if not names:
        raise _refusal(
            directory, "it is an empty directory, which an object cannot hold", "remove it"
        )
    for name in names:
        real = directory / name
        status = real.lstat()
        if stat.S_ISDIR(status.st_mode):
            yield from _below(real, f"{prefix}{name}/")
        else:
            yield _file(real, prefix + name, status)


def _file(real: Path, path: str, status: os.stat_result) -> _Source:
    if stat.S_ISLNK(status.st_mode):
        raise _refusal(real, "it is a symlink", "put the file that it leads to in its place")
    if not stat.S_ISREG(status.st_mode):
        raise _refusal(real, "it is no regular file")
    return _Source(path, real, status.st_size)


def _refusal(path: Path, cause: str, hint: str | None = None) -> InvalidInputError:
    return InvalidInputError(f"{path} cannot be added to the store", cause=cause, hint=hint)


def _at_once(
    sources: Sequence[_Source],
    make: Callable[[_Source], object],
    jobs: int,
) -> None:
    """Apply `make` to all sources, largest first so that none is waited for at the end; stop at the first error."""
    ordered = sorted(sources, key=lambda each: each.size, reverse=True)
    with ThreadPoolExecutor(max(1, jobs)) as pool:
        try:
            for _ in pool.map(make, ordered):
                pass
        except BaseException:
            pool.shutdown(wait=False, cancel_futures=True)
            raise


def _adopt_all(
    store: Store,
    path: Path,
    sources: Sequence[_Source],
    jobs: int,
    on_bytes: Callable[[int], None],
    on_file: Callable[[WrittenFile], None],
    keep: Callable[[Digest], None],
) -> Digest:
    _check_removable(path, sources)
    adopted: list[Adopted] = []
    try:
        with store.new_tree() as tree, reported(store.path):
            _at_once(
                sources,
                lambda each: adopted.append(adopt(tree, each.path, each.real, on_bytes=on_bytes)),
                jobs,
            )
            digest = tree.register()
    except BaseException:
        for each in adopted:
            restore(each.source, each.before)
        raise
    for each in adopted:
        on_file(each.written)
    keep(digest)
    _give_up(store, path, digest, adopted)
    return digest


def _check_removable(path: Path, sources: Sequence[_Source]) -> None:
    for directory in {each.real.parent for each in sources}:
        if not os.access(directory, os.W_OK | os.X_OK):
            raise _refusal(path, f"nothing can be removed from {directory}, which is not writable")


def _give_up(store: Store, path: Path, digest: Digest, adopted: Sequence[Adopted]) -> None:
    """Remove the sources of an object that is registered, after a look at what the store has in their places."""
    for each in adopted:
        with reported(store.path):
            check_stored(each, store.object_path(digest) / each.written.path)
    for each in adopted:
        remove_source(each)
    if path.is_dir():
        for directory in sorted({each.source.parent for each in adopted}, reverse=True):
            _remove_empty(directory, path)
    # The files have no names elsewhere now, so equal ones may share them from here on.
    store.optimise([digest])


def _remove_empty(directory: Path, top: Path) -> None:
    with contextlib.suppress(OSError):
        while directory != top.parent:
            directory.rmdir()
            directory = directory.parent
