"""A filled store of which each call of a command gets a copy, and the verdict on what a fault left of it."""

import subprocess
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from dis_store import Store
from dis_store.durability import remove_tree
from errands import Errand, Expectation, Inputs, both, said_by, wrong
from forked_commands import Caller, Ended


@dataclass(frozen=True)
class PreparedStore:
    """A store that a command finds as it was before, as often as it is called.

    Attributes:
        errand: The command.
        expectation: What must be true of the store.
        template: The store as it was before.
        argv: The arguments of the command.
        caller: Calls it with the copy.
    """

    errand: Errand
    expectation: Expectation
    template: Path
    argv: Sequence[str | Path]
    caller: Caller

    def renew(self) -> None:
        """Put the store back to what it was before the first call."""
        if self.caller.store.exists():
            remove_tree(self.caller.store)
        # Equal files of a store share inodes, and shall go on to do so.
        subprocess.run(["cp", "--archive", self.template, self.caller.store], check=True)

    def kept_somewhere(self) -> list[str]:
        """Return what is neither in the store nor in its quarantine: a file that cannot be read is set aside."""
        rooms = [path.name for path in (self.caller.store / "quarantine").iterdir()]
        rooms += [path.name for path in (self.caller.store / "objects").glob("*/*")]
        kept = {name[:64] for name in rooms}
        return [f"lost: {each}" for each in self.expectation.afterwards.objects - kept]

    def judge(self, ended: Ended) -> list[str]:
        """Return what is wrong after a call that a fault befell, and with calling the command again."""
        store, expectation = self.caller.store, self.expectation
        facts = expectation.afterwards if ended.code == 0 else expectation.always
        said = said_by((ended.out + ended.err).splitlines(), expectation.always)
        if found := wrong(store, both(facts, said), orphans_allowed=True):
            return found
        again = self.caller(*self.argv)
        if again.code not in self.errand.codes or again.untold:
            return [f"the second call: {again}"]
        left = [*(store / "tmp").iterdir(), *(store / "trash").iterdir()]
        return [
            *(f"left over: {path}" for path in left),
            *wrong(store, both(expectation.afterwards, said), orphans_allowed=True),
        ]


def prepare(errand: Errand, place: Path, inputs: Inputs, caller: Caller) -> PreparedStore:
    """Fill a store for a command.

    Args:
        errand: The command.
        place: A directory of one's own.
        inputs: What the command reads.
        caller: Calls `dis` with the store `place / "store"`.
    """
    with Store.open(place / "template") as store:
        expectation = errand.prepare(store)
    return PreparedStore(
        errand, expectation, place / "template", [*errand.argv(inputs, place)], caller
    )
