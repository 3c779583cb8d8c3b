"""A file outside the store that appears whole or not at all."""

import errno
import os
import secrets
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import BinaryIO

from dis_store.errors import InvalidInputError, UnfitEnvironmentError

# How file systems say that they have none.
_NO_HARD_LINKS = {errno.EPERM, errno.EOPNOTSUPP, errno.ENOSYS, errno.EMLINK}


@contextmanager
def appearing(target: Path, *, replace: bool = True) -> Iterator[BinaryIO]:
    """Give a stream whose bytes become the file `target` when the block ends well; else nothing remains.

    Args:
        target: The file. Its directory is made where there is none.
        replace: Whether a file that is there may be replaced.

    Raises:
        InvalidInputError: Something is there that must not be replaced.
        UnfitEnvironmentError: It cannot be written.
    """
    try:
        if target.is_dir() or (not replace and os.path.lexists(target)):
            raise _there_already(target)
        target.parent.mkdir(parents=True, exist_ok=True)
        temporary = target.parent / f".{target.name[:200]}.{secrets.token_hex(8)}"
        try:
            with temporary.open("xb") as stream:
                yield stream
                stream.flush()
                os.fsync(stream.fileno())
            if replace:
                temporary.replace(target)
            else:
                _move_where_nothing_is(temporary, target)
        finally:
            temporary.unlink(missing_ok=True)
    except OSError as error:
        raise UnfitEnvironmentError(
            f"{target} cannot be written", cause=error.strerror, hint="name another place"
        ) from error


def write_file(target: Path, data: bytes, *, replace: bool = True) -> None:
    """Write a file at once; the rest as in `appearing`."""
    with appearing(target, replace=replace) as stream:
        stream.write(data)


def _move_where_nothing_is(temporary: Path, target: Path) -> None:
    """Rename without replacing: a hard link fails where a file has come up in the meantime."""
    try:
        os.link(temporary, target)
    except FileExistsError as error:
        raise _there_already(target) from error
    except OSError as error:
        if error.errno not in _NO_HARD_LINKS:
            raise
        if os.path.lexists(target):
            raise _there_already(target) from error
        temporary.rename(target)


def _there_already(target: Path) -> InvalidInputError:
    if target.is_dir():
        return InvalidInputError(f"{target} is a directory", hint="name a file")
    return InvalidInputError(
        f"{target} is there already", hint="name another file, or replace it: --force"
    )
