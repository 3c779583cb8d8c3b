"""Processes that outlive the command that started them, known by more than a number that is given out again."""

import os
import signal
from collections.abc import Iterable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path

_PROC = Path("/proc")
_BOOT = _PROC / "sys/kernel/random/boot_id"
# Places in `/proc/PID/stat`, counted after the name of the program, which may hold anything.
_STATE, _SESSION, _BEGAN = 0, 3, 19
_ENDED = ("Z", "X")
_LISTEN = "0A"


@dataclass(frozen=True)
class ProcessIdentity:
    """A process, told from a later one with its number.

    Attributes:
        pid: Its number.
        began: When it began, in the kernel's count since `boot`.
        boot: Which start of this machine that is.
    """

    pid: int
    began: int
    boot: str


def boot_id() -> str:
    """Return what the kernel calls this start of the machine."""
    return _BOOT.read_text("ascii").strip()


def identify(pid: int) -> ProcessIdentity | None:
    """Return the process that has a number now; None where none has, or it has ended and nobody waited for it."""
    fields = _fields(pid)
    if fields is None or fields[_STATE] in _ENDED:
        return None
    return ProcessIdentity(pid, int(fields[_BEGAN]), boot_id())


def is_running(process: ProcessIdentity) -> bool:
    """Tell whether this very process runs."""
    return identify(process.pid) == process


def session_of(leader: ProcessIdentity, directory: Path) -> set[ProcessIdentity]:
    """Return the processes of the session that one leads or led, itself among them.

    The kernel gives a number to no new process while a session is called by it. But where the leader is gone, so may
    the whole session be, and a later one have its number: then only those count that work in the leader's directory.

    Args:
        leader: Began the session.
        directory: Where it works, and nobody else.
    """
    if leader.boot != boot_id():
        return set()
    found = set()
    for entry in _PROC.iterdir():
        fields = _fields(int(entry.name)) if entry.name.isdecimal() else None
        if fields is None or int(fields[_SESSION]) != leader.pid or fields[_STATE] in _ENDED:
            continue
        member = ProcessIdentity(int(entry.name), int(fields[_BEGAN]), leader.boot)
        # Asked each time: it may end, and its number be given out, while its members are looked for.
        if _works_in(entry, directory) or is_running(leader):
            found.add(member)
    return found


def listens(processes: Iterable[ProcessIdentity], port: int) -> bool:
    """Tell whether one of these processes has the socket that listens on a TCP port of this machine."""
    sockets = {f"socket:[{inode}]" for inode in _listening(port)}
    for process in processes:
        with suppress(OSError):
            for each in (_PROC / str(process.pid) / "fd").iterdir():
                with suppress(OSError):
                    if str(each.readlink()) in sockets:
                        return True
    return False


def _listening(port: int) -> Iterator[str]:
    """Yield the inodes of sockets that listen on a port: proc(5), /proc/net/tcp."""
    for table in ("tcp", "tcp6"):
        with suppress(OSError):
            for line in (_PROC / "net" / table).read_text("ascii").splitlines()[1:]:
                fields = line.split()
                if fields[3] == _LISTEN and int(fields[1].rpartition(":")[2], 16) == port:
                    yield fields[9]


def _works_in(process: Path, directory: Path) -> bool:
    with suppress(OSError):
        return (process / "cwd").readlink() == directory.resolve()
    return False


def send(process: ProcessIdentity, number: signal.Signals) -> bool:
    """Send a signal to this very process; tell whether it was there.

    Raises:
        PermissionError: It is somebody else's.
    """
    with _held(process) as descriptor:
        if descriptor is None:
            return False
        try:
            signal.pidfd_send_signal(descriptor, number)
        except ProcessLookupError:
            return False
    return True


@contextmanager
def _held(process: ProcessIdentity) -> Iterator[int | None]:
    """Give a descriptor that means this process and no later one; None where it is gone."""
    try:
        descriptor = os.pidfd_open(process.pid)
    except ProcessLookupError:
        yield None
        return
    try:
        # Looked at after the descriptor is there: from then on it means the process that has the number now.
        yield descriptor if is_running(process) else None
    finally:
        os.close(descriptor)


def _fields(pid: int) -> list[str] | None:
    with suppress(OSError):
        text = (_PROC / str(pid) / "stat").read_text("utf-8", "replace")
        return text.rpartition(")")[2].split()
    return None
