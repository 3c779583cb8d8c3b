"""Building hybrid runs and telling whether their outputs part from those of the first run."""

from collections.abc import Iterable
from contextlib import closing
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING

from dis_derivations.bisection.delta_debugging import Outcome
from dis_derivations.bisection.differences import Difference
from dis_derivations.bisection.hybrids import HYBRID_NAME, Hybrid, hybrid
from dis_derivations.comparison.examination import examine
from dis_derivations.comparison.sequences import align
from dis_derivations.realisation.events import Event, Reporter
from dis_derivations.realisation.silence import silent
from dis_derivations.runs.bundle_documents import Bundle, load_bundle
from dis_derivations.runs.bundle_reader import StoredBundle
from dis_store.digest import Digest
from dis_store.errors import DisError, InterruptedBuildError

if TYPE_CHECKING:
    from dis_derivations.confinement.confined_process import ConfinedProcess
    from dis_derivations.realisation.manifest_build import ManifestBuild
    from dis_derivations.realisation.target import ImageCheck
    from dis_store import Store

_TARGET = "run"


class BudgetSpentError(Exception):
    """The next experiment would build more runs than the budget allows; it never leaves this package."""


@dataclass(frozen=True)
class Experiment:
    """One hybrid and what came of it.

    Attributes:
        taken: The names of the differences that came from B.
        outcome: `parts`: the outputs are not those of A's closure here; `agrees`: they are; `unresolved`: there is no
            such run.
        cached: Whether no generation had to be built for it.
        bundle: The hybrid's bundle, to be compared with any run; None where there is none.
        detail: Where the outputs part, or why there is no such run; empty where they agree.
    """

    taken: tuple[str, ...]
    outcome: Outcome
    cached: bool
    bundle: Digest | None
    detail: str = ""


@dataclass
class Laboratory:
    """Does experiments with two runs, each once.

    Attributes:
        observable: What is asked about: `tokens`, `logits`, `activations` or `engine_trace`.
        budget: How many generations may be built; None for any number.
        jobs: Builds at a time.
        engine_python: The interpreter of vLLM.
        transformers_python: The interpreter of transformers.
        image_check: Refuses an image that nobody vouches for; None where nobody need.
        done: The experiments so far, in order.
    """

    store: "Store"
    a: Bundle
    b: Bundle
    observable: str
    budget: int | None = None
    jobs: int = 1
    engine_python: Path | None = None
    transformers_python: Path | None = None
    image_check: "ImageCheck | None" = None
    reporter: Reporter = silent
    done: list[Experiment] = field(default_factory=list)
    _baseline: Bundle | None = None

    @property
    def built(self) -> int:
        """How many generations were built."""
        return sum(not each.cached for each in self.done)

    def baseline(self) -> Bundle:
        """Return A's closure realised here, from which outputs part or do not.

        Raises:
            DisError: It cannot be built here.
            BudgetSpentError: It is not built yet, and the budget is 0.
        """
        if self._baseline is None:
            bundle, cached = self._made(hybrid(self.a, self.b, ()))
            self._baseline = load_bundle(StoredBundle(self.store, bundle))
            self._note(Experiment((), "agrees", cached, bundle))
        return self._baseline

    def test(self, taken: Iterable[Difference]) -> Outcome:
        """Return what a hybrid with some of B's differences does.

        Raises:
            BudgetSpentError: It would have to be built, and the budget is spent.
            InterruptedBuildError: The user interrupted.
        """
        chosen = tuple(taken)
        names = tuple(each.name for each in chosen)
        known = next((each for each in self.done if each.taken == names), None)
        return (known or self._experiment(chosen, names)).outcome

    def is_built(self, taken: Iterable[Difference]) -> bool | None:
        """Return whether a hybrid is known already; None where there is no such run. Nothing is built."""
        try:
            return _is_known(self._compiled(hybrid(self.a, self.b, taken)))
        except DisError:
            return None

    def derivation(self, taken: Iterable[Difference]) -> Digest | None:
        """Return the derivation of a hybrid's generation; None where there is no such run.

        Raises:
            DisError: Nothing is taken from B, and A itself cannot be compiled here.
        """
        chosen = tuple(taken)
        try:
            return self._compiled(hybrid(self.a, self.b, chosen)).graph.target("generation")
        except DisError:
            if not chosen:
                raise
            return None

    def _experiment(self, chosen: tuple[Difference, ...], names: tuple[str, ...]) -> Experiment:
        try:
            bundle, cached = self._made(hybrid(self.a, self.b, chosen))
            detail = self._parting(load_bundle(StoredBundle(self.store, bundle)))
        except InterruptedBuildError:
            raise
        except DisError as error:
            return self._note(Experiment(names, "unresolved", True, None, str(error)))
        return self._note(
            Experiment(names, "parts" if detail else "agrees", cached, bundle, detail)
        )

    def _made(self, made: Hybrid) -> tuple[Digest, bool]:
        """Return the bundle of a hybrid, and whether its generation was known.

        Raises:
            BudgetSpentError: It is not, and the budget is spent.
        """
        from dis_derivations.confinement.policy import confinement_for

        if _is_known(known := self._compiled(made)):
            return known.realise().main_output, True
        if self.budget is not None and self.built >= self.budget:
            raise BudgetSpentError
        self._check_image(made)
        confinement = confinement_for(made.loaded.document, _TARGET)
        with closing(self._compiled(made, confinement)) as build:
            return _realised(build), False

    def _check_image(self, made: Hybrid) -> None:
        """Refuse the image that a hybrid would run in: both runs may come from anybody.

        Raises:
            UntrustedError, UnfitEnvironmentError: Nobody vouches for it, and somebody must.
            IntegrityError: It is another one than the lock says.
        """
        from dis_derivations.images.locked_image import check_locked_image
        from dis_derivations.manifest.artifact_groups import IMAGE

        check_locked_image(made.lock)
        if self.image_check is None or IMAGE not in made.lock.sources:
            return
        # The manifest may be one run's and the image the other's.
        owner = self.b if any(IMAGE in each.artifacts for each in made.taken) else self.a
        execution = owner.manifest["runtime"]["execution"]
        self.image_check(execution.get("vllm_image"), made.lock.sources[IMAGE], self.reporter)

    def _compiled(
        self, made: Hybrid, confinement: "ConfinedProcess | None" = None
    ) -> "ManifestBuild":
        from dis_derivations.realisation import preflight
        from dis_derivations.realisation.locking import UsedLock
        from dis_derivations.realisation.manifest_build import ManifestBuild
        from dis_derivations.realisation.target import TargetRequest

        preflight.check_manifest(made.loaded.document)
        return ManifestBuild.compiled(
            self.store,
            made.loaded,
            UsedLock(made.lock, made.lock.encode()),
            TargetRequest(
                Path(HYBRID_NAME),
                jobs=self.jobs,
                engine_python=self.engine_python,
                transformers_python=self.transformers_python,
            ),
            self.reporter,
            confinement,
        )

    def _parting(self, other: Bundle) -> str:
        """Return where a hybrid's outputs part from the baseline's; empty where they do not."""
        baseline = self.baseline()
        alignment = align(baseline, other)
        if self.observable == "tokens":
            if alignment.same_tokens:
                return ""
            first = alignment.first
            if first is None:
                return "other requests"
            return (
                f"{len(alignment.parted)} of {len(alignment.pairs)} sequences, "
                f"first {first.a.id} at {first.output_common}"
            )
        status = examine(baseline, other).status[self.observable]
        return "" if status in ("identical", "not captured") else status

    def _note(self, experiment: Experiment) -> Experiment:
        self.done.append(experiment)
        taken = ", ".join(experiment.taken) or "nothing"
        self.reporter(Event("note", f"from B: {taken}", experiment.outcome))
        return experiment


def _is_known(build: "ManifestBuild") -> bool:
    """Whether the store has the results of a run's generation."""
    missing = build.realiser.missing(build.graph.target(_TARGET))
    return build.graph.target("generation") not in missing


def _realised(build: "ManifestBuild") -> Digest:
    try:
        return build.realise().main_output
    except KeyboardInterrupt:
        raise InterruptedBuildError(
            "interrupted", hint="run the same command again: it goes on from what is finished"
        ) from None
