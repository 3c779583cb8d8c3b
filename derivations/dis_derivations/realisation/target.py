"""What a user asks to be realised, and what came of it."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from dis_store.digest import Digest

if TYPE_CHECKING:
    from dis_derivations.distribution.substitution import Substituter
    from dis_derivations.lock.unverified_digests import UnverifiedDigests
    from dis_derivations.realisation.engine_environment import Place
    from dis_derivations.realisation.events import Reporter
    from dis_derivations.realisation.rebuild import Rebuild

    # Told the name of an image, None where it is not known; what a lock pins of it; and who hears of it.
    ImageCheck = Callable[[str | None, Mapping[str, str], Reporter], None]

DEFAULT_TARGET = "run"


@dataclass(frozen=True, eq=False, repr=False)
class TargetRequest:
    """A target of a manifest, and how to get there.

    Attributes:
        config: The manifest.
        target: A name of the manifest's graph: `run`, `generation`, `closure`, `requests`,
            `weights`, …
        overrides: `a.b=value` each, applied after inheritance.
        locked: Refuse a missing or stale lock instead of locking.
        verify_digests: Refuse inputs that are not what the lock says. Otherwise they are taken as they are at their
            sources, and the run says so.
        jobs: Builds at a time.
        keep_going: After a failure, build what does not depend on it.
        rebuilds: How often to build the target again and compare.
        root: A root to give to the result, beside the automatic one of a run.
        out_link: A result link to make outside the store.
        engine_python: The interpreter of vLLM. Where it lies is no part of any identity; what is installed there is.
        transformers_python: The same for the engine transformers.
        place: Whether the engine runs in the image of the manifest or outside; None: in it where the manifest names one
            and no interpreter is named. Where it is no part of any identity.
        substituter: Makes what is asked before anything is built; None where everything is built here.
        image_check: Refuses an image that nobody vouches for; None where nobody need.
    """

    config: Path
    target: str = DEFAULT_TARGET
    overrides: tuple[str, ...] = ()
    locked: bool = False
    verify_digests: bool = True
    jobs: int = 1
    keep_going: bool = False
    rebuilds: int = 0
    root: str | None = None
    out_link: Path | None = None
    engine_python: Path | None = None
    transformers_python: Path | None = None
    place: "Place | None" = None
    substituter: "Callable[[], Substituter] | None" = None
    image_check: "ImageCheck | None" = None


@dataclass(frozen=True, eq=False, repr=False)
class RealisedTarget:
    """A target whose outputs are valid objects of the store.

    Attributes:
        name: The manifest's name.
        derivation: The target's derivation.
        key: What it is remembered by.
        outputs: The objects by output name; for a run `bundle` and `log`.
        cached: Nothing had to be built, the inputs included. Locking is no build.
        roots: The roots that now keep it.
        rebuilds: What came of building it again, when that was asked for.
        output_directory: Where the manifest wants its run to be laid out, in its own words; None where it does not say.
            It is no part of the run's identity, so it is in no bundle.
        golden: The run that the manifest wants this one to be compared with; None where it wants none.
        include: What the manifest wants to be in archives and directories of its run; everything where it says nothing.
        retention_days: How long the manifest wants its run to be kept at least.
        unverified: What was used in place of what the lock declares; None for a target whose inputs are those of the
            lock.
    """

    target: str
    name: str
    derivation: Digest
    key: Digest
    outputs: Mapping[str, Digest]
    cached: bool
    roots: tuple[str, ...] = ()
    rebuilds: "tuple[Rebuild, ...]" = ()
    output_directory: str | None = None
    golden: str | None = None
    include: tuple[str, ...] = ()
    retention_days: int = 0
    unverified: "UnverifiedDigests | None" = None

    @property
    def main_output(self) -> Digest:
        """The output that people mean: the first that is not the log."""
        return next(digest for name, digest in self.outputs.items() if name != "log")

    @property
    def reproduced(self) -> bool:
        """Whether every rebuild was identical."""
        return all(rebuild.identical for rebuild in self.rebuilds)
