"""What of a file must stay when nothing was written to it."""

from pathlib import Path


def identity(path: Path) -> tuple[int, int, int, int, int, int]:
    """Inode, mode, links, size, and the times of its last write and change; the time of reading is left out."""
    found = path.lstat()
    return (
        found.st_ino,
        found.st_mode,
        found.st_nlink,
        found.st_size,
        found.st_mtime_ns,
        found.st_ctime_ns,
    )
