"""A process that has imported all of `dis` and used none of it, so that it may fork children that call commands.

The children of a process that has hashed or tokenised with several threads would wait for threads that they lack.

Usage: command_nursery.py MODULE...; then a request, one JSON document a line, on stdin. The answers are the id of the
child and, when it has ended, its exit code, negative for a signal.
"""

import importlib
import json
import os
import signal
import sys
from collections.abc import Mapping
from contextlib import suppress
from io import TextIOBase
from typing import Any

from processes import forked, waited_for


class _Teller(TextIOBase):
    """A stream whose every line is written at once, to several files."""

    def __init__(self, *descriptors: int) -> None:
        self._descriptors = descriptors
        self._line = ""

    def write(self, text: str) -> int:
        self._line += text
        if "\n" in self._line:
            line, _, self._line = self._line.rpartition("\n")
            for descriptor in self._descriptors:
                os.write(descriptor, f"{line}\n".encode())
        return len(text)


def _call(request: Mapping[str, Any]) -> None:
    from dis_command.main import run
    from dis_store import layout

    os.environ.update(request["environment"])
    layout.RESERVE_BYTES = request["reserve_bytes"]
    marks = [os.open(request["marks"], os.O_WRONLY)] if request["marks"] else []
    flags = os.O_WRONLY | os.O_CREAT | os.O_TRUNC
    for name in ("out", "err"):
        teller = _Teller(os.open(request[name], flags, 0o600), *marks)
        setattr(sys, f"std{name}", teller)
    if request["spoil"]:
        module, _, function = request["spoil"].partition(":")
        getattr(importlib.import_module(module), function)()
    if request["paused"]:
        os.kill(os.getpid(), signal.SIGSTOP)
    os._exit(run(request["argv"]))


def _answer(value: object) -> None:
    sys.stdout.write(f"{value}\n")
    sys.stdout.flush()


def _serve() -> None:
    for line in sys.stdin:
        request = json.loads(line)
        child = forked(lambda request=request: _call(request))  # type: ignore[misc]
        _answer(child)
        _answer(waited_for(child))


if __name__ == "__main__":
    for _name in sys.argv[1:]:
        # Some modules may only be imported by their own packages, in their own order.
        with suppress(Exception):
            importlib.import_module(_name)
    _answer("ready")
    _serve()
