"""What `dis verify` says: one grade, and everything beside it."""

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

from dis_derivations.comparison.causes.upstream import Upstream
from dis_derivations.comparison.examination import Examination
from dis_derivations.comparison.report import RunIdentity
from dis_derivations.comparison.report_json import tensors_json, trace_json
from dis_derivations.comparison.rule_outcomes import RuleOutcome
from dis_derivations.comparison.sequences import SequencePair

VERIFY_KIND = "vllm.determinism_verify_report"
SCHEMA_VERSION = 1

Grade = Literal[
    "non_conformant_hardware", "non_conformant_software", "mismatch_outputs", "conformant"
]


@dataclass(frozen=True)
class HardwareFinding:
    """Whether both runs met their manifests' hardware constraints, on machines that are alike.

    Attributes:
        applies: False when both runs are of platform `any`, whose results no machine can change.
        same_platform: Whether class and measured facts are the same.
    """

    applies: bool
    conformant_a: bool
    conformant_b: bool
    reasons_a: tuple[str, ...]
    reasons_b: tuple[str, ...]
    same_platform: bool

    @property
    def conforms(self) -> bool:
        """Whether hardware is no reason against the runs."""
        conformant = self.conformant_a and self.conformant_b
        return self.same_platform and (conformant or not self.applies)

    def to_json(self) -> dict[str, Any]:
        """Return the finding as a JSON object."""
        return {
            "constraints_apply": self.applies,
            "a": {"conformant": self.conformant_a, "reasons": list(self.reasons_a)},
            "b": {"conformant": self.conformant_b, "reasons": list(self.reasons_b)},
            "same_platform": self.same_platform,
        }


@dataclass(frozen=True)
class VerifyReport:
    """The answer to `dis verify`.

    Attributes:
        outcomes: By observable, whether its rules were passed.
        environment: What of the surroundings is the same.
        upstream: All causes, whatever the grade.
        notes: What a reader must not miss.
    """

    a: RunIdentity
    b: RunIdentity
    grade: Grade
    examination: Examination
    outcomes: tuple[RuleOutcome, ...]
    hardware: HardwareFinding
    environment: Mapping[str, bool]
    upstream: Upstream
    notes: tuple[str, ...]

    @property
    def conformant(self) -> bool:
        """Whether the answer is yes: exit code 0 of `dis verify`, else 1."""
        return self.grade == "conformant"

    @property
    def outputs_identical(self) -> bool:
        """Whether every captured bit is the same, whatever grade the runs have."""
        return self.examination.same

    def to_json(self) -> dict[str, Any]:
        """Return the whole report; equal reports give equal documents."""
        return {
            "schema_version": SCHEMA_VERSION,
            "kind": VERIFY_KIND,
            "grade": self.grade,
            "outputs_identical": self.outputs_identical,
            "bundle_a": self.a.to_json(),
            "bundle_b": self.b.to_json(),
            "comparisons": {
                outcome.observable: _comparison_json(outcome, self.examination)
                for outcome in self.outcomes
            },
            "hardware": self.hardware.to_json(),
            "environment_diffs": dict(self.environment),
            "causes": [cause.to_json() for cause in self.upstream.causes],
            "provenance": [cause.to_json() for cause in self.upstream.provenance],
            "notes": list(self.notes),
        }


def write_report(
    report: VerifyReport, directory: Path, *, replace: bool = False
) -> tuple[Path, Path]:
    """Write `verify_report.json` and `verify_summary.txt` into a directory, which is made if need be.

    A report takes the place of an earlier one.

    Args:
        report: The report.
        directory: Where both files go.
        replace: Whether they may take the place of anything else.

    Returns:
        The paths of both files.

    Raises:
        OutputExistsError: There is a file that is no report.
        UnfitEnvironmentError: They cannot be written.
    """
    import json

    from dis_derivations.comparison.render_verify import render_verify
    from dis_derivations.runs.output_file import write_file

    text = json.dumps(
        report.to_json(), indent=2, sort_keys=True, ensure_ascii=False, allow_nan=False
    )
    document, summary = directory / "verify_report.json", directory / "verify_summary.txt"
    # The summary of a report lies beside it, and goes with it.
    over = replace or _is_report(document)
    write_file(document, f"{text}\n".encode(), replace=over)
    write_file(summary, render_verify(report).encode(), replace=over)
    return document, summary


def _is_report(path: Path) -> bool:
    """Tell whether a file says that it is the report of a verification."""
    from dis_store import strict_json
    from dis_store.errors import InvalidInputError

    try:
        document = strict_json.decode(path.read_bytes(), name=str(path))
    except (OSError, InvalidInputError):
        return False
    return isinstance(document, dict) and document.get("kind") == VERIFY_KIND


def _comparison_json(outcome: RuleOutcome, found: Examination) -> dict[str, Any]:
    result: dict[str, Any] = {
        "outcome": outcome.outcome,
        "status": found.status[outcome.observable],
        "rules": [rule.to_json() for rule in outcome.rules],
        "reason": outcome.reason,
    }
    if outcome.hashes is not None:
        result |= {"hash_a": outcome.hashes[0], "hash_b": outcome.hashes[1]}
    if outcome.observable == "tokens":
        return {**result, **_tokens_json(found)}
    if outcome.observable == "engine_trace":
        return {**result, **(trace_json(found) or {})}
    if (comparison := found.tensors.get(outcome.observable)) is not None:
        outside = {"elements_outside_rules": comparison.total.outside}
        return {**result, **outside, **tensors_json(comparison)}
    return result


def _tokens_json(found: Examination) -> dict[str, Any]:
    alignment = found.alignment
    first = alignment.first
    return {
        "exact_match": alignment.same_tokens,
        "mismatched_sequences": len(alignment.parted),
        "missing_in_a": list(alignment.only_b),
        "missing_in_b": list(alignment.only_a),
        "first_divergence": None if first is None else _divergence_json(first),
        "counts": {
            "sequences_a": len(found.a.sequences),
            "sequences_b": len(found.b.sequences),
            "compared": len(alignment.pairs),
            "tokens_a": sum(len(sequence.output_token_ids) for sequence in found.a.sequences),
            "tokens_b": sum(len(sequence.output_token_ids) for sequence in found.b.sequences),
        },
    }


def _divergence_json(pair: SequencePair) -> dict[str, Any]:
    return {
        "request_id": pair.a.id,
        "token_step": pair.output_common,
        "field": "output_token_ids",
        "token_a": pair.token_a,
        "token_b": pair.token_b,
    }
