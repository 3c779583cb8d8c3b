"""What a comparison says of which at least one run was made by the older tool."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Literal

from dis_derivations.comparison.causes.json_changes import Change
from dis_derivations.comparison.causes.manifest_changes import ManifestChange
from dis_derivations.comparison.divergence import Divergence, earliest
from dis_derivations.comparison.older.side import Side
from dis_derivations.comparison.report_json import divergence_json, sequences_json
from dis_derivations.comparison.sequences import Alignment

OLDER_DIFF_KIND = "vllm.deterministic_older_run_diff"
SCHEMA_VERSION = 1

Finding = Literal["identical", "differ", "only in A", "only in B", "unknown"]
Standing = Literal["identical", "differ", "declared alike", "unknown"]
Verdict = Literal["the same", "different", "not shown to be the same"]


@dataclass(frozen=True)
class Observed:
    """An observable of both runs.

    Attributes:
        finding: `unknown` where a run does not hold it, which is never taken for equal.
        account: How much of it, or why it is unknown.
    """

    finding: Finding
    account: str


@dataclass(frozen=True)
class Subject:
    """Something upstream.

    Attributes:
        name: What it is.
        standing: `declared alike` where both say the same, and nothing shows that it is true of both.
        account: Why it is no more than declared, or unknown.
        changes: What differs.
    """

    name: str
    standing: Standing
    account: str
    changes: tuple[Change, ...] = ()

    def to_json(self) -> dict[str, Any]:
        """Return the subject as a JSON object."""
        return {
            "subject": self.name,
            "standing": self.standing,
            "account": self.account,
            "changes": [change.to_json() for change in self.changes],
        }


@dataclass(frozen=True)
class OlderReport:
    """The answer to `dis diff` where a run is of the older tool.

    Attributes:
        observed: By observable.
        alignment: The sequences, matched.
        divergences: Where outputs part, sequence by sequence; the first of many.
        subjects: What is known of what both were made of.
        manifest: The manifest fields that differ, of those that can change a result.
        notes: What a reader must not miss.
    """

    a: Side
    b: Side
    observed: Mapping[str, Observed]
    alignment: Alignment
    divergences: tuple[Divergence, ...]
    subjects: tuple[Subject, ...]
    manifest: tuple[ManifestChange, ...]
    notes: tuple[str, ...]

    @property
    def verdict(self) -> Verdict:
        """What can be said of the results: of what one run alone holds, nothing is shown."""
        findings = {name: each.finding for name, each in self.observed.items()}
        if not self.alignment.same_tokens:
            return "different"
        if any(finding.startswith("only") for finding in findings.values()):
            return "not shown to be the same"
        return "the same"

    @property
    def same(self) -> bool:
        """Whether the results are the same: exit code 0 of `dis diff`, else 1."""
        return self.verdict == "the same"

    def answer(self, *, strict: bool) -> bool:
        """Return the verdict that makes the exit code; `strict` asks for one and the same run."""
        one = (self.a.tool, self.a.run_id) == (self.b.tool, self.b.run_id)
        return self.same and (one or not strict)

    def to_json(self) -> dict[str, Any]:
        """Return the whole report; equal reports give equal documents."""
        described = [divergence_json(each) for each in self.divergences]
        first = earliest(self.divergences)
        return {
            "schema_version": SCHEMA_VERSION,
            "kind": OLDER_DIFF_KIND,
            "a": self.a.to_json(),
            "b": self.b.to_json(),
            "same": self.same,
            "verdict": self.verdict,
            "observables": {
                name: {"status": each.finding, "account": each.account}
                for name, each in self.observed.items()
            },
            "sequences": sequences_json(self.alignment),
            "first_divergence": None if first is None else divergence_json(first),
            "divergences": described,
            "upstream": [subject.to_json() for subject in self.subjects],
            "manifest_changes": [
                {**each.change.to_json(), "kind": each.kind} for each in self.manifest
            ],
            "notes": list(self.notes),
        }
