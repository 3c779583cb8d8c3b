"""Turning what the operating system refuses into errors that say what to do."""

import contextlib
import errno
from collections.abc import Iterator
from pathlib import Path

from dis_store.errors import (
    DisError,
    DiskFullError,
    IntegrityError,
    UnfitEnvironmentError,
    UnwritableStoreError,
)

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
        return unwritable(store, cause)
    return UnfitEnvironmentError(
        f"the store {store} cannot be used", cause=cause, hint="check the disk and the file system"
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
