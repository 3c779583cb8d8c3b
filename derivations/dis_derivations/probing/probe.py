"""A probe: the first run, an experiment for each check, and the verdict."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from dis_derivations.probing import machine
from dis_derivations.probing.checks import QUESTIONS, plan
from dis_derivations.probing.experiment import Check, CheckName, Experiment
from dis_derivations.probing.judging import compare
from dis_derivations.probing.laboratory import Laboratory
from dis_derivations.probing.verdict import (
    PROBE_KIND,
    SCHEMA_VERSION,
    CacheFinding,
    Failure,
    Result,
    Verdict,
)
from dis_derivations.probing.warm_cache import WarmRuns
from dis_derivations.realisation.events import Event
from dis_derivations.runs.bundle_documents import load_bundle
from dis_derivations.runs.bundle_reader import StoredBundle
from dis_store.digest import Digest
from dis_store.errors import DisError, InterruptedBuildError


@dataclass(frozen=True)
class PlannedCheck:
    """A check that would be made.

    Attributes:
        experiment: What would be done; None where nothing can be.
        reason: Why nothing can be.
        known: Whether the store has its results; None where that is not known yet.
    """

    name: CheckName
    experiment: Experiment | None
    reason: str
    known: bool | None

    def to_json(self) -> dict[str, Any]:
        """Return the plan of a check as a JSON object."""
        return {
            "check": self.name,
            "question": QUESTIONS[self.name],
            "experiment": None if self.experiment is None else self.experiment.to_json(),
            "reason": self.reason or None,
            "known": self.known,
        }


@dataclass(frozen=True)
class ProbePlan:
    """What `dis probe --dry-run` says.

    Attributes:
        locks: Whether the manifest would be locked first.
        baseline_known: Whether the store has the first run; None where that is not known yet.
    """

    name: str
    locks: bool
    baseline_known: bool | None
    checks: tuple[PlannedCheck, ...]

    def to_json(self) -> dict[str, Any]:
        """Return the plan as a JSON document."""
        return {
            "schema_version": SCHEMA_VERSION,
            "kind": PROBE_KIND,
            "dry_run": True,
            "name": self.name,
            "locks": self.locks,
            "baseline_known": self.baseline_known,
            "checks": [each.to_json() for each in self.checks],
        }


def planned(document: Any, names: Sequence[CheckName], laboratory: Laboratory | None) -> ProbePlan:
    """Return what a probe would do.

    Args:
        document: The probed manifest.
        names: The checks.
        laboratory: Knows what is built; None where there is no lock yet.
    """
    checks = plan(document, machine.measure(document, _server_settings(laboratory)), names)
    return ProbePlan(
        name=str(document["metadata"]["name"]),
        locks=laboratory is None,
        baseline_known=None if laboratory is None else laboratory.is_known(None),
        checks=tuple(_planned(each, laboratory) for each in checks),
    )


def _server_settings(laboratory: Laboratory | None) -> Mapping[str, Any] | None:
    try:
        return None if laboratory is None else laboratory.server_settings()
    except DisError:
        return None  # nothing is started or reached to make a plan


def _planned(check: Check, laboratory: Laboratory | None) -> PlannedCheck:
    experiment = check.experiments[0] if check.experiments else None
    known = None
    if experiment is not None and laboratory is not None:
        known = laboratory.is_known(experiment)
    return PlannedCheck(check.name, experiment, check.reason, known)


def probe(laboratory: Laboratory, names: Sequence[CheckName]) -> Verdict:
    """Make the checks.

    An experiment that fails says nothing about the results: its check is not made, and the reason is kept.

    Raises:
        DisError: The first run cannot be made.
        InterruptedBuildError: The user interrupted; what is finished is found again by the next call.
    """
    document = laboratory.loaded.document
    checks = plan(document, machine.measure(document, laboratory.server_settings()), names)
    baseline = laboratory.baseline()
    results = tuple(_result(laboratory, baseline.bundle, check) for check in checks)
    first = load_bundle(StoredBundle(laboratory.store, baseline.bundle))
    return Verdict(
        name=first.document.name,
        manifest_id=str(first.document.manifest_id),
        lock_id=str(first.document.lock_id),
        engine=first.engine_name,
        platform={
            "class": first.document.platform_class,
            "facts": dict(first.document.platform_facts),
        },
        baseline=baseline.bundle,
        results=results,
    )


def _result(laboratory: Laboratory, baseline: Digest, check: Check) -> Result:
    failures: list[Failure] = []
    for experiment in check.experiments:
        laboratory.reporter(Event("note", check.name, experiment.describe()))
        try:
            made = laboratory.make(experiment)
        except InterruptedBuildError:
            raise
        except DisError as error:
            failures.append(Failure(experiment, _said(error)))
            continue
        cache = None if made.warm is None else _cache(laboratory, made.warm, made.bundle)
        other = baseline if made.warm is None else made.warm.uncached
        found = compare(laboratory.store, other, made.bundle)
        holds = found.status["tokens"] == "identical" if check.tokens_only else found.same
        holds = holds and (cache is None or cache.comparison.same)
        answer = Result(
            name=check.name,
            answer="holds" if holds else "differs",
            experiment=experiment,
            bundle=made.bundle,
            comparison=found,
            failures=tuple(failures),
            prefix_cache=cache,
            cached=made.cached,
        )
        laboratory.reporter(Event("note", check.name, answer.answer))
        return answer
    reason = check.reason or f"it could not be done: {failures[-1].reason}"
    laboratory.reporter(Event("note", check.name, f"not run: {reason}"))
    return Result(check.name, "not run", reason=reason, failures=tuple(failures))


def _cache(laboratory: Laboratory, runs: WarmRuns, second: Digest) -> CacheFinding:
    return CacheFinding(
        uncached=runs.uncached,
        first=runs.first,
        first_cached_tokens=runs.first_cached_tokens,
        cached_tokens=runs.cached_tokens,
        comparison=compare(laboratory.store, runs.first, second),
    )


def _said(error: DisError) -> str:
    return error.what if error.cause is None else f"{error.what}: {error.cause.splitlines()[0]}"
