"""Tar archives as streams of bytes that depend on names and contents alone: no times, users or hosts are in them."""

import tarfile

BLOCK_BYTES = 512
TAR_END = bytes(2 * BLOCK_BYTES)
FILE_MODE, PROGRAM_MODE, DIRECTORY_MODE = 0o644, 0o755, 0o755


def tar_header(name: str, size: int, *, mode: int = FILE_MODE) -> bytes:
    """Return what stands before the content of a file."""
    return _header(name, size, mode, tarfile.REGTYPE)


def directory_header(name: str, *, mode: int = DIRECTORY_MODE) -> bytes:
    """Return the member that a directory is."""
    return _header(f"{name}/", 0, mode, tarfile.DIRTYPE)


def link_header(name: str, target: str) -> bytes:
    """Return the member that a symbolic link is."""
    return _header(name, 0, 0o777, tarfile.SYMTYPE, target)


def padding(size: int) -> bytes:
    """Return what follows the content of a file, up to the next block."""
    return bytes(-size % BLOCK_BYTES)


def _header(name: str, size: int, mode: int, kind: bytes, target: str = "") -> bytes:
    member = tarfile.TarInfo(name)
    member.size, member.mode, member.type, member.linkname = size, mode, kind, target
    # Longer names, and sizes from 8 GiB on, need a block of their own in front, which this format makes the same way
    # every time.
    return member.tobuf(tarfile.PAX_FORMAT, "utf-8", "strict")
