"""Stores without one of the things that they rely on, to see that the rigs notice, or that nothing else is lost."""

import fcntl
import os
from typing import Any

from dis_store.writing import registration


def never_wait() -> None:
    """Let the store wait for no disk; SQLite still does."""
    os.fsync = lambda fd: None


def commit_first() -> None:
    """Let the index promise what is not in its place yet."""

    def install(foundation: Any, space: Any, tree: Any, contents: Any) -> None:
        registration._enter_index(foundation, tree, contents)
        registration._place_tree(foundation, space, tree)
        registration._publish_manifest(foundation, space, tree)

    registration._install = install


def locks_do_nothing() -> None:
    """Let every lock be granted at once, as some network file systems do."""
    fcntl.flock = lambda *_: None
