"""What a bisection says, as values; `to_json` is the document of `dis bisect --json`."""

from dataclasses import dataclass
from typing import Any, Literal

from dis_derivations.bisection.delta_debugging import Outcome
from dis_derivations.bisection.laboratory import Experiment
from dis_derivations.comparison.causes.json_changes import Change
from dis_derivations.comparison.report import RunIdentity

BISECTION_KIND = "vllm.deterministic_bisection"
SCHEMA_VERSION = 1

Verdict = Literal["found", "budget spent", "not reproduced", "not buildable", "nothing to vary"]


@dataclass(frozen=True)
class Held:
    """A difference as reports show it.

    Attributes:
        reason: Why it cannot be taken from one run or the other; empty where it can.
    """

    name: str
    kind: str
    changes: tuple[Change, ...]
    reason: str

    def to_json(self) -> dict[str, Any]:
        """Return the difference as a JSON object."""
        return {
            "name": self.name,
            "kind": self.kind,
            "changes": [change.to_json() for change in self.changes],
            **({"reason": self.reason} if self.reason else {}),
        }


@dataclass(frozen=True)
class PlannedExperiment:
    """An experiment that would be done.

    Attributes:
        built: Whether the store knows its result; None where there is no such run.
    """

    taken: tuple[str, ...]
    built: bool | None


@dataclass(frozen=True)
class Plan:
    """What `dis bisect --dry-run` says.

    Attributes:
        differences: What can be varied, the most likely cause first.
        held: What cannot.
        without_effect: Differences that reach nothing that a run is made of.
        first: The experiments that come first, whatever their outcomes.
        usual: About how many experiments one guilty difference takes.
        most: How many it can be at most.
    """

    a: RunIdentity
    b: RunIdentity
    observable: str
    differences: tuple[Held, ...]
    held: tuple[Held, ...]
    without_effect: tuple[str, ...]
    first: tuple[PlannedExperiment, ...]
    usual: int
    most: int

    def to_json(self) -> dict[str, Any]:
        """Return the plan as a JSON document."""
        return {
            **_head(self),
            "dry_run": True,
            "first_experiments": [
                {"from_b": list(each.taken), "cached": each.built} for each in self.first
            ],
            "usual_experiments": self.usual,
            "most_experiments": self.most,
        }


@dataclass(frozen=True)
class Bisection:
    """The answer to `dis bisect`.

    Attributes:
        observable: What was asked about.
        differences: What was varied, the most likely cause first.
        experiments: All of them, in order; the first takes nothing from B.
        verdict: `found`; `budget spent`; `not reproduced`: with all of B's differences the outputs are those of A;
            `not buildable`: B cannot be built here; `nothing to vary`.
        guilty: The differences that together make the outputs part. With `budget spent` the smallest set known to.
        rest: What all other differences do without the guilty ones; None where that was not asked.
        reproduces_a: Whether A's closure, realised here, gave A's outputs; None where it was not realised.
        budget: How many generations could be built.
    """

    a: RunIdentity
    b: RunIdentity
    observable: str
    differences: tuple[Held, ...]
    held: tuple[Held, ...]
    without_effect: tuple[str, ...]
    experiments: tuple[Experiment, ...]
    verdict: Verdict
    guilty: tuple[str, ...]
    rest: Outcome | None
    reproduces_a: bool | None
    budget: int | None

    @property
    def found(self) -> bool:
        """Whether there is an answer: exit code 0 of `dis bisect`, else 1."""
        return self.verdict == "found"

    @property
    def built(self) -> int:
        """How many generations were built for it."""
        return sum(not each.cached for each in self.experiments)

    def to_json(self) -> dict[str, Any]:
        """Return the whole report."""
        return {
            **_head(self),
            "verdict": self.verdict,
            "guilty": list(self.guilty),
            "rest": self.rest,
            "reproduces_a": self.reproduces_a,
            "budget": self.budget,
            "built": self.built,
            "experiments": [
                {
                    "from_b": list(each.taken),
                    "outcome": each.outcome,
                    "cached": each.cached,
                    "bundle": None if each.bundle is None else str(each.bundle),
                    "detail": each.detail,
                }
                for each in self.experiments
            ],
        }


def _head(report: Plan | Bisection) -> dict[str, Any]:
    return {
        "schema_version": SCHEMA_VERSION,
        "kind": BISECTION_KIND,
        "a": report.a.to_json(),
        "b": report.b.to_json(),
        "observable": report.observable,
        "differences": [each.to_json() for each in report.differences],
        "held": [each.to_json() for each in report.held],
        "without_effect": list(report.without_effect),
    }
