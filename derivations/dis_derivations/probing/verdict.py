"""What a probe found, as values; `to_json` is the document that is kept in the store."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Literal

from dis_derivations.comparison.report_json import integer_json, number_json
from dis_derivations.probing.checks import QUESTIONS
from dis_derivations.probing.experiment import CheckName, Experiment
from dis_store.digest import Digest

PROBE_KIND = "vllm.deterministic_probe"
SCHEMA_VERSION = 1

Answer = Literal["holds", "differs", "not run"]


@dataclass(frozen=True)
class Parting:
    """The first place where the tokens of two runs part.

    Attributes:
        request: The request's id.
        position: The place in its output, from 0.
        a: The token of the first run; None where it has ended.
        b: The token of the other one; None where it has ended.
        choice: How close the choice was (`exact tie`, `near tie`, `real change`, …); None where that is not known.
    """

    request: str
    position: int
    a: int | None
    b: int | None
    choice: str | None

    def to_json(self) -> dict[str, Any]:
        """Return the place as a JSON object."""
        return {
            "request_id": self.request,
            "position": self.position,
            "token_a": self.a,
            "token_b": self.b,
            "choice": self.choice,
        }


@dataclass(frozen=True)
class TensorParting:
    """The first element in which a captured observable differs.

    Attributes:
        observable: `logits` or `activations`.
        request: The request's id.
        part: `prefill`, `decode`, or with a layer.
        row: The position.
    """

    observable: str
    request: str | None
    part: str
    row: int

    def to_json(self) -> dict[str, Any]:
        """Return the place as a JSON object."""
        return {
            "observable": self.observable,
            "request_id": self.request,
            "part": self.part,
            "row": self.row,
        }


@dataclass(frozen=True)
class StepError:
    """The largest difference of two logits at one position of the output, over all sequences; None for none."""

    position: int
    largest: float | None


@dataclass(frozen=True)
class Comparison:
    """A run held against the first one.

    Attributes:
        status: By observable; the trace of the batches is none of them, since batches are what is varied.
        sequences: How many there are.
        positions: How many positions of the output some sequence has in both runs after the same tokens.
        parted: How many of them have other tokens.
        tokens: Where tokens part first; None where they do not.
        tensors: Where captured numbers part first; None where they do not.
        largest_error: The largest difference of two logits that answer the same question.
        largest_ulp: The largest distance of two such, in steps of their number format.
        errors: Position by position, from the first where logits differ.
    """

    status: Mapping[str, str]
    sequences: int
    positions: int
    parted: int = 0
    tokens: Parting | None = None
    tensors: TensorParting | None = None
    largest_error: float | None = None
    largest_ulp: int | None = None
    errors: tuple[StepError, ...] = ()

    @property
    def same(self) -> bool:
        """Whether every captured bit is the same."""
        return all(status in {"identical", "not captured"} for status in self.status.values())

    def to_json(self) -> dict[str, Any]:
        """Return the comparison as a JSON object."""
        return {
            "observables": dict(self.status),
            "sequences": self.sequences,
            "positions": self.positions,
            "parted": self.parted,
            "first_token_divergence": None if self.tokens is None else self.tokens.to_json(),
            "first_tensor_divergence": None if self.tensors is None else self.tensors.to_json(),
            "largest_logit_error": number_json(self.largest_error),
            "largest_logit_ulp": integer_json(self.largest_ulp),
            "logit_error": [
                {"position": each.position, "largest": number_json(each.largest)}
                for each in self.errors
            ],
        }


@dataclass(frozen=True)
class CacheFinding:
    """What the check of a warm prefix cache found beside its comparison with the run that has no cache.

    Attributes:
        uncached: That run: the first one, or one with other settings where the check needs them.
        first: The bundle of the answers before the cache was warm, of the same engine.
        first_cached_tokens: How many positions those took from the cache.
        cached_tokens: How many the second answers took.
        comparison: How the second answers differ from the first.
    """

    uncached: Digest
    first: Digest
    first_cached_tokens: int
    cached_tokens: int
    comparison: Comparison

    def to_json(self) -> dict[str, Any]:
        """Return the finding as a JSON object."""
        return {
            "uncached_bundle": str(self.uncached),
            "first_bundle": str(self.first),
            "first_cached_tokens": self.first_cached_tokens,
            "cached_tokens": self.cached_tokens,
            "comparison": self.comparison.to_json(),
        }


@dataclass(frozen=True)
class Failure:
    """An experiment that this machine could not do, and why."""

    experiment: Experiment
    reason: str


@dataclass(frozen=True)
class Result:
    """The answer to one check.

    Attributes:
        reason: Why it was not made; empty for one that was.
        experiment: What was done; None where nothing was.
        bundle: The run of the experiment.
        comparison: How that differs from the first run; for a warm prefix cache, from the run without one.
        prefix_cache: What is known of a warm prefix cache beside that; None for any other check.
        failures: Experiments that were tried before and could not be done.
        cached: Whether nothing was generated for it. Not part of what is kept.
    """

    name: CheckName
    answer: Answer
    reason: str = ""
    experiment: Experiment | None = None
    bundle: Digest | None = None
    comparison: Comparison | None = None
    prefix_cache: CacheFinding | None = None
    failures: tuple[Failure, ...] = ()
    cached: bool = False

    def to_json(self) -> dict[str, Any]:
        """Return the result as a JSON object."""
        return {
            "check": self.name,
            "question": QUESTIONS[self.name],
            "answer": self.answer,
            "reason": self.reason or None,
            "experiment": None if self.experiment is None else self.experiment.to_json(),
            "failed_experiments": [
                {"experiment": each.experiment.to_json(), "reason": each.reason}
                for each in self.failures
            ],
            "bundle": None if self.bundle is None else str(self.bundle),
            "comparison": None if self.comparison is None else self.comparison.to_json(),
            "prefix_cache": None if self.prefix_cache is None else self.prefix_cache.to_json(),
        }


@dataclass(frozen=True)
class Verdict:
    """The answers to all checks of a manifest.

    Attributes:
        name: The manifest's.
        engine: Which engine ran.
        platform: The class and the facts of the machine, as far as they count.
        baseline: The bundle of the run that the others were compared with.
    """

    name: str
    manifest_id: str
    lock_id: str
    engine: str
    platform: Mapping[str, Any]
    baseline: Digest
    results: tuple[Result, ...]

    @property
    def made(self) -> tuple[Result, ...]:
        """The checks that were made."""
        return tuple(each for each in self.results if each.answer != "not run")

    @property
    def holds(self) -> bool:
        """Whether some check was made, and none differs."""
        return bool(self.made) and all(each.answer == "holds" for each in self.made)

    def to_json(self) -> dict[str, Any]:
        """Return the document; equal verdicts give equal documents, and nothing in it is of a certain time or host."""
        return {
            "schema_version": SCHEMA_VERSION,
            "kind": PROBE_KIND,
            "name": self.name,
            "manifest_id": self.manifest_id,
            "lock_id": self.lock_id,
            "engine": self.engine,
            "platform": dict(self.platform),
            "baseline": str(self.baseline),
            "holds": self.holds,
            "checks": [each.to_json() for each in self.results],
        }
