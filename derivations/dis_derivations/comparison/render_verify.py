"""The grade of a reproduction as text: `verify_summary.txt`."""

from dis_derivations.comparison.render_text import identities, notes
from dis_derivations.comparison.rule_outcomes import RuleOutcome
from dis_derivations.comparison.text_layout import causes, heading, paragraph, table
from dis_derivations.comparison.verify_report import VerifyReport


def render_verify(report: VerifyReport) -> str:
    """Return the report as text, without colour."""
    identical = "yes" if report.outputs_identical else "no"
    lines = [
        f"Grade: {report.grade}",
        f"Outputs identical, bit for bit: {identical}",
        "",
        *identities(report.a, report.b),
        *heading("Observables"),
        *table([_row(outcome) for outcome in report.outcomes]),
        *_hardware(report),
        *heading("The same in both"),
        *table(
            [
                [name.removesuffix("_match").replace("_", " "), "yes" if same else "NO"]
                for name, same in report.environment.items()
            ]
        ),
    ]
    if report.upstream.causes:
        lines += heading("Causes (the most likely to change bits first)")
        lines += causes(report.upstream.causes, numbered=True)
    if report.upstream.provenance:
        lines += heading("Different, but no reason (provenance)")
        lines += causes(report.upstream.provenance, numbered=False)
    return "\n".join([*lines, *notes(report.notes), ""])


def _row(outcome: RuleOutcome) -> list[str]:
    rules = " and ".join(rule.describe() for rule in outcome.rules)
    return [outcome.observable, rules, outcome.outcome, outcome.reason or ""]


def _hardware(report: VerifyReport) -> list[str]:
    found = report.hardware
    lines: list[str] = []
    for label, conformant, reasons in (
        ("A", found.conformant_a, found.reasons_a),
        ("B", found.conformant_b, found.reasons_b),
    ):
        if not conformant and found.applies:
            said = "; ".join(reasons) or "no reason was recorded"
            lines += paragraph(f"{label} does not meet its constraints: {said}", 2, 2)
    if not found.same_platform:
        lines += paragraph("the platforms of A and B differ")
    return [*heading("Hardware"), *lines] if lines else []
