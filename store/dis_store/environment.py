"""Turning what the operating system refuses into errors that say what to do."""

import contextlib
import errno
import os
import shlex
from collections.abc import Iterable, Iterator
from pathlib import Path

from dis_store.errors import (
    DisError,
    DiskFullError,
    IntegrityError,
    UnfitEnvironmentError,
    UnwritableStoreError,
)
from dis_store.platform_linux import forbidding_attributes

_FULL = frozenset({errno.ENOSPC, errno.EDQUOT})
_UNWRITABLE = frozenset({errno.EACCES, errno.EPERM, errno.EROFS})
# What is said of bytes that were written and cannot be had again: by disks, and by file systems that have sums of them.
_LOST = frozenset(
    {errno.EIO, errno.EUCLEAN, errno.EBADMSG, errno.ENODATA, errno.EREMOTEIO, errno.EILSEQ}
)


@contextlib.contextmanager
def reported(store: Path) -> Iterator[None]:
    """Raise every `OSError` of the block as an `UnfitEnvironmentError` about the store at `store`."""
    try:
        yield
    except OSError as error:
        raise explain(error, store) from error


@contextlib.contextmanager
def reading(what: object) -> Iterator[None]:
    """Raise it as an `IntegrityError` that names `what` when the disk does not give what is in it.

    For reading alone: of what is written at the same time, nothing is lost. What this process lacks, memory for
    example, is no damage and passes as it is.
    """
    try:
        yield
    except OSError as error:
        if error.errno not in _LOST:
            raise
        raise IntegrityError(
            f"{what} cannot be read",
            cause=error.strerror,
            hint="see what else is damaged: dis store verify --all; and look after the disk",
        ) from error


def explain(error: OSError, store: Path) -> DisError:
    """Return the error that tells a person what `error` means for the store at `store`."""
    cause = error.strerror or str(error)
    if error.filename is not None:
        cause = f"{cause}: {error.filename!s}"
    if error.errno in _FULL:
        return disk_full(store, cause)
    if error.errno in _UNWRITABLE:
        names = (error.filename, error.filename2)
        places = [Path(os.fsdecode(each)) for each in names if isinstance(each, str | bytes)]
        return unchangeable(store, places, cause) or unwritable(store, cause)
    if error.errno == errno.EXDEV:
        return _on_several_disks(store, cause)
    return UnfitEnvironmentError(
        f"the store {store} cannot be used", cause=cause, hint="check the disk and the file system"
    )


def unchangeable(store: Path, places: Iterable[Path], cause: str) -> UnwritableStoreError | None:
    """Return the error for a store of which chattr has made a part unchangeable, for root as well; None if it has not.

    Args:
        store: Where it is.
        places: What could not be changed: each of them is looked at, and the directory that it is in.
        cause: What the system said.
    """
    for place in (each for path in places for each in (path, path.parent)):
        if (found := protection_of(place)) is not None:
            said, remedy = found
            return UnwritableStoreError(
                f"the store {store} cannot be written",
                cause=f"{cause}\n{place} {said}",
                hint=f"take that away, and call the same command again: {remedy}",
            )
    return None


def protection_of(place: Path) -> tuple[str, str] | None:
    """Return how chattr protects a file or a directory, to be said of its path, and the command that ends that.

    None where it does not.
    """
    letters = forbidding_attributes(place)
    if not letters:
        return None
    said = f"has the attribute {letters}: nobody may change it, nor root"
    return said, f"chattr -{letters} {shlex.quote(str(place))}"


def _on_several_disks(store: Path, cause: str) -> UnfitEnvironmentError:
    return UnfitEnvironmentError(
        f"the store {store} does not lie on one file system",
        cause=f"{cause}\nfiles are moved within it, so nothing may be mounted in it",
        hint="see what is mounted there: findmnt; and unmount it",
    )


def unwritable(store: Path, cause: str) -> UnwritableStoreError:
    """Return the error for a store that may only be read."""
    return UnwritableStoreError(
        f"the store {store} cannot be written",
        cause=cause,
        hint="make it writable for you, or choose another one with --store or DIS_STORE",
    )


def disk_full(store: Path, cause: str) -> DiskFullError:
    """Return the error for a store whose file system has no room left."""
    return DiskFullError(
        f"the disk of the store {store} is full",
        cause=cause,
        hint="free space, for example with: dis gc",
    )
