"""Turning what the operating system refuses into errors that say what to do."""

import contextlib
import errno
from collections.abc import Iterator
from pathlib import Path

from dis_store.errors import DisError, DiskFullError, UnfitEnvironmentError, UnwritableStoreError

_FULL = frozenset({errno.ENOSPC, errno.EDQUOT})
_UNWRITABLE = frozenset({errno.EACCES, errno.EPERM, errno.EROFS})


@contextlib.contextmanager
def reported(store: Path) -> Iterator[None]:
    """Raise every `OSError` of the block as an `UnfitEnvironmentError` about the store at `store`."""
    try:
        yield
    except OSError as error:
        raise explain(error, store) from error


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
