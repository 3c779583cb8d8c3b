"""Each call that a command makes to the system fails once, or is its last: the store stays sound, and it is told."""

import random
import shutil
from collections.abc import Callable, Sequence

import pytest

from call_faults import Fault, call_with, faults_of
from disks import unfit
from effort import effort, is_stress
from errands import ALL, QUARANTINE, REINDEX, REPAIR
from prepared_stores import PreparedStore

pytestmark = pytest.mark.stress
SEED = 20261201
SAMPLE = 16


@pytest.fixture(autouse=True)
def _strace() -> None:
    if shutil.which("strace") is None:
        unfit("strace is not installed")


def chosen(faults: Sequence[Fault]) -> list[Fault]:
    """Return the faults to try: all, or a few of each error."""
    chance = random.Random(SEED)  # noqa: S311 - which one is no secret
    if is_stress():
        return list(faults)
    errors = sorted({fault.error for fault in faults})
    share = SAMPLE // len(errors)
    found: list[Fault] = []
    for error in errors:
        of_error = [fault for fault in faults if fault.error == error]
        found += chance.sample(of_error, min(share, len(of_error)))
    return found


def sets_aside(prepared: PreparedStore, fault: Fault) -> bool:
    """Tell whether the command takes what the disk cannot read for damaged, which is what it is for."""
    return fault.error == "EIO" and prepared.errand in (REINDEX, QUARANTINE, REPAIR)


@pytest.mark.parametrize("prepared", ALL, ids=lambda each: each.name, indirect=True)
def test_a_call_that_fails_is_told_and_spoils_nothing(
    prepared: PreparedStore, tell: Callable[[str], None]
) -> None:
    record = prepared.template.with_name("calls")
    prepared.renew()
    faults = faults_of(prepared.caller, prepared.argv, record)
    struck = 0
    bad: dict[Fault, object] = {}
    for fault in chosen(faults):
        prepared.renew()
        ended, strikes = call_with(prepared.caller, prepared.argv, fault, record)
        struck += strikes > 0
        # The report of an error may be struck as well when several threads were.
        untold = ended.untold if strikes == 1 and fault.error != "KILL" else None
        if sets_aside(prepared, fault) and ended.code in (4, 5):
            found = prepared.kept_somewhere()
        else:
            found = prepared.judge(ended)
        if untold or found:
            bad[fault] = [untold, *found]
    assert bad == {}
    assert struck >= effort(1, 10)
    tell(f"{struck} of {len(faults)} faults, 0 bad")
