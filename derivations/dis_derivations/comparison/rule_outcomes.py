"""Whether each observable of two runs passes its rules."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from hashlib import sha256
from typing import Literal

from dis_derivations.comparison.examination import Examination
from dis_derivations.comparison.rules import OBSERVABLES, Rule
from dis_derivations.runs.bundle_documents import CAPTURE_FILES, Bundle
from dis_store import canonical_json

Outcome = Literal["passed", "failed", "not compared"]
_CHUNK_BYTES = 1 << 20


@dataclass(frozen=True)
class RuleOutcome:
    """How one observable fared.

    Attributes:
        rules: Those it had to pass, every one.
        outcome: `not compared` is no pass: neither run was asked for this observable.
        reason: Why it is not `passed`; None when it is.
        hashes: A's and B's SHA-256, where the rule `hash` asked for them and the file is there.
    """

    observable: str
    rules: tuple[Rule, ...]
    outcome: Outcome
    reason: str | None = None
    hashes: tuple[str, str] | None = None


def judge(found: Examination, rules: Mapping[str, Sequence[Rule]]) -> tuple[RuleOutcome, ...]:
    """Return the outcome of each observable, in the order of `OBSERVABLES`.

    Args:
        found: The examination, made with the same rules.
        rules: By observable, all that it must pass.
    """
    return tuple(_judge(found, name, tuple(rules[name])) for name in OBSERVABLES)


def _judge(found: Examination, name: str, rules: tuple[Rule, ...]) -> RuleOutcome:
    if (missing := _missing_evidence(found, name)) is not None:
        return RuleOutcome(name, rules, *missing)
    hashes = None
    reason = _difference(found, name, rules)
    if any(rule.rule == "hash" for rule in rules):
        hashes = _hashes(found, name)
        if reason is None and hashes is not None and hashes[0] != hashes[1]:
            reason = "the hashes differ"
    return RuleOutcome(name, rules, "passed" if reason is None else "failed", reason, hashes)


def _missing_evidence(found: Examination, name: str) -> tuple[Outcome, str] | None:
    """Return what follows from a capture that is not there; None when both runs have it.

    A capture that only one run has, or that a manifest asks for and no run has, fails: what cannot be compared has not
    been shown to be equal.
    """
    status = found.status[name]
    if status == "only in A":
        return "failed", "not captured in B"
    if status == "only in B":
        return "failed", "not captured in A"
    if status.startswith("left out"):
        return "failed", f"{status}, and what is there is not known to be the same file"
    if status != "not captured":
        return None
    if found.a.asked_for(name) or found.b.asked_for(name):
        return "failed", "not captured, although a manifest asks for it"
    return "not compared", "neither run was asked to capture it"


def _difference(found: Examination, name: str, rules: Sequence[Rule]) -> str | None:
    """Return what keeps an observable that both runs have from passing; None when nothing does."""
    if name == "tokens":
        return _token_difference(found)
    if name == "engine_trace":
        trace = found.trace
        first = None if trace is None else trace.first
        return None if first is None else f"the engines' steps differ from step {first} on"
    comparison = found.tensors[name]
    if all(rule.is_numeric for rule in rules):
        if comparison.total.outside:
            total = comparison.total
            return f"{total.outside} of {total.compared} elements are outside the tolerance"
        missing = next((each for each in comparison.different if each.uncompared), None)
        return None if missing is None else f"{missing.name} is not comparable: {missing.reason}"
    first_tensor = comparison.first
    return None if first_tensor is None else f"{first_tensor.name} differs"


def _token_difference(found: Examination) -> str | None:
    alignment = found.alignment
    if alignment.only_a or alignment.only_b:
        return (
            f"requests are missing: {len(alignment.only_b)} in A, {len(alignment.only_a)} in B; "
            f"{len(alignment.parted)} of {len(alignment.pairs)} others differ"
        )
    if alignment.parted:
        return f"{len(alignment.parted)} of {len(alignment.pairs)} sequences differ"
    return None


def _hashes(found: Examination, name: str) -> tuple[str, str] | None:
    """Return both hashes; of what was left out and is known to be one file, that of the side that has it."""
    sides = [each for each in (found.a, found.b) if each.has(name)]
    if not sides:
        return None
    hashes = [_hash(each, name) for each in sides]
    return hashes[0], hashes[-1]


def _hash(bundle: Bundle, name: str) -> str:
    if name == "tokens":
        answers = [
            {"id": sequence.id, "output_token_ids": list(sequence.output_token_ids)}
            for sequence in bundle.sequences
        ]
        return str(canonical_json.sha256(answers))
    hasher = sha256()
    with bundle.reader.open(CAPTURE_FILES[name]) as stream:
        while chunk := stream.read(_CHUNK_BYTES):
            hasher.update(chunk)
    return f"sha256:{hasher.hexdigest()}"
