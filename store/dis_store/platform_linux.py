"""What only Linux offers to a store, each with a portable fallback.

The fallbacks keep a laptop with another system able to read, lock and compare; they are correct under the locks that
the store holds around them, and slower.
"""

import errno
import fcntl
import functools
import os
import sys
from pathlib import Path
from typing import Any

_FICLONE = 0x40049409
# Of linux/fs.h. FS_IOC_GETFLAGS takes an int, though its number says a long.
_FS_IOC_GETFLAGS = 0x80086601
_ATTRIBUTES = {"i": 0x10, "a": 0x20}
_RENAME_NOREPLACE = 1
_RENAME_EXCHANGE = 2
_AT_FDCWD = -100
_SYNC_FILE_RANGE_WRITE = 2
_SYNCFS_TELLS = (5, 8)
_UNSUPPORTED = frozenset(
    {
        errno.EINVAL,
        errno.ENOSYS,
        errno.EOPNOTSUPP,
        errno.ENOTTY,
        errno.EXDEV,
        errno.EPERM,
        errno.EBADF,
    }
)
# f_type of statfs(2), from linux/magic.h and the file systems' own headers: NFS, CIFS, SMB2, 9p, Lustre, AFS, Ceph.
_NETWORK_FILE_SYSTEMS = frozenset(
    {0x6969, 0xFF534D42, 0xFE534D42, 0x01021997, 0x0BD00BD0, 0x5346414F, 0x00C36400}
)


@functools.cache
def _libc() -> Any:
    import ctypes

    return ctypes.CDLL(None, use_errno=True) if sys.platform == "linux" else None


def _call(name: str, *arguments: object) -> bool:
    """Call a function of the C library; False where it is not there or not supported."""
    function = getattr(_libc(), name, None)
    if function is None:
        return False
    if function(*arguments) == 0:
        return True
    import ctypes

    number = ctypes.get_errno()
    if number in _UNSUPPORTED:
        return False
    raise OSError(number, os.strerror(number))


def rename_noreplace(source: Path, target: Path) -> None:
    """Rename, and fail if anything is at `target`: a plain rename replaces an empty directory without a word.

    Raises:
        FileExistsError: Something is at `target`.
    """
    if _call("renameat2", _AT_FDCWD, bytes(source), _AT_FDCWD, bytes(target), _RENAME_NOREPLACE):
        return
    # Callers hold the lock of the digest, so nobody can come between the check and the rename.
    if target.is_symlink() or target.exists():
        raise FileExistsError(errno.EEXIST, os.strerror(errno.EEXIST), str(target))
    source.rename(target)


def rename_exchange(one: Path, other: Path) -> None:
    """Let two directories change places, in one step where the system can."""
    if _call("renameat2", _AT_FDCWD, bytes(one), _AT_FDCWD, bytes(other), _RENAME_EXCHANGE):
        return
    aside = one.with_name(f"{one.name}-{os.urandom(8).hex()}")
    other.rename(aside)
    one.rename(other)
    aside.rename(one)


def clone_file(source: int, target: int) -> bool:
    """Make the empty file `target` share the blocks of `source`; False where the file system cannot."""
    if sys.platform != "linux":
        return False
    try:
        fcntl.ioctl(target, _FICLONE, source)
    except OSError as error:
        if error.errno in _UNSUPPORTED:
            return False
        raise
    return True


def is_open_for_writing(descriptor: int) -> bool | None:
    """Tell whether anybody could write to a file through what is open already; None where nobody knows.

    The caller owns the file, and has it open for reading.
    """
    lease = getattr(fcntl, "F_SETLEASE", None)
    if lease is None:
        return None
    try:
        # The kernel gives a read lease only on a file that nobody has open for writing.
        fcntl.fcntl(descriptor, lease, fcntl.F_RDLCK)
        fcntl.fcntl(descriptor, lease, fcntl.F_UNLCK)
    except OSError as error:
        return True if error.errno == errno.EAGAIN else None
    return False


def write_all(target: int, data: bytes) -> None:
    """Write all of `data`; the kernel may take less in one call."""
    view = memoryview(data)
    while view:
        view = view[os.write(target, view) :]


def start_writeback(descriptor: int, offset: int, length: int) -> None:
    """Let the disk begin with a range now, so that the fsync that follows has little left to wait for."""
    import ctypes

    _call(
        "sync_file_range",
        descriptor,
        ctypes.c_int64(offset),
        ctypes.c_int64(length),
        ctypes.c_uint(_SYNC_FILE_RANGE_WRITE),
    )


def sync_file_system(descriptor: int) -> bool:
    """Wait until everything of a file system is on the disk, in one call.

    Args:
        descriptor: An open file or directory on it. What could not be written since it was opened is an error.

    Returns:
        False, with nothing done, where the system does not offer it, or does not tell errors (Linux before 5.8).
    """
    return _tells_errors_of_syncfs() and _call("syncfs", descriptor)


@functools.cache
def _tells_errors_of_syncfs() -> bool:
    if sys.platform != "linux":
        return False
    major, minor, *_ = os.uname().release.split(".")
    return major.isdecimal() and minor.isdecimal() and (int(major), int(minor)) >= _SYNCFS_TELLS


def forbidding_attributes(path: Path) -> str:
    """Return the letters, as chattr has them, of what keeps everybody and root from changing a file or a directory."""
    if sys.platform != "linux":
        return ""
    try:
        descriptor = os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK)
    except OSError:
        return ""
    try:
        answer = fcntl.ioctl(descriptor, _FS_IOC_GETFLAGS, bytes(8))
    except OSError:
        return ""
    finally:
        os.close(descriptor)
    flags = int.from_bytes(answer[:4], sys.byteorder)
    return "".join(letter for letter, bit in _ATTRIBUTES.items() if flags & bit)


def located(error: OSError, name: str, directory: int) -> OSError:
    """Return an error about `name` in an open directory as one about a whole path, where the system tells that."""
    try:
        place = Path(f"/proc/self/fd/{directory}").readlink()
    except OSError:
        return error
    number = error.errno or errno.EIO
    # A path that is whole already is that of something further down; a number is that of an open directory.
    found = error.filename if isinstance(error.filename, str | bytes) else name
    path = place / os.fsdecode(found)
    return OSError(number, error.strerror or os.strerror(number), str(path))


def is_network_file_system(directory: Path) -> bool:
    """Tell whether `directory` lies on a file system whose locks other machines may not see."""
    import ctypes

    # struct statfs begins with f_type, one word; the rest is not read.
    buffer = (ctypes.c_ulong * 32)()
    if not _call("statfs", bytes(directory), buffer):
        return False
    return int(buffer[0]) & 0xFFFFFFFF in _NETWORK_FILE_SYSTEMS


def boot_id() -> str:
    """Return an id of this boot of the machine, or zeros where the system has none."""
    try:
        return Path("/proc/sys/kernel/random/boot_id").read_text(encoding="ascii").strip()
    except OSError:
        return "0" * 32
