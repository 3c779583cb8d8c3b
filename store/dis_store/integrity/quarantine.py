"""The place for what failed verification: never served, and never deleted by the store, for it may be the last copy."""

import os
import stat
from pathlib import Path

from dis_store.durability import fsync_directory
from dis_store.layout import Layout


def quarantined_name(layout: Layout, name: str) -> Path:
    """Return a new path in `quarantine/` that begins with `name`."""
    return layout.room("quarantine") / f"{name}-{os.urandom(8).hex()}"


def quarantine(layout: Layout, path: Path) -> Path:
    """Move a file or a tree to `quarantine/`, durably; return its new path."""
    target = quarantined_name(layout, path.name)
    mode = path.lstat().st_mode
    if stat.S_ISDIR(mode):
        # Nobody but root may move a directory that cannot be written.
        path.chmod(0o755)
    try:
        path.rename(target)
    except OSError:
        if stat.S_ISDIR(mode):
            path.chmod(stat.S_IMODE(mode))
        raise
    if stat.S_ISDIR(mode):
        target.chmod(stat.S_IMODE(mode))
    fsync_directory(path.parent)
    fsync_directory(target.parent)
    return target
