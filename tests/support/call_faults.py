"""One call to the system that fails, or that a process is killed before, chosen from outside with strace."""

import os
import re
import signal
import subprocess
import time
from collections import Counter
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from forked_commands import Caller, Ended

_MAKING = frozenset(
    {"fallocate", "fdatasync", "fsync", "ftruncate", "link", "linkat", "mkdir"}
    | {"ioctl", "mkdirat", "openat", "pwrite64", "rename", "renameat", "renameat2", "sendfile"}
    | {"symlink", "symlinkat", "write"}
)
_CHANGING = _MAKING | {
    "chmod", "fchmod", "fchmodat", "fchown", "flock", "rmdir", "unlink", "unlinkat", "utimensat",
}  # fmt: skip
_ALL = _CHANGING | {
    "access", "fcntl", "fstat", "fstatfs", "getcwd", "getdents64", "lseek", "lstat", "newfstatat", "pread64", "read",
    "readlink", "stat", "statfs", "statx",
}  # fmt: skip
# What the manual pages of the calls say of them: a look at a file needs no room, and no number for it.
_POSSIBLE = {
    "KILL": _CHANGING,
    "EIO": _ALL - {"access", "fcntl", "flock", "lseek"},
    "ENOSPC": _MAKING,
    "EINTR": frozenset({"fsync", "ftruncate", "openat", "pread64", "pwrite64", "read", "write"}),
    "EMFILE": frozenset({"openat"}),
}
_CALL = re.compile(r"^(?P<process>\d+)\s+(?P<name>\w+)\(")
# A busy machine may take its time; a call that hangs is ended all the same.
_SECONDS = 300.0


@dataclass(frozen=True, order=True)
class Fault:
    """Call number `number` of a kind, counted for each thread, fails with `error`, or its process is killed."""

    error: str
    call: str
    number: int


def faults_of(caller: Caller, argv: Sequence[str | Path], record: Path) -> list[Fault]:
    """Call a command, which ends well, and return all faults that could have befallen it."""
    with _traced(caller, argv, record, [f"trace={','.join(sorted(_ALL))}"]) as ended:
        assert ended.untold is None, ended
    counted: Counter[tuple[str, str]] = Counter()
    found: set[Fault] = set()
    for line in record.read_text("utf-8", errors="replace").splitlines():
        if match := _CALL.match(line):
            name = match["name"]
            counted[name, match["process"]] += 1
            number = counted[name, match["process"]]
            found.update(Fault(error, name, number) for error in _errors_of(name, line))
    return sorted(found)


def _errors_of(call: str, line: str) -> Iterator[str]:
    for error, calls in _POSSIBLE.items():
        # What opens a file that is there needs no room.
        if call in calls and (error != "ENOSPC" or call != "openat" or "O_CREAT" in line):
            yield error


def call_with(
    caller: Caller, argv: Sequence[str | Path], fault: Fault, record: Path
) -> tuple[Ended, int]:
    """Call a command that the fault befalls; return how it ended, and how many of its threads were struck."""
    what = "signal=KILL" if fault.error == "KILL" else f"error={fault.error}"
    expressions = [f"trace={fault.call}", f"inject={fault.call}:{what}:when={fault.number}"]
    with _traced(caller, argv, record, expressions) as ended:
        pass
    if ended.code == -signal.SIGKILL:
        return ended, 1
    return ended, record.read_text("utf-8", errors="replace").count("(INJECTED)")


@contextmanager
def _traced(
    caller: Caller, argv: Sequence[str | Path], record: Path, expressions: Sequence[str]
) -> Iterator[Ended]:
    """Call a command whose every call to the system is seen, from the moment in which it has an error handler."""
    child = caller.start(argv, paused=True)
    _await_stop(child)
    options = [word for each in expressions for word in ("-e", each)]
    tracer = subprocess.Popen(
        ["strace", "-f", "-p", f"{child}", "-o", record, *options],
        stderr=subprocess.PIPE,
        text=True,
    )
    assert tracer.stderr is not None
    line = tracer.stderr.readline()
    assert "attached" in line, line
    os.kill(child, signal.SIGCONT)
    ended = caller.wait()
    tracer.communicate(timeout=_SECONDS)
    yield ended


def _await_stop(child: int) -> None:
    end = time.monotonic() + _SECONDS
    while time.monotonic() < end:
        state = Path(f"/proc/{child}/stat").read_text("ascii").rpartition(")")[2].split()[0]
        if state == "T":
            return
        time.sleep(0.001)
    raise AssertionError("the child did not stop")
