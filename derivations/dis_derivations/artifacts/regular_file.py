"""Opening a file of a model, or reading it: a regular one, or a refusal that says why."""

import os
import stat
from pathlib import Path
from typing import BinaryIO

from dis_store.environment import reading
from dis_store.errors import InvalidInputError, UnfitEnvironmentError


class UnreadableWeightsError(InvalidInputError):
    """A weight file cannot be read, is truncated, contradicts itself, or is no safetensors file."""

    code = "E0220"


class UnsupportedWeightsError(UnfitEnvironmentError):
    """A file of a model has a format, or holds something, that this version does not handle.

    The cause names it: of a GGUF file an architecture, a number format, a tokenizer or a setting.
    """

    code = "E0520"


def open_regular(path: Path, *, name: str) -> BinaryIO:
    """Open the regular file at `path`, which messages call `name`.

    Raises:
        UnreadableWeightsError: It is missing, not readable, or not a regular file.
    """
    try:
        # O_NONBLOCK: opening a named pipe must not wait for someone to write into it.
        descriptor = os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC)
    except OSError as error:
        raise unreadable(name, error) from error
    if stat.S_ISREG(os.fstat(descriptor).st_mode):
        return os.fdopen(descriptor, "rb")
    os.close(descriptor)
    raise UnreadableWeightsError(f"cannot read {name}", cause="it is not a regular file")


def read_whole(path: Path) -> bytes:
    """Return the content of a small file.

    Raises:
        IntegrityError: The disk does not give what is in it.
    """
    with reading(path):
        return path.read_bytes()


def unreadable(name: str, error: OSError) -> UnreadableWeightsError:
    """Return the error for a file called `name` that the system could not read."""
    return UnreadableWeightsError(f"cannot read {name}", cause=error.strerror or str(error))
