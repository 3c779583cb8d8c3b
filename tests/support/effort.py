"""How much the tests do: as much as the suite has time for, or all that was planned."""

import os

import pytest


def is_stress() -> bool:
    """Tell whether this is the long run, `make stress`."""
    return os.environ.get("DIS_STRESS", "0") not in {"", "0"}


in_stress_alone = [
    pytest.mark.stress,
    pytest.mark.slow,
    pytest.mark.skipif(not is_stress(), reason="it takes minutes: make stress"),
]
"""Marks of tests for which the suite has no time, and of which a shorter one says nearly as much."""


def effort(quick: int, long: int) -> int:
    """Return how often to do something."""
    return long if is_stress() else quick
