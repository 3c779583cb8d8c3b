"""A command is killed at a random moment: what was there stays, and the next call cleans up and succeeds."""

import os
import random
import signal
import time
from collections.abc import Callable
from contextlib import suppress

import pytest

from effort import effort
from errands import ADD, GC, QUARANTINE, REALIZE, REINDEX, REPAIR
from forked_commands import Ended
from prepared_stores import PreparedStore

pytestmark = pytest.mark.stress
SEED = 20261130
# 300 and 3000 in all.
KILLS = {
    ADD: effort(60, 600), REALIZE: effort(30, 500), GC: effort(60, 600), REINDEX: effort(60, 500),
    QUARANTINE: effort(30, 300), REPAIR: effort(60, 500),
}  # fmt: skip


def killed_after(prepared: PreparedStore, seconds: float) -> Ended:
    """Call the command, and kill it if it lives so long."""
    child = prepared.caller.start(prepared.argv)
    # By its handle: the number of a process that has ended may be another's.
    with suppress(ProcessLookupError):
        handle = os.pidfd_open(child)
        time.sleep(seconds)
        with suppress(ProcessLookupError):
            signal.pidfd_send_signal(handle, signal.SIGKILL)
        os.close(handle)
    return prepared.caller.wait()


def duration(prepared: PreparedStore) -> float:
    """Return how many seconds a call takes that nobody kills."""
    prepared.renew()
    begun = time.monotonic()
    prepared.caller(*prepared.argv)
    return time.monotonic() - begun


@pytest.mark.slow
@pytest.mark.parametrize("prepared", KILLS, ids=lambda each: each.name, indirect=True)
def test_a_kill_at_any_moment_loses_nothing(
    prepared: PreparedStore, tell: Callable[[str], None]
) -> None:
    chance = random.Random(SEED)  # noqa: S311 - which one is no secret
    wanted = KILLS[prepared.errand]
    # The shortest of some: a kill that comes too late shows nothing.
    longest = min(duration(prepared) for _ in range(3))
    landed = tried = 0
    while landed < wanted and tried < 4 * wanted:
        tried += 1
        prepared.renew()
        killed = killed_after(prepared, chance.uniform(0, longest))
        assert prepared.judge(killed) == [], f"try {tried}"
        landed += killed.code == -signal.SIGKILL
    assert landed == wanted
    tell(f"{landed} kills landed in {tried} tries, 0 bad")
