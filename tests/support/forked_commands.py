"""Calls of `dis` in children that are forked, so that none has to start an interpreter."""

import json
import os
import subprocess
import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

_NURSERY = Path(__file__).with_name("command_nursery.py")
SMALL_RESERVE = 4096


@dataclass(frozen=True)
class Ended:
    """How a call ended: its exit code, negative for a signal, and what it printed."""

    code: int
    out: str
    err: str

    @property
    def untold(self) -> str | None:
        """What is wrong with what it told: a traceback, or neither success nor one error block; None if nothing."""
        if "Traceback" in self.err or "fault of dis" in self.err:
            return self.err
        # With `--progress json` an error is an event.
        signs = ("error: ", '"event": "error"')
        blocks = [line for line in self.err.splitlines() if any(map(line[:120].count, signs))]
        expected = 0 if self.code in (0, 4) else 1
        return None if expected <= len(blocks) <= 1 else f"exit code {self.code}: {self.err!r}"


class Nursery:
    """A process that forks children which call `dis`, one after the other."""

    def __init__(self, process: "subprocess.Popen[str]") -> None:
        self._process = process

    def start(self, request: dict[str, Any]) -> int:
        """Start a call, and return the id of its process."""
        assert self._process.stdin is not None
        self._process.stdin.write(json.dumps(request) + "\n")
        self._process.stdin.flush()
        return int(self._answer())

    def wait(self) -> int:
        """Wait for the call to end, and return its exit code, negative for a signal."""
        return int(self._answer())

    def _answer(self) -> str:
        assert self._process.stdout is not None
        answer = self._process.stdout.readline()
        assert answer, "the nursery is gone"
        return answer


@contextmanager
def nursery(modules: Sequence[str]) -> Iterator[Nursery]:
    """Run a nursery for the time of a block.

    Args:
        modules: What its children find imported.
    """
    process = subprocess.Popen(
        [sys.executable, _NURSERY, *modules],
        env={
            **os.environ,
            "PYTHONPATH": ":".join(sys.path),
            "DIS_DEBUG": "0",
        },
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    )
    try:
        assert process.stdout is not None
        assert process.stdout.readline() == "ready\n"
        yield Nursery(process)
    finally:
        process.communicate(timeout=60)


@dataclass(frozen=True)
class Caller:
    """Calls `dis` with one store.

    Attributes:
        nursery: Where the calls are made.
        store: The store.
        home: The home directory of whoever calls.
        marks: A file that gets what is printed as well, if there is one.
        spoil: `module:function`, called in the child before anything else.
        environment: More of it.
        reserve_bytes: How much the store keeps for a full disk.
    """

    nursery: Nursery
    store: Path
    home: Path
    marks: Path | None = None
    spoil: str | None = None
    environment: dict[str, str] = field(default_factory=dict)
    reserve_bytes: int = SMALL_RESERVE

    def start(self, argv: Sequence[str | Path], *, paused: bool = False) -> int:
        """Start a call, and return the id of its process, which waits for SIGCONT if it is `paused`."""
        # A child that is killed at once has not got so far as to empty them.
        for name in ("out", "err"):
            (self.home / name).write_bytes(b"")
        named = {f"XDG_{name}_HOME": str(self.home / name.lower()) for name in ("CONFIG", "STATE")}
        return self.nursery.start(
            {
                "argv": list(map(str, argv)),
                "environment": {
                    "DIS_STORE": str(self.store),
                    "DIS_PROGRESS": "json",
                    "HOME": str(self.home),
                    **named,
                    **self.environment,
                },
                "marks": None if self.marks is None else str(self.marks),
                "out": str(self.home / "out"),
                "err": str(self.home / "err"),
                "spoil": self.spoil,
                "paused": paused,
                "reserve_bytes": self.reserve_bytes,
            }
        )

    def wait(self) -> Ended:
        """Wait for the call to end."""
        code = self.nursery.wait()
        return Ended(code, *((self.home / name).read_text("utf-8") for name in ("out", "err")))

    def __call__(self, *argv: str | Path) -> Ended:
        """Call to the end."""
        self.start(argv)
        return self.wait()
