"""The grade of a reproduction: do two runs count as the same, by the rules of their manifests."""

from collections.abc import Mapping

from dis_derivations.comparison.causes.upstream import Upstream, upstream_of
from dis_derivations.comparison.diff import (
    experiment_notes,
    is_mock,
    notes,
    server_departures,
)
from dis_derivations.comparison.examination import Examination, examine
from dis_derivations.comparison.report import RunIdentity
from dis_derivations.comparison.rule_outcomes import RuleOutcome, judge
from dis_derivations.comparison.rules import OBSERVABLES, Rule, combined, rules_of_manifest
from dis_derivations.comparison.verify_report import Grade, HardwareFinding, VerifyReport
from dis_derivations.runs.bundle import CONSTRAINTS_DO_NOT_APPLY
from dis_derivations.runs.bundle_documents import Bundle, load_bundle
from dis_derivations.runs.bundle_reader import BundleReader, ObjectFiles

# These cannot change a result that both runs were able to give, so they do not make software non-conformant.
_NOT_SOFTWARE = frozenset({"platform", "capture"})


def verify_bundles(
    a: BundleReader,
    b: BundleReader,
    *,
    rules: Mapping[str, Rule] | None = None,
    store: ObjectFiles | None = None,
) -> VerifyReport:
    """Grade two runs against each other.

    Where the manifests of A and B have different rules for an observable, it must pass both.

    Args:
        a: One run.
        b: The other.
        rules: By observable, rules to use in place of the manifests'; an observable left out is compared exactly.
        store: Where objects that the bundles name may be; it makes the list of causes finer, never the grade.

    Raises:
        InvalidInputError: One is no bundle, or a manifest has a rule that dis does not know.
        IntegrityError: An object of the store contradicts itself.
    """
    left, right = load_bundle(a), load_bundle(b)
    rules_a, rules_b = (
        {name: (rules or {}).get(name, Rule()) for name in OBSERVABLES}
        if rules is not None
        else rules_of_manifest(run.manifest)
        for run in (left, right)
    )
    applied = {name: combined((rules_a[name], rules_b[name])) for name in OBSERVABLES}
    found = examine(left, right, applied)
    # A grade does not ask for packages: `dis diff` tells them.
    upstream = upstream_of(left, right, store, packages=False)
    outcomes = judge(found, applied)
    hardware = _hardware(left, right)
    return VerifyReport(
        a=RunIdentity.of(left),
        b=RunIdentity.of(right),
        grade=_grade(found, upstream, outcomes, hardware),
        examination=found,
        outcomes=outcomes,
        hardware=hardware,
        environment=_environment(left, right, upstream, same_rules=rules_a == rules_b),
        upstream=upstream,
        notes=(*notes(found, upstream), *_notes(found, outcomes, hardware)),
    )


def _grade(
    found: Examination,
    upstream: Upstream,
    outcomes: tuple[RuleOutcome, ...],
    hardware: HardwareFinding,
) -> Grade:
    """Return the first grade that applies, in the order of docs/guides/comparing-runs.md."""
    if not hardware.conforms:
        return "non_conformant_hardware"
    if not _same_software(found, upstream) or any(map(_is_no_evidence, (found.a, found.b))):
        return "non_conformant_software"
    if any(outcome.outcome == "failed" for outcome in outcomes):
        return "mismatch_outputs"
    return "conformant"


def _is_no_evidence(run: Bundle) -> bool:
    """Whether a run shows nothing about its manifest and lock, whatever came out of it."""
    departs = server_departures(run) or experiment_notes(run)
    return is_mock(run) or not _was_verified(run) or bool(departs)


def _was_verified(run: Bundle) -> bool:
    return run.document.unverified is None


def _same_software(found: Examination, upstream: Upstream) -> bool:
    """Whether closure, requests and effective settings are the same, whatever the manifests say of them."""
    a, b = found.a.document, found.b.document
    return (
        a.inputs.get("closure") is not None
        and a.inputs.get("closure") == b.inputs.get("closure")
        and a.requests_digest == b.requests_digest
        and all(cause.kind in _NOT_SOFTWARE for cause in upstream.causes)
    )


def _hardware(a: Bundle, b: Bundle) -> HardwareFinding:
    anywhere = a.document.platform_class == b.document.platform_class == "any"
    return HardwareFinding(
        applies=not anywhere,
        conformant_a=a.document.conformant,
        conformant_b=b.document.conformant,
        reasons_a=a.document.reasons,
        reasons_b=b.document.reasons,
        same_platform=a.document.platform_class == b.document.platform_class
        and dict(a.document.platform_facts) == dict(b.document.platform_facts),
    )


def _environment(a: Bundle, b: Bundle, upstream: Upstream, *, same_rules: bool) -> dict[str, bool]:
    left, right = a.document, b.document
    return {
        "runtime_closure_digest_match": left.inputs.get("closure") == right.inputs.get("closure"),
        "requests_digest_match": left.requests_digest == right.requests_digest,
        "engine_settings_match": not (upstream.has("engine") or upstream.has("batching")),
        "hardware_fingerprint_match": not upstream.has("platform"),
        "manifest_id_match": left.manifest_id == right.manifest_id,
        "lock_id_match": left.lock_id == right.lock_id,
        "compare_rules_match": same_rules,
    }


def _notes(
    found: Examination, outcomes: tuple[RuleOutcome, ...], hardware: HardwareFinding
) -> tuple[str, ...]:
    said: list[str] = []
    if is_mock(found.a) or is_mock(found.b):
        said.append("a mock run is never evidence: the grade is at best non_conformant_software")
    if not (_was_verified(found.a) and _was_verified(found.b)):
        said.append(
            "a run whose digests were not verified is never conformant: "
            "the grade is at best non_conformant_software"
        )
    if not hardware.applies:
        said.append(CONSTRAINTS_DO_NOT_APPLY)
    for outcome in outcomes:
        if outcome.observable in ("tokens", "engine_trace") and any(
            rule.is_numeric for rule in outcome.rules
        ):
            said.append(f"{outcome.observable} are not numbers; they are compared exactly")
        if len(outcome.rules) > 1:
            both = " and ".join(rule.describe() for rule in outcome.rules)
            said.append(
                f"the manifests have different rules for {outcome.observable}; both must pass: {both}"
            )
        if outcome.outcome == "not compared":
            said.append(f"{outcome.observable}: not compared, {outcome.reason}")
    if found.same and any(outcome.outcome == "failed" for outcome in outcomes):
        said.append("every captured bit is the same; what failed was asked for and is missing")
    return tuple(said)
