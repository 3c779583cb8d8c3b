"""A file outside the store that appears whole or not at all, in place of nothing that somebody may miss."""

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


_COMPARED_BYTES = 1 << 20


class OutputExistsError(InvalidInputError):
    """A file that was to be written is there already, with other content.

    It was not touched. Name another file, or replace it with --force. A file with the very content that was to be
    written is no error. A directory or a device is never replaced.
    """

    code = "E0204"


@contextmanager
def appearing(target: Path, *, replace: bool = False) -> Iterator[BinaryIO]:
    """Give a stream whose bytes become the file `target` when the block ends well; else nothing remains.

    A file that has these bytes already is left as it is.

    Args:
        target: The file. Its directory is made where there is none.
        replace: Whether a file that is there may be replaced by one with other content.

    Raises:
        OutputExistsError: Something is there that must not be replaced.
        UnfitEnvironmentError: It cannot be written.
    """
    try:
        check_place(target)
        target.parent.mkdir(parents=True, exist_ok=True)
        temporary = target.parent / f".{target.name[:200]}.{secrets.token_hex(8)}"
        try:
            with temporary.open("xb") as stream:
                yield stream
                stream.flush()
                os.fsync(stream.fileno())
            if replace:
                temporary.replace(target)
            elif not _same_content(temporary, target):
                _move_where_nothing_is(temporary, target)
        finally:
            temporary.unlink(missing_ok=True)
    except OSError as error:
        raise UnfitEnvironmentError(
            f"{target} cannot be written", cause=error.strerror, hint="name another place"
        ) from error


def write_file(target: Path, data: bytes, *, replace: bool = False) -> None:
    """Write a file at once; the rest as in `appearing`."""
    with appearing(target, replace=replace) as stream:
        stream.write(data)


def check_place(target: Path) -> None:
    """Refuse a place where something is that no file ever takes the place of.

    Raises:
        OutputExistsError: A directory, or a device, is there.
    """
    if target.exists() and not target.is_file():
        raise _there_already(target)


def _same_content(one: Path, other: Path) -> bool:
    """Tell whether two files have the same bytes; one that is not there, or cannot be read, has other ones."""
    try:
        with one.open("rb") as first, other.open("rb") as second:
            while chunk := first.read(_COMPARED_BYTES):
                if second.read(len(chunk)) != chunk:
                    return False
            return not second.read(1)
    except OSError:
        return False


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


def _there_already(target: Path) -> OutputExistsError:
    if target.is_dir():
        return OutputExistsError(f"{target} is a directory", hint="name a file")
    if target.exists() and not target.is_file():
        return OutputExistsError(f"{target} is no regular file", hint="name another file")
    return OutputExistsError(
        f"{target} is there already",
        cause="it has other content",
        hint="name another file, or replace it: --force",
    )
