"""How much the fault rigs do: as much as the suite has time for, or all that was planned."""

import os


def is_stress() -> bool:
    """Tell whether this is the long run, `make stress`."""
    return os.environ.get("DIS_STRESS", "0") not in {"", "0"}


def effort(quick: int, long: int) -> int:
    """Return how often to do something."""
    return long if is_stress() else quick
