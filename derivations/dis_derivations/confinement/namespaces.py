"""The namespaces of a confined process: entered while it has one thread, and never left.

A user namespace makes the others possible for anybody. Users and groups stay what they are. After `drop_rights` nothing
in the process, nor what it starts, can change the namespaces or go back.
"""

import ctypes
import errno
import os
from collections.abc import Iterable
from contextlib import suppress
from pathlib import Path

_NEW_MOUNTS, _NEW_USERS, _NEW_NETWORK = 0x00020000, 0x10000000, 0x40000000
_BIND = 4096
_DROP_FROM_BOUND, _NO_NEW_PRIVILEGES = 24, 38
_CAPABILITIES_VERSION = 0x20080522
# chown, dac_override, dac_read_search, fowner, fsetid: what root's own files may ask for.
_RIGHTS_OVER_FILES = frozenset({0, 1, 2, 3, 4})
_SET_GROUPS, _SET_USERS = 6, 7
_NOTHING = "/dev/null"


def enter() -> bool:
    """Leave the network, the mounts and the users of this process for new ones; return whether it is privileged.

    Raises:
        OSError: The system does not allow it.
    """
    privileged = {_SET_USERS, _SET_GROUPS} <= _rights()
    mapping = _mapping("uid_map", os.geteuid(), whole=privileged)
    groups = _mapping("gid_map", os.getegid(), whole=privileged)
    reader, writer = os.pipe()
    process = os.getpid()
    # Only from outside may more than one user be named.
    helper = os.fork()
    if helper == 0:
        os.close(writer)
        os._exit(_write_maps(process, mapping, groups, reader, keep_groups=privileged))
    os.close(reader)
    try:
        _system_call(_library().unshare(_NEW_USERS | _NEW_NETWORK | _NEW_MOUNTS))
        os.write(writer, b"!")
    finally:
        os.close(writer)
        _, status = os.waitpid(helper, 0)
    if status:
        raise OSError(os.waitstatus_to_exitcode(status), "users cannot be mapped")
    return privileged


def hide(places: Iterable[Path]) -> None:
    """Put nothing in the place of files, in the mounts of this process alone; those that are not there stay away.

    Raises:
        OSError: One cannot be hidden.
    """
    for place in places:
        with suppress(FileNotFoundError, NotADirectoryError):
            real = os.fsencode(place.resolve(strict=True))
            _system_call(
                _library().mount(_NOTHING.encode(), real, None, _BIND, None), passed=(errno.EACCES,)
            )


def drop_rights(*, keep_files: bool) -> None:
    """Give up every right that changes namespaces, for this process and all that it will start.

    Args:
        keep_files: Whether to keep the rights over files that root has.

    Raises:
        OSError: One cannot be given up.
    """
    library = _library()
    kept = _RIGHTS_OVER_FILES & _rights() if keep_files else frozenset()
    # From now on a program has no more rights than who starts it; who may, also gives up the bound of them.
    _system_call(library.prctl(_NO_NEW_PRIVILEGES, 1, 0, 0, 0))
    last = int(Path("/proc/sys/kernel/cap_last_cap").read_text("utf-8"))
    for number in range(last + 1):
        if number not in kept:
            _system_call(library.prctl(_DROP_FROM_BOUND, number, 0, 0, 0), passed=(errno.EPERM,))
    bits = sum(1 << number for number in kept)
    header = (ctypes.c_uint32 * 2)(_CAPABILITIES_VERSION, 0)
    data = (ctypes.c_uint32 * 6)(bits, bits, 0, 0, 0, 0)
    _system_call(library.capset(header, data))


def has_only_loopback() -> bool:
    """Tell whether this process has no way out to any network."""
    lines = Path("/proc/self/net/dev").read_text("utf-8").splitlines()[2:]
    return {line.partition(":")[0].strip() for line in lines} <= {"lo"}


def _write_maps(process: int, users: str, groups: str, reader: int, *, keep_groups: bool) -> int:
    """Wait until the namespace is there, and say who is who in it; return an exit code, which is the error's number."""
    if not os.read(reader, 1):
        return 0  # there is none
    try:
        place = Path("/proc", str(process))
        if not keep_groups:
            place.joinpath("setgroups").write_text("deny", "utf-8")
        place.joinpath("uid_map").write_text(users, "utf-8")
        place.joinpath("gid_map").write_text(groups, "utf-8")
    except OSError as error:
        return error.errno or 1
    return 0


def _mapping(name: str, own: int, *, whole: bool) -> str:
    """Return the lines that let each number be itself: all that there are here, or one's own."""
    if not whole:
        return f"{own} {own} 1\n"
    text = Path("/proc/self", name).read_text("utf-8")
    ranges = [line.split() for line in text.splitlines()]
    return "".join(f"{first} {first} {count}\n" for first, _, count in ranges)


def _rights() -> set[int]:
    """Return the numbers of the rights that this process has now."""
    for line in Path("/proc/self/status").read_text("utf-8").splitlines():
        if line.startswith("CapEff:"):
            bits = int(line.split()[1], 16)
            return {number for number in range(64) if bits >> number & 1}
    return set()


def _library() -> ctypes.CDLL:
    return ctypes.CDLL(None, use_errno=True)


def _system_call(result: int, *, passed: tuple[int, ...] = ()) -> None:
    if result != 0 and (number := ctypes.get_errno()) not in passed:
        raise OSError(number, os.strerror(number))
