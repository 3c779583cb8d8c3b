"""Children for the store's tests: killed at a chosen system call, or working at the same time as others."""

import os
import signal
import sys
import traceback
import warnings
from collections.abc import Callable, Sequence
from contextlib import suppress
from types import FrameType
from typing import Any

# Between two of these nothing on the disk changes, so that a kill before each of them makes every state there is.
_CHANGES = frozenset(
    {"chmod", "execute", "executemany", "fchmod", "flock", "fsync", "ftruncate"}
    | {"link", "mkdir", "open", "pwrite", "rename", "replace", "rmdir", "symlink", "unlink"}
    | {"utime", "write"}
)


def killed_before_call(number: int, action: Callable[[], object]) -> bool:
    """Run `action` in a child that is killed before its call number `number` that may change the disk.

    Returns:
        Whether it came to that; False if it ended before, well.
    """

    def child() -> None:
        calls = 0

        def watch(_frame: FrameType, event: str, function: Any) -> None:
            nonlocal calls
            if event == "c_call" and _may_change_the_disk(function):
                calls += 1
                if calls == number:
                    os.kill(os.getpid(), signal.SIGKILL)

        sys.setprofile(watch)
        action()
        sys.setprofile(None)

    status = waited_for(forked(child))
    assert status in (0, -signal.SIGKILL), "the child failed before it was killed"
    return status != 0


def killed_in(action: Callable[[], object]) -> None:
    """Run `action`, which kills its process with SIGKILL, in a child."""
    assert waited_for(forked(action)) == -signal.SIGKILL


def kill_self(*_: object, **__: object) -> None:
    """End this process as a power button would."""
    os.kill(os.getpid(), signal.SIGKILL)


def at_once(actions: Sequence[Callable[[], object]]) -> None:
    """Run all actions at the same time, each in a child of its own; all must end well."""
    children = [forked(action) for action in actions]
    statuses = [waited_for(child) for child in children]
    assert statuses == [0] * len(children)


def _may_change_the_disk(function: Any) -> bool:
    if getattr(function, "__name__", "") not in _CHANGES:
        return False
    owner = type(getattr(function, "__self__", None)).__module__
    return "apsw" in owner or getattr(function, "__module__", None) in ("posix", "fcntl")


def forked(action: Callable[[], object]) -> int:
    """Run `action` in a child, and return the id of its process."""
    with warnings.catch_warnings():
        # Newer versions of Python warn that threads do not survive: the children need none.
        warnings.simplefilter("ignore", DeprecationWarning)
        child = os.fork()
    if child:
        return child
    status = 1
    with suppress(BaseException):
        try:
            action()
            status = 0
        except BaseException:
            traceback.print_exc()
            raise
    sys.stderr.flush()
    os._exit(status)


def waited_for(child: int) -> int:
    """Wait for a child, and return its exit code, negative for a signal."""
    return os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])
