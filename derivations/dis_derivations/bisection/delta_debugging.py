"""Delta debugging: a smallest set of differences that still makes a test fail.

The algorithm is `ddmin` of Zeller and Hildebrandt, *Simplifying and Isolating Failure-Inducing Input*, IEEE TSE 28(2),
2002, with the three outcomes that it has there.
"""

from collections.abc import Callable, Sequence
from itertools import pairwise
from typing import Literal, TypeVar

Outcome = Literal["parts", "agrees", "unresolved"]

_T = TypeVar("_T")


def minimise(items: Sequence[_T], test: Callable[[tuple[_T, ...]], Outcome]) -> tuple[_T, ...]:
    """Return a subset of `items` that parts, and from which no single item can be taken away.

    Args:
        items: A set that parts; what is most likely guilty first, which saves tests.
        test: Tells what a subset, in the order of `items`, does. It may raise to stop the search, and should remember
            what it answered: a subset may be asked for twice.
    """
    current, granularity = tuple(items), 2
    while len(current) > 1:
        found = _smaller(current, granularity, test)
        if found is not None:
            current, granularity = found
        elif granularity >= len(current):
            break
        else:
            granularity = min(2 * granularity, len(current))
    return current


def usual_tests(items: int) -> int:
    """Return about how many tests one guilty item among `items` takes: two a halving."""
    return 2 * max(items - 1, 0).bit_length()


def most_tests(items: int) -> int:
    """Return a bound of the tests for `items`, whatever comes out (Zeller and Hildebrandt, section 3)."""
    return items * items + 3 * items


def _smaller(
    current: tuple[_T, ...], granularity: int, test: Callable[[tuple[_T, ...]], Outcome]
) -> tuple[tuple[_T, ...], int] | None:
    """Return a smaller set that parts, with the granularity to go on with; None where there is none at this one."""
    parts = _split(current, granularity)
    for part in parts:
        if test(part) == "parts":
            return part, 2
    if granularity == 2:  # noqa: PLR2004 - of two halves, each is the complement of the other
        return None
    for left_out in parts:
        rest = tuple(item for item in current if item not in left_out)
        if test(rest) == "parts":
            return rest, max(granularity - 1, 2)
    return None


def _split(items: tuple[_T, ...], count: int) -> list[tuple[_T, ...]]:
    """Return `count` pieces of nearly equal size, in order."""
    bounds = [len(items) * number // count for number in range(count + 1)]
    return [items[begin:end] for begin, end in pairwise(bounds)]
