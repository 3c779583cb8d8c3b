"""How an error is shown: one block for people, or one JSON document, always on stderr."""

import json
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from dis_command.config_places import user_directory
from dis_command.errors import UnexpectedError
from dis_command.settings import STATE_DIRECTORY
from dis_command.terminal import printable
from dis_derivations.version import VERSION
from dis_store.errors import DisError


def render_block(error: DisError, *, color: bool) -> str:
    """Return `error: …`, `  cause: …`, `  log: …`, `hint: …` and `more: …` as lines, with a newline at the end."""
    lines = [f"{_painted('error:', '31', color)} {_indented(error.what, ' ' * 7)}"]
    if error.cause:
        lines.append(f"  {_painted('cause:', '33', color)} {_indented(error.cause, ' ' * 9)}")
    if error.log:
        lines.append(f"  {_painted('log:', '33', color)} {_indented(error.log, ' ' * 7)}")
    if error.hint:
        lines.append(f"{_painted('hint:', '36', color)} {_indented(error.hint, ' ' * 6)}")
    lines.append(f"{_painted('more:', '36', color)} dis help {error.code}")
    return "\n".join(lines) + "\n"


def render_json(error: DisError) -> str:
    """Return the error as one line of JSON."""
    return json.dumps({"schema_version": 1, "error": error_fields(error)}) + "\n"


def render_event(error: DisError, traceback: str | None) -> str:
    """Return the error as one event, for who reads events: the same document, with the fields of an event."""
    from dis_command.progress.json_lines import error_line, utc_now

    fields = error_fields(error)
    if traceback is not None:
        fields["traceback"] = traceback
    return error_line(error.what, fields, utc_now())


def error_fields(error: DisError) -> dict[str, Any]:
    """Return what programs are told of an error."""
    fields: dict[str, Any] = {
        "what": error.what,
        "cause": error.cause,
        "hint": error.hint,
        "code": error.code,
        "exit_code": error.exit_code,
    }
    if error.log:
        fields["log"] = error.log
    # A refused lock says item by item what cannot be pinned.
    if items := getattr(error, "items", None):
        fields["items"] = [item.as_json() for item in items]
    return fields


def unexpected(
    error: Exception, argv: list[str], environment: Mapping[str, str]
) -> UnexpectedError:
    """Return the error to show for an exception that nobody expected, with its traceback in a file."""
    log = _write_log(error, argv, environment)
    where = f"the traceback is in {log}" if log else "see the traceback: DIS_DEBUG=1"
    return UnexpectedError(
        "dis failed unexpectedly",
        cause=f"{type(error).__name__}: {error}".rstrip(": "),
        hint=f"this is a fault of dis; {where}",
    )


def traceback_text(error: BaseException) -> str:
    """Return the traceback, for `--debug`; what libraries quote of a proxy holds no password."""
    import traceback

    from dis_derivations.transport.proxy_secrets import without_proxy_secrets

    return without_proxy_secrets("".join(traceback.format_exception(error)))


def _write_log(error: Exception, argv: list[str], environment: Mapping[str, str]) -> Path | None:
    """Write what is needed to understand the fault, and return where; None where nothing can be written."""
    import platform
    from datetime import UTC, datetime

    now = datetime.now(UTC)
    text = traceback_text(error)
    about = f"dis {VERSION}, Python {sys.version.split()[0]}, {platform.platform()}\ncommand: {argv!r}\n\n"
    try:
        directory = user_directory(environment, *STATE_DIRECTORY)
        directory.mkdir(parents=True, exist_ok=True)
        path = directory / f"error-{now:%Y%m%dT%H%M%S.%f}Z.log"
        path.write_text(about + text, encoding="utf-8", errors="backslashreplace")
    except (OSError, DisError):
        return None
    return path


def _indented(text: str, indent: str) -> str:
    return f"\n{indent}".join(printable(text).splitlines())


def _painted(word: str, code: str, color: bool) -> str:
    return f"\x1b[1;{code}m{word}\x1b[0m" if color else word
