"""What came of building a target again."""

from collections.abc import Mapping
from dataclasses import dataclass

from dis_derivations.realisation.target import RealisedTarget
from dis_store.digest import Digest


@dataclass(frozen=True)
class Rebuild:
    """One more build of what was already built.

    Attributes:
        subject: The name of the derivation that was built again.
        key: What its builds are remembered by.
        outputs: What came of it.
        differing: The compared outputs that are not what the chosen build made.
        diverging: For a run whose results differ, the run of those results, to be compared with the
            chosen one.
    """

    subject: str
    key: Digest
    outputs: Mapping[str, Digest]
    differing: tuple[str, ...]
    diverging: RealisedTarget | None = None

    @property
    def bundle(self) -> Digest | None:
        """The bundle of the diverging run."""
        return None if self.diverging is None else self.diverging.main_output

    @property
    def identical(self) -> bool:
        """Whether every compared output is bit for bit the same."""
        return not self.differing
