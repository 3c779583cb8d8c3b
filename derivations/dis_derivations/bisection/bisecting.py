"""Bisecting the differences of two runs: by experiment, and never more than are needed."""

from collections.abc import Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from dis_derivations.bisection.delta_debugging import Outcome, minimise, most_tests, usual_tests
from dis_derivations.bisection.differences import Difference, differences, locked_entries
from dis_derivations.bisection.laboratory import BudgetSpentError, Laboratory
from dis_derivations.bisection.report import Bisection, Held, Plan, PlannedExperiment, Verdict
from dis_derivations.comparison.causes.compared_runs import Runs
from dis_derivations.comparison.causes.json_changes import json_changes
from dis_derivations.comparison.causes.upstream import upstream_of
from dis_derivations.comparison.examination import Examination, examine
from dis_derivations.comparison.report import RunIdentity
from dis_derivations.comparison.rules import OBSERVABLES
from dis_derivations.engines.registry import engine_kind
from dis_derivations.graph.engine_process import engine_variables
from dis_derivations.realisation.cpu_facts import cpu_facts
from dis_derivations.runs.bundle_documents import Bundle
from dis_store.digest import Sha256
from dis_store.errors import InvalidInputError

if TYPE_CHECKING:
    from dis_store import Store

_PLATFORM = "this machine cannot change its platform"
_ENGINE = "the engines report it, and nothing that they were given differs"
_ABSENT = "files of it are not in this store: {files}"


def bisect(laboratory: Laboratory) -> Bisection:
    """Find by experiment a smallest set of differences that makes the outputs of two runs part.

    Every hybrid is an ordinary run of the store, so a bisection that was stopped goes on where it was.

    Raises:
        DisError: The first run's closure cannot be realised here at all.
        InterruptedBuildError: The user interrupted; finished experiments are kept.
    """
    sorted_out = _sort_out(laboratory)
    guilty: tuple[Difference, ...] = ()
    try:
        laboratory.baseline()
        verdict, guilty = _search(laboratory, sorted_out.variable)
        if verdict == "found" and len(guilty) < len(sorted_out.variable):
            laboratory.test(_without(sorted_out.variable, guilty))
    except BudgetSpentError:
        verdict = "found" if guilty else "budget spent"
        guilty = guilty or _smallest(laboratory, sorted_out.variable)
    repeats = None
    if laboratory.done:
        found = examine(laboratory.a, laboratory.baseline())
        repeats = _same(found, laboratory.observable)
    return _report(laboratory, sorted_out, verdict, guilty, repeats)


def plan(laboratory: Laboratory) -> Plan:
    """Return what a bisection would begin with, without building anything.

    Raises:
        DisError: The first run's closure cannot be compiled here.
    """
    sorted_out = _sort_out(laboratory)
    variable = sorted_out.variable
    half = len(variable) // 2
    first: list[Sequence[Difference]] = [(), variable]
    if len(variable) > 1:
        first += [variable[:half], variable[half:]]
    return Plan(
        a=RunIdentity.of(laboratory.a),
        b=RunIdentity.of(laboratory.b),
        observable=laboratory.observable,
        differences=_described(laboratory, variable),
        held=sorted_out.held,
        without_effect=tuple(each.name for each in sorted_out.without_effect),
        first=tuple(
            PlannedExperiment(tuple(each.name for each in taken), laboratory.is_built(taken))
            for taken in first
        ),
        usual=2 + usual_tests(len(variable)),
        most=2 + most_tests(len(variable)),
    )


def question(found: Examination, wanted: str | None) -> str:
    """Return the observable that a bisection asks about: the first in which two runs part.

    Raises:
        InvalidInputError: They do not part in it, so there is nothing to find.
    """
    parted = [name for name in OBSERVABLES if not _same(found, name)]
    if wanted is None and parted:
        return parted[0]
    if wanted in parted:
        return wanted
    what = "results" if wanted is None else wanted
    raise InvalidInputError(
        f"the {what} of the two runs are the same, so there is no cause to find",
        hint="see what differs upstream all the same: dis diff A B",
    )


class _SortedOut:
    """The differences of two runs by what can be done with them."""

    def __init__(
        self,
        variable: tuple[Difference, ...],
        without_effect: tuple[Difference, ...],
        held: tuple[Held, ...],
    ) -> None:
        self.variable = variable
        self.without_effect = without_effect
        self.held = held


def _sort_out(laboratory: Laboratory) -> _SortedOut:
    a, b, store = laboratory.a, laboratory.b, laboratory.store
    variable: list[Difference] = []
    idle: list[Difference] = []
    held: list[Held] = []
    start = laboratory.derivation(())
    for each in differences(a, b):
        absent = _absent_files(store, (a, b), each)
        if absent:
            reason = _ABSENT.format(files=", ".join(absent[:3]))
            held.append(Held(each.name, each.kind, each.changes(a, b), reason))
        elif laboratory.derivation((each,)) == start:
            idle.append(each)
        else:
            variable.append(each)
    held += held_by_machine(a, b, store, given=bool(variable))
    return _SortedOut(tuple(variable), tuple(idle), tuple(held))


def _absent_files(
    store: "Store", bundles: tuple[Bundle, Bundle], difference: Difference
) -> list[str]:
    found = (
        entry
        for bundle in bundles
        for artifact in difference.artifacts
        for entry in locked_entries(bundle, artifact)
    )
    return [str(entry.get("path")) for entry in found if not _has(store, entry)]


def _has(store: "Store", entry: Mapping[str, Any]) -> bool:
    size = entry.get("size")
    try:
        return store.has_content(
            Sha256(str(entry.get("digest"))), size if isinstance(size, int) else None
        )
    except InvalidInputError:
        return False


def held_by_machine(a: Bundle, b: Bundle, store: "Store", *, given: bool) -> Iterator[Held]:
    """Yield what differs between the machines and engines themselves."""
    for cause in upstream_of(a, b, store, packages=False).causes:
        if cause.kind == "platform":
            told = _told_by_manifests(a, b)
            changes = tuple(each for each in cause.changes if each.name not in told)
            if changes:
                yield Held("platform", "platform", changes, _PLATFORM)
        elif (
            cause.kind == "engine" and not given and not Runs.of(a, b, store).declared_of("engine")
        ):
            yield Held("engine", "engine", cause.changes, _ENGINE)


def _told_by_manifests(a: Bundle, b: Bundle) -> frozenset[str]:
    """Return the names of those platform facts that follow from variables of the manifests, which are varied.

    The caps on instructions and the number of threads are facts of the platform, and a manifest sets them.
    """
    in_a, in_b = (
        {
            "facts": {
                "cpu": cpu_facts(engine_variables(engine_kind(each.engine_name), each.manifest))
            }
        }
        for each in (a, b)
    )
    return frozenset(change.name for change in json_changes("platform", in_a, in_b))


def _search(
    laboratory: Laboratory, variable: tuple[Difference, ...]
) -> tuple[Verdict, tuple[Difference, ...]]:
    if not variable:
        return "nothing to vary", ()
    everything = laboratory.test(variable)
    if everything == "agrees":
        return "not reproduced", ()
    if everything == "unresolved":
        return "not buildable", ()
    return "found", minimise(variable, laboratory.test)


def _smallest(laboratory: Laboratory, variable: tuple[Difference, ...]) -> tuple[Difference, ...]:
    """Return the smallest set that is known to part; empty where none is."""
    known = [each.taken for each in laboratory.done if each.outcome == "parts"]
    smallest = min(known, key=len, default=())
    return tuple(each for each in variable if each.name in smallest)


def _without(
    variable: tuple[Difference, ...], guilty: tuple[Difference, ...]
) -> tuple[Difference, ...]:
    return tuple(each for each in variable if each not in guilty)


def _same(found: Examination, observable: str) -> bool:
    return found.status[observable] in ("identical", "not captured")


def _described(laboratory: Laboratory, chosen: tuple[Difference, ...]) -> tuple[Held, ...]:
    return tuple(
        Held(each.name, each.kind, each.changes(laboratory.a, laboratory.b), "") for each in chosen
    )


def _report(
    laboratory: Laboratory,
    sorted_out: _SortedOut,
    verdict: Verdict,
    guilty: tuple[Difference, ...],
    repeats: bool | None,
) -> Bisection:
    rest: Outcome | None = None
    if verdict == "found" and len(guilty) < len(sorted_out.variable):
        names = tuple(each.name for each in _without(sorted_out.variable, guilty))
        rest = next((each.outcome for each in laboratory.done if each.taken == names), None)
    return Bisection(
        a=RunIdentity.of(laboratory.a),
        b=RunIdentity.of(laboratory.b),
        observable=laboratory.observable,
        differences=_described(laboratory, sorted_out.variable),
        held=sorted_out.held,
        without_effect=tuple(each.name for each in sorted_out.without_effect),
        experiments=tuple(laboratory.done),
        verdict=verdict,
        guilty=tuple(each.name for each in guilty),
        rest=rest,
        reproduces_a=repeats,
        budget=laboratory.budget,
    )
