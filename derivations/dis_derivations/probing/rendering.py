"""A verdict, and the plan of a probe, as text for a terminal.

A verdict is rendered from its document, so that what the store keeps is shown in the same way as what was just found.
"""

from collections.abc import Mapping, Sequence
from typing import Any

from dis_derivations.comparison.diff import MOCK_NOTE
from dis_derivations.comparison.text_layout import count, heading, paragraph, printable, table
from dis_derivations.engines.registry import MOCK
from dis_derivations.probing.experiment import described
from dis_derivations.probing.probe import PlannedCheck, ProbePlan

_ANSWERS = {"holds": "holds", "differs": "DIFFERS", "not run": "not run"}
_DIGITS = 12


def render_verdict(document: Mapping[str, Any]) -> str:
    """Return a verdict as a table: what holds, and where the others part first."""
    checks = document["checks"]
    made = [check for check in checks if check["answer"] != "not run"]
    differing = [check for check in made if check["answer"] == "differs"]
    name, baseline = printable(document["name"]), document["baseline"][:_DIGITS]
    lines = [f"{name}  baseline {baseline}  engine {printable(document['engine'])}"]
    if document["engine"] == MOCK.name:
        lines += paragraph(MOCK_NOTE)
    lines += heading(_title(len(made), len(differing)))
    lines += table(
        [[check["check"], _ANSWERS[check["answer"]], _finding(check)] for check in checks]
    )
    if made:
        lines += heading("What was done")
        lines += table([[check["check"], _described(check["experiment"])] for check in made])
    failed = [
        [check["check"], f"{_described(each['experiment'])}: {printable(each['reason'])}"]
        for check in made
        for each in check["failed_experiments"]
    ]
    if failed:
        lines += [*heading("What could not be done"), *table(failed)]
    return "\n".join([*lines, ""])


def render_plan(plan: ProbePlan) -> str:
    """Return what would be done."""
    known = _state(known=plan.baseline_known)
    lines = [f"{printable(plan.name)}  baseline {known}"]
    if plan.locks:
        lines += paragraph("the manifest would be locked first")
    lines += heading("Checks")
    lines += table([_plan_row(each) for each in plan.checks])
    return "\n".join([*lines, ""])


def _title(made: int, differing: int) -> str:
    if not made:
        return "NO CHECK could be made"
    if differing:
        return f"{differing} of {count(made, 'check')} DIFFER" + ("S" if differing == 1 else "")
    return f"All {made} checks that were made hold" if made > 1 else "The check that was made holds"


def _finding(check: Mapping[str, Any]) -> str:
    comparison = check["comparison"]
    if comparison is None:
        return printable(check["reason"] or "")
    said = [_difference(comparison)]
    if (cache := check.get("prefix_cache")) is not None:
        taken, before = cache["cached_tokens"], cache["first_cached_tokens"]
        said.append(f"{count(taken, 'position')} from the cache, {before} before it was warm")
        said.append(f"against its first answers: {_difference(cache['comparison'])}")
    return "; ".join(said)


def _difference(comparison: Mapping[str, Any]) -> str:
    said = [_tokens(comparison)]
    tensors = comparison["first_tensor_divergence"]
    if tensors is not None:
        where = "" if tensors["request_id"] is None else f" of {printable(tensors['request_id'])}"
        said.append(
            f"{tensors['observable']} from {printable(tensors['part'])} row {tensors['row']}{where}"
        )
    if comparison["largest_logit_error"] is not None:
        said.append(f"largest logit error {_number(comparison['largest_logit_error'])}")
    elif comparison["observables"].get("logits") == "identical":
        said.append("logits identical")
    return "; ".join(said)


def _number(value: float | str) -> str:
    return value if isinstance(value, str) else f"{value:.6g}"


def _tokens(comparison: Mapping[str, Any]) -> str:
    parting = comparison["first_token_divergence"]
    if parting is None:
        status = comparison["observables"]["tokens"]
        return "tokens identical" if status == "identical" else "other requests"
    choice = f", {parting['choice']}" if parting["choice"] else ""
    tokens = f"{_token(parting['token_a'])} → {_token(parting['token_b'])}"
    return (
        f"tokens of {comparison['parted']} of {count(comparison['sequences'], 'sequence')}, first "
        f"{printable(parting['request_id'])} at {parting['position']} ({tokens}{choice})"
    )


def _token(token: int | None) -> str:
    return "end" if token is None else str(token)


def _described(experiment: Mapping[str, Any]) -> str:
    return printable(described(experiment))


def _plan_row(check: PlannedCheck) -> Sequence[str]:
    if check.experiment is None:
        return [check.name, "not run", printable(check.reason)]
    return [check.name, _state(known=check.known), printable(check.experiment.describe())]


def _state(*, known: bool | None) -> str:
    if known is None:
        return "not known yet"
    return "known" if known else "must be built"
