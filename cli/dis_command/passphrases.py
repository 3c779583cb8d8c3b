"""Asking for the passphrase of a key: from a terminal or a file, never from the command line or the environment."""

import sys
from collections.abc import Callable
from pathlib import Path

from dis_store.errors import InvalidInputError

_MAX_BYTES = 1024


def passphrase_source(file: Path | None) -> Callable[[], bytes | None]:
    """Return what gives the passphrase of a key that has one; None where nobody can be asked.

    Args:
        file: Whose first line it is; without one, a terminal is asked.
    """
    return lambda: _from_file(file) if file is not None else _from_terminal("passphrase: ")


def new_passphrase(file: Path | None) -> bytes:
    """Return the passphrase of a new key.

    Raises:
        InvalidInputError: It is empty, or was typed differently the second time, or nobody can be asked.
    """
    if file is not None:
        return _from_file(file)
    first = _from_terminal("passphrase: ")
    if first is None:
        raise InvalidInputError(
            "no passphrase was given",
            cause="standard input and standard error are no terminal",
            hint="give a file whose first line it is: --passphrase-file FILE",
        )
    if not first:
        raise InvalidInputError("no passphrase was given", cause="it is empty")
    if first != _from_terminal("once more:  "):
        raise InvalidInputError("the key was not made", cause="the passphrases are not the same")
    return first


def _from_file(path: Path) -> bytes:
    try:
        with path.open("rb") as stream:
            line = stream.readline(_MAX_BYTES + 1)
    except OSError as error:
        raise InvalidInputError(
            f"the passphrase in {path} cannot be read", cause=error.strerror
        ) from error
    passphrase = line.rstrip(b"\r\n")
    if not passphrase or len(line) > _MAX_BYTES:
        raise InvalidInputError(
            f"{path} holds no passphrase",
            cause=f"its first line must have 1 to {_MAX_BYTES} bytes",
        )
    return passphrase


def _from_terminal(prompt: str) -> bytes | None:
    from dis_command.confirmation import can_ask

    if not can_ask():
        return None
    from getpass import getpass

    return getpass(prompt, stream=sys.stderr).encode()
