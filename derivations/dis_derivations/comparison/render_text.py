"""A comparison of two runs as text for a terminal."""

from collections.abc import Mapping

from dis_derivations.comparison.causes.json_changes import Change
from dis_derivations.comparison.divergence import Choice, Divergence, SideLogits, Token
from dis_derivations.comparison.examination import Examination
from dis_derivations.comparison.report import DiffReport, RunIdentity
from dis_derivations.comparison.report_json import tensor_index
from dis_derivations.comparison.sequences import SequencePair
from dis_derivations.comparison.tensors.comparison import TensorDifference, TensorsComparison
from dis_derivations.comparison.tensors.error_curve import ErrorCurve
from dis_derivations.comparison.text_layout import (
    causes,
    count,
    heading,
    number,
    paragraph,
    printable,
    quoted,
    table,
    value_text,
)

_SHOWN_PAIRS = 8
_SHOWN_TENSORS = 6
_SHOWN_STEPS = 6
_SHOWN_LINES = 12

CHOICES: Mapping[Choice, str] = {
    "same logits": "the logits are the same in every bit: sampling chose, not arithmetic",
    "sampled": "a token was sampled that was not the most likely one",
    "exact tie": "EXACT TIE: in one run both tokens are equally likely, and any difference decides",
    "near tie": "NEAR TIE: the two tokens are no further apart than one step of bfloat16; rounding decides",
    "real change": "REAL CHANGE: the runs do not agree on which token is more likely by more than rounding explains",
}


def render_text(report: DiffReport) -> str:
    """Return the report as lines of at most `WIDTH` characters where their words allow it, without colour."""
    lines = [
        *identities(report.a, report.b),
        *_verdict(report),
        *_where(report),
        *_growth(report.curves),
        *_tensors(report.examination),
        *_trace(report.examination),
        *_why(report),
        *_texts(report),
        *notes(report.notes),
    ]
    return "\n".join([*lines, ""])


def identities(a: RunIdentity, b: RunIdentity) -> list[str]:
    """Return which runs are compared."""
    return table([_identity("A", a), _identity("B", b)], indent=0)


def observables(found: Examination) -> list[list[str]]:
    """Return one row an observable: name, status, a short account."""
    return [[name, status, _account(found, name)] for name, status in found.status.items()]


def notes(said: tuple[str, ...]) -> list[str]:
    """Return the section of notes; nothing when there are none."""
    if not said:
        return []
    return [
        *heading("Notes"),
        *(line for note in said for line in paragraph(f"- {printable(note)}", 2, 2)),
    ]


def _identity(label: str, run: RunIdentity) -> list[str]:
    bundle = "a run directory" if run.bundle is None else f"bundle {run.bundle[:12]}"
    return [
        label,
        printable(run.name),
        bundle,
        f"run {run.run_id.hex[:12]}",
        f"engine {run.engine}" + ("" if run.verified else ", DIGESTS NOT VERIFIED"),
    ]


def _verdict(report: DiffReport) -> list[str]:
    bundles = "the same" if report.bundles_identical else "different"
    return [
        *heading(f"Results: {'THE SAME' if report.same else 'DIFFERENT'}"),
        *table(observables(report.examination)),
        f"  (the bundles are {bundles}, byte for byte)",
    ]


def _account(found: Examination, name: str) -> str:
    if name == "tokens":
        return _token_account(found)
    if (comparison := found.tensors.get(name)) is not None:
        return _tensor_account(comparison)
    if name == "engine_trace" and (trace := found.trace) is not None:
        if trace.first is None:
            return count(trace.steps_a, "step")
        return f"from step {trace.first} on; {trace.steps_a} and {trace.steps_b} steps"
    return ""


def _token_account(found: Examination) -> str:
    alignment = found.alignment
    equal = len(alignment.pairs) - len(alignment.parted)
    said = [f"{equal} of {count(len(alignment.pairs), 'sequence')} equal"]
    if alignment.only_a:
        said.append(f"{len(alignment.only_a)} only in A")
    if alignment.only_b:
        said.append(f"{len(alignment.only_b)} only in B")
    return ", ".join(said)


def _tensor_account(comparison: TensorsComparison) -> str:
    total = comparison.total
    if comparison.identical:
        return f"{count(total.compared, 'element')} in {count(comparison.tensors, 'tensor')}"
    if not total.differing:
        return (
            f"{count(total.compared, 'comparable element')} equal; the others have no counterpart"
        )
    return (
        f"{total.differing} of {count(total.compared, 'comparable element')} in "
        f"{len(comparison.different)} of {count(comparison.tensors, 'tensor')}; "
        f"largest difference {number(total.max_abs)}, {total.max_ulp or 0} ULP"
    )


def _where(report: DiffReport) -> list[str]:
    alignment = report.examination.alignment
    lines: list[str] = []
    if report.divergence is not None:
        lines += [*heading("Where the tokens first part"), *_divergence(report.divergence)]
    if len(alignment.parted) > 1:
        lines += [
            *heading("All sequences that part"),
            *_pairs(alignment.parted, report.divergences),
        ]
    for label, ids in (("A", alignment.only_a), ("B", alignment.only_b)):
        if ids:
            shown = ", ".join(map(quoted, ids[:_SHOWN_PAIRS]))
            more = f" and {len(ids) - _SHOWN_PAIRS} more" if len(ids) > _SHOWN_PAIRS else ""
            lines += ["", *paragraph(f"only in {label}: {shown}{more}", 2, 2)]
    return lines


def _divergence(found: Divergence) -> list[str]:
    rows = [
        ["request", f"{quoted(found.request)}, output position {found.position}"],
        ["before", " ".join(map(_token, found.context)) or "(nothing)"],
        ["A", "(has ended)" if found.token_a is None else _token(found.token_a)],
        ["B", "(has ended)" if found.token_b is None else _token(found.token_b)],
    ]
    if found.text_a or found.text_b:
        rows += [
            ["text", quoted(f"…{found.text_before}")],
            ["  A", quoted(found.text_a)],
            ["  B", quoted(found.text_b)],
        ]
    return [*table(rows), *_logits(found)]


def _logits(found: Divergence) -> list[str]:
    sides = [side for side in (found.logits_a, found.logits_b) if side is not None]
    dtype = sides[0].dtype if len({side.dtype for side in sides}) == 1 else "F64"
    rows = [
        *_side("A", found.logits_a),
        *_side("B", found.logits_b),
        *(
            [
                f"logit of {_token(shared.token)}",
                f"A {number(shared.a, dtype)}, B {number(shared.b, dtype)}: {_steps(shared.ulp)} apart",
            ]
            for shared in found.shared
        ),
    ]
    lines = table(rows) if rows else []
    return lines + (paragraph(CHOICES[found.choice], 2, 2) if found.choice else [])


def _side(label: str, side: SideLogits | None) -> list[list[str]]:
    if side is None:
        return []
    top = ", ".join(f"{_token(each.token)} {number(each.logit, side.dtype)}" for each in side.top)
    said = f"{number(side.margin)} over {_token(side.runner_up.token)}, {_steps(side.margin_ulp)}"
    if side.margin == 0:
        said += ": a tie"
    elif side.margin < 0:
        said += ": not the largest, sampling chose"
    return [[f"{label} top {len(side.top)} ({side.dtype})", top], [f"{label} margin", said]]


def _steps(ulp: int | None) -> str:
    return "no distance" if ulp is None else f"{ulp} ULP"


def _pairs(parted: tuple[SequencePair, ...], described: tuple[Divergence, ...]) -> list[str]:
    rows = [
        [
            printable(pair.a.id),
            f"position {pair.output_common}",
            f"{_id(pair.token_a)} | {_id(pair.token_b)}{'' if pair.same_prompt else '  (other prompt)'}"
            + (f"  {found.choice}" if found.choice else ""),
        ]
        for pair, found in zip(parted[:_SHOWN_PAIRS], described, strict=False)
    ]
    more = len(parted) - _SHOWN_PAIRS
    return [*table(rows), *([f"  … and {more} more (--json has all)"] if more > 0 else [])]


def _tensors(found: Examination) -> list[str]:
    """Return where captured values differ; rows that follow different tokens are told by the tokens already."""
    lines: list[str] = []
    for name, comparison in found.tensors.items():
        telling = [
            each
            for each in comparison.different
            if each.found.differing or not found.alignment.parted
        ]
        if not telling:
            continue
        lines += heading(f"Where the {name} first differ")
        first = comparison.first
        lines += [] if first is None else _first_element(first)
        shown = telling[:_SHOWN_TENSORS]
        lines += table([_tensor_row(each) for each in shown])
        if (more := len(telling) - len(shown)) > 0:
            lines.append(f"  … and {more} more (--json has all)")
    return lines


def _first_element(difference: TensorDifference) -> list[str]:
    first, dtype = difference.found.first, difference.dtype
    if first is None:
        return paragraph(f"{printable(str(difference.name))}: {difference.reason}")
    index = tensor_index(first.element, difference.shape)
    return paragraph(
        f"{printable(str(difference.name))} {index}: A {number(first.a, dtype)}, B {number(first.b, dtype)} "
        f"({dtype}, {_steps(first.ulp)} apart)"
    )


def _tensor_row(difference: TensorDifference) -> list[str]:
    found = difference.found
    said = f"{found.differing} of {count(found.compared, 'element')} differ"
    if found.differing:
        said += f", largest {number(found.max_abs)}, {found.max_ulp or 0} ULP"
    if difference.reason is not None:
        said += f"; {difference.reason}"
    return [printable(str(difference.name)), said]


def _trace(found: Examination) -> list[str]:
    trace = found.trace
    if trace is None or trace.first is None:
        return []
    rows = [
        ["A", "(has ended)" if trace.line_a is None else printable(trace.line_a)],
        ["B", "(has ended)" if trace.line_b is None else printable(trace.line_b)],
    ]
    steps = [line for each in trace.changes[:_SHOWN_STEPS] for line in _step(each)]
    title = f"Where the engine traces first differ: step {trace.first}"
    return [*heading(title), *table(rows), *steps]


def _step(change: Change) -> list[str]:
    said = f"{printable(change.name)}: {value_text(change.old)} → {value_text(change.new)}"
    return paragraph(said, 2, 2)


def _growth(curves: tuple[ErrorCurve, ...]) -> list[str]:
    """Return the error of the logits, step by step, of the sequence that differs first."""
    if not curves:
        return []
    curve = curves[0]
    steps = curve.steps
    places = sorted(
        {round(at * (len(steps) - 1) / (_SHOWN_STEPS - 1)) for at in range(_SHOWN_STEPS)}
    )
    rows = [
        [
            f"position {step.position}",
            f"{count(step.differing, 'logit')}, largest difference {number(step.max_abs)}, {step.max_ulp or 0} ULP"
            if step.differing
            else "equal in every bit",
        ]
        for step in (steps[place] for place in places)
    ]
    part = (
        "the tokens never part"
        if curve.parts_at is None
        else f"the tokens part at {curve.parts_at}"
    )
    title = f"How the logits of {quoted(curve.request)} part ({part})"
    more = (
        [f"  … and {len(curves) - 1} more sequences (--json has them)"] if len(curves) > 1 else []
    )
    return [*heading(title), *table(rows), *more]


def _why(report: DiffReport) -> list[str]:
    lines: list[str] = []
    if report.causes:
        title = "What differs upstream" if report.same else "Why (the most likely first)"
        lines += [*heading(title), *causes(report.causes, numbered=True)]
    if report.upstream.provenance:
        lines += heading("Different, but no reason (provenance)")
        lines += causes(report.upstream.provenance, numbered=False)
    return lines


def _texts(report: DiffReport) -> list[str]:
    lines: list[str] = []
    for text in report.upstream.texts:
        lines += heading(f"What differs in {printable(text.subject)}")
        lines += [f"  {printable(line)}" for line in text.lines[:_SHOWN_LINES]]
        more = len(text.lines) - _SHOWN_LINES + text.left_out
        lines += [f"  … and {count(more, 'more line')} (--json has more)"] if more > 0 else []
    return lines


def _token(token: Token) -> str:
    return str(token.id) if token.text is None else f"{token.id} {quoted(token.text)}"


def _id(token: int | None) -> str:
    return "ended" if token is None else value_text(token)
