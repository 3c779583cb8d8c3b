"""The power goes at any moment, and the disk keeps what it promised to keep and any part of the rest."""

import os
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from pathlib import Path

import pytest

from dis_store import Store
from disks import (
    EXT4,
    FILE_SYSTEMS,
    FileSystem,
    be_able_to_mount,
    copy_image,
    mounted,
    recorded,
    synchronise,
)
from effort import effort
from errands import ADD, CHANGING, Errand, Expectation, Inputs, both, said_by, wrong
from forked_commands import Caller
from write_log import CrashState, WriteLog, read_log

pytestmark = [pytest.mark.stress, pytest.mark.slow, pytest.mark.usefixtures("_mounts")]
SEED = 20261129
ENDED = "dis has ended"
# On the three file systems together: 60 states of each command in the quick run, and more than 1,000 in the long one,
# where the logs of some commands on ext4 have fewer than 500 different ones.
STATES = {name: effort(quick, 500) for name, quick in (("ext4", 30), ("xfs", 15), ("btrfs", 15))}


@pytest.fixture
def _mounts() -> None:
    programs = ["fusermount", "losetup", "setpriv"]
    be_able_to_mount(*programs, *(f"mkfs.{each.name}" for each in FILE_SYSTEMS))


@dataclass(frozen=True)
class Rig:
    """A place for disks, and the inputs of the commands."""

    place: Path
    inputs: Inputs
    caller: Caller

    def __post_init__(self) -> None:
        for name in ("top", "state"):
            (self.place / name).mkdir()

    def record(
        self, errand: Errand, file_system: FileSystem, spoil: str | None
    ) -> tuple[Expectation, WriteLog]:
        """Run a command on a disk, and return what was to expect and what reached the disk."""
        image = self.place / "image"
        file_system.make(image)
        with (
            mounted(image, self.place / "top", file_system) as top,
            Store.open(top / "store") as store,
        ):
            expectation = errand.prepare(store)
        copy_image(image, self.place / "durable")
        with recorded(image, self.place, file_system) as disk:
            call = replace(self.caller, store=disk.top / "store", marks=disk.marks, spoil=spoil)
            ended = call(*errand.argv(self.inputs, self.place))
            assert ended.code in errand.codes, ended
            disk.marks.write_text(ENDED, "utf-8")
            # What would be written in the next half minute.
            synchronise(disk.top)
            records = read_log(disk.log)
        return expectation, WriteLog(records)

    def states(self, log: WriteLog, states: list[CrashState]) -> Iterator[CrashState]:
        """Yield each state when its image is made, in `state.image`."""
        durable = os.open(self.place / "durable", os.O_RDWR)
        try:
            for state, before in log.advancing(states):
                log.write(durable, range(before, state.flushed))
                copy_image(self.place / "durable", self.place / "state.image")
                descriptor = os.open(self.place / "state.image", os.O_RDWR)
                log.write(descriptor, state.kept, torn=state.torn)
                os.close(descriptor)
                yield state
        finally:
            os.close(durable)

    def judge(
        self, errand: Errand, file_system: FileSystem, expectation: Expectation, said: list[str]
    ) -> list[str]:
        """Return what is wrong with the state that lies in `state.image`, and with calling the command again."""
        lines = "".join(said).splitlines()
        facts = expectation.afterwards if ENDED in lines else expectation.always
        facts = both(facts, said_by(lines, expectation.always))
        with mounted(self.place / "state.image", self.place / "state", file_system) as top:
            if found := wrong(top / "store", facts, orphans_allowed=True):
                return found
            call = replace(self.caller, store=top / "store")
            again = call(*errand.argv(self.inputs, self.place))
            if again.code not in errand.codes:
                return [f"the second call: {again}"]
            facts = both(
                expectation.afterwards, said_by(again.out.splitlines(), expectation.always)
            )
            if found := wrong(top / "store", facts, orphans_allowed=True):
                return [f"after the second call: {each}" for each in found]
            if (collected := call("gc")).code != 0:
                return [f"the collection: {collected}"]
            return wrong(top / "store", expectation.afterwards, orphans_allowed=False)

    def bad_states(
        self, errand: Errand, file_system: FileSystem, count: int, *, spoil: str | None = None
    ) -> tuple[int, dict[CrashState, list[str]]]:
        """Return how many states there were, and what is wrong with those that are bad."""
        expectation, log = self.record(errand, file_system, spoil)
        states = log.states(count, SEED)
        bad = {}
        for state in self.states(log, states):
            if found := self.judge(errand, file_system, expectation, log.acknowledged(state)):
                bad[state] = found
        return len(states), bad


@pytest.fixture
def rig(memory: Path, inputs: Inputs, caller: Caller) -> Rig:
    return Rig(memory, inputs, caller)


@pytest.mark.parametrize("file_system", FILE_SYSTEMS, ids=lambda each: each.name)
@pytest.mark.parametrize("errand", CHANGING, ids=lambda each: each.name)
def test_what_was_acknowledged_survives_a_power_cut(
    rig: Rig, errand: Errand, file_system: FileSystem, tell: Callable[[str], None]
) -> None:
    count, bad = rig.bad_states(errand, file_system, STATES[file_system.name])
    assert bad == {}
    # A short log has fewer different states than were asked for.
    assert count > STATES[file_system.name] // 4
    tell(f"{count} states, 0 bad")


@pytest.mark.parametrize("spoil", ["never_wait", "commit_first"])
def test_the_rig_finds_what_a_store_without_its_protocol_would_lose(
    rig: Rig, spoil: str, tell: Callable[[str], None]
) -> None:
    count, bad = rig.bad_states(ADD, EXT4, effort(60, 300), spoil=f"spoilt_stores:{spoil}")
    assert bad
    tell(f"{count} states, {len(bad)} bad")
