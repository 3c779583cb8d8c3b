"""Telling how far work that is measured in one unit has come."""

from collections.abc import Callable

Progress = Callable[[int, int], None]
"""Called with how much more is done and how much there is in all, perhaps from several threads; first with 0."""


def uncounted(_amount: int) -> None:
    """Let bytes go by: the `on_bytes` of those who do not count."""


def counter(progress: Progress | None, total: int) -> Callable[[int], None]:
    """Return what counts pieces of work of a known amount for `progress`, which is told of the amount at once."""
    if progress is None:
        return uncounted
    progress(0, total)
    return lambda amount: progress(amount, total)
