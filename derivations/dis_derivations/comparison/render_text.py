"""A comparison of two runs as text for a terminal."""

from dis_derivations.comparison.causes.json_changes import Change
from dis_derivations.comparison.conclusion import in_short, verdict
from dis_derivations.comparison.examination import Examination
from dis_derivations.comparison.report import DiffReport, RunIdentity
from dis_derivations.comparison.tensors.comparison import TensorDifference, TensorsComparison
from dis_derivations.comparison.text_layout import (
    called,
    causes,
    count,
    heading,
    number,
    paragraph,
    printable,
    quoted,
    size,
    steps,
    table,
    value_text,
)

_SHOWN_TENSORS = 6
_SHOWN_STEPS = 6
_SHOWN_LINES = 12
_RANK = 2


def render_text(report: DiffReport, refs: tuple[str, str] | None = None) -> str:
    """Return the report as lines of at most `WIDTH` characters where their words allow it, without colour.

    Args:
        report: What was found.
        refs: What the user calls A and B; None where nobody is there who does.
    """
    lines = [
        *identities(report.a, report.b, refs),
        *_verdict(report),
        *_parting(report),
        *_growth(report),
        *_tensors(report.examination),
        *_trace(report.examination),
        *_why(report),
        *_packages(report),
        *_texts(report),
        *notes(report.notes),
    ]
    return "\n".join([*lines, ""])


def identities(a: RunIdentity, b: RunIdentity, refs: tuple[str, str] | None = None) -> list[str]:
    """Return which runs are compared, by what the user calls them as well where that is known."""
    rows = [_identity("A", a), _identity("B", b)]
    if refs is not None:
        rows = [[label, called(ref), *row] for ref, (label, *row) in zip(refs, rows, strict=True)]
    return table(rows, indent=0)


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
        *heading(f"Results: {verdict(report).upper()}"),
        *paragraph(printable(in_short(report))),
        "",
        *table(observables(report.examination)),
        f"  (the bundles are {bundles}, byte for byte)",
    ]


def _parting(report: DiffReport) -> list[str]:
    alignment = report.examination.alignment
    if alignment.same_tokens:
        return []
    from dis_derivations.comparison.render_divergence import where_tokens_part

    return where_tokens_part(alignment, report.divergences)


def _account(found: Examination, name: str) -> str:
    if name == "tokens":
        return _token_account(found)
    if found.status[name] == "identical" and (found.a.lacks(name) or found.b.lacks(name)):
        return "one file, by its digest; it was left out"
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
    if comparison.tensors is None:
        return "one file, by its digest; it was not fetched"
    if comparison.identical:
        return f"{count(total.compared, 'element')} in {count(comparison.tensors, 'tensor')}"
    if not total.compared:
        first = comparison.first
        because = "" if first is None or first.reason is None else f": {first.reason}"
        return f"nothing is comparable{because}"
    if not total.differing:
        return (
            f"{count(total.compared, 'comparable element')} equal; the others have no counterpart"
        )
    return (
        f"{total.differing} of {count(total.compared, 'comparable element')} in "
        f"{len(comparison.different)} of {count(comparison.tensors, 'tensor')}; "
        f"largest difference {size(total.max_abs)}, {steps(total.max_ulp or 0)}"
    )


def telling_tensors(found: Examination) -> dict[str, list[TensorDifference]]:
    """Return the tensors that differ, by observable, without those whose rows only follow different tokens."""
    telling = {
        name: [
            each
            for each in comparison.different
            if each.found.differing or not found.alignment.parted
        ]
        for name, comparison in found.tensors.items()
    }
    return {name: tensors for name, tensors in telling.items() if tensors}


def _tensors(found: Examination) -> list[str]:
    """Return where captured values differ."""
    lines: list[str] = []
    for name, telling in telling_tensors(found).items():
        lines += heading(f"Where the {name} first differ")
        said = first_element(found.tensors[name].first)
        lines += paragraph(said, 2, 2) if said else []
        shown = telling[:_SHOWN_TENSORS]
        lines += table([tensor_row(each) for each in shown])
        if (more := len(telling) - len(shown)) > 0:
            lines.append(f"  … and {more} more (--json has all)")
    return lines


def first_element(difference: TensorDifference | None) -> str:
    """Return where two captures part first, and with which values."""
    if difference is None:
        return ""
    first, dtype = difference.found.first, difference.dtype
    if first is None:
        return f"{printable(str(difference.name))}: {difference.reason}"
    return (
        f"{printable(str(difference.name))}{_place(difference, first.element)}: "
        f"A {number(first.a, dtype)}, B {number(first.b, dtype)} ({dtype}, {steps(first.ulp)} apart)"
    )


def _place(difference: TensorDifference, element: int) -> str:
    """Return where in a tensor an element is, in words where its rows are positions of a request."""
    from dis_derivations.comparison.report_json import tensor_index
    from dis_derivations.comparison.tensors.depth import PHASES

    index = tensor_index(element, difference.shape)
    if difference.name.request is None or len(index) != _RANK:
        return f" {index}"
    column = "token" if difference.name.part in PHASES else "channel"
    return f", position {index[0]}, {column} {index[1]}"


def tensor_row(difference: TensorDifference) -> list[str]:
    """Return a tensor that differs in cells: its name, and by how much."""
    found = difference.found
    if not found.compared:
        return [printable(str(difference.name)), difference.reason or "the bytes differ"]
    every = found.differing == found.compared > 1
    amount = (
        f"all {found.compared} elements"
        if every
        else f"{found.differing} of {count(found.compared, 'element')}"
    )
    said = f"{amount} differ"
    if found.differing:
        said += f", largest difference {size(found.max_abs)}, {steps(found.max_ulp or 0)}"
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


def _growth(report: DiffReport) -> list[str]:
    """Return the error of the logits, step by step, of the sequence whose tokens part first, or else the first one."""
    curves = report.curves
    if not curves:
        return []
    first = report.examination.alignment.first
    of_first = (each for each in curves if first is not None and each.request == first.a.id)
    curve = next(of_first, curves[0])
    followed = curve.steps
    places = sorted(
        {round(at * (len(followed) - 1) / (_SHOWN_STEPS - 1)) for at in range(_SHOWN_STEPS)}
    )
    rows = [
        [
            f"position {step.position}",
            f"{count(step.differing, 'logit')}, largest difference {size(step.max_abs)}, {steps(step.max_ulp or 0)}"
            if step.differing
            else "equal in every bit",
        ]
        for step in (followed[place] for place in places)
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


def _packages(report: DiffReport) -> list[str]:
    if report.upstream.packages is None:
        return []
    from dis_derivations.comparison.render_packages import packages_section

    return packages_section(report.upstream.packages)


def _texts(report: DiffReport) -> list[str]:
    lines: list[str] = []
    for text in report.upstream.texts:
        lines += heading(f"What differs in {printable(text.subject)}")
        lines += [f"  {printable(line)}" for line in text.lines[:_SHOWN_LINES]]
        more = len(text.lines) - _SHOWN_LINES + text.left_out
        lines += [f"  … and {count(more, 'more line')} (--json has more)"] if more > 0 else []
    return lines
