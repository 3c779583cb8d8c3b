"""What a comparison of two runs comes to, in a sentence: for whoever reads no further."""

from dis_derivations.comparison.report import DiffReport
from dis_derivations.comparison.text_layout import count, quoted, size


def verdict(report: DiffReport) -> str:
    """Return the answer in words; what only one run captured is not shown to be the same, nor to differ."""
    if report.same:
        return "the same"
    statuses = report.examination.status.values()
    return "different" if "differ" in statuses else "not shown to be the same"


def in_short(report: DiffReport) -> str:
    """Return what parts first, and the most likely reason."""
    found = _found(report)
    sentence = f"{found[0].upper()}{found[1:]}."
    if verdict(report) != "different":
        return sentence
    if not report.causes:
        return f"{sentence} Nothing that was recorded upstream differs."
    # A statement may go on with a list of names, which stands below.
    most_likely = report.causes[0].statement.partition(":")[0]
    more = len(report.causes) - 1
    others = f" ({count(more, 'other difference')} below)" if more else ""
    return f"{sentence} Most likely because {most_likely}{others}."


def _found(report: DiffReport) -> str:
    status, alignment = report.examination.status, report.examination.alignment
    if report.same:
        captured = [name for name, each in status.items() if each == "identical"]
        return f"every bit of what was captured is equal: {', '.join(captured)}"
    if alignment.parted:
        first = alignment.parted[0]
        parted = f"{len(alignment.parted)} of {count(len(alignment.pairs), 'answer')}"
        which = "differs," if len(alignment.parted) == 1 else "differ, first"
        place = f"from position {first.output_common} on"
        return f"{parted} {which} that of {quoted(first.a.id)}, {place}"
    if status["tokens"] == "differ":
        return "the runs have different requests; those that both have are answered alike"
    differing = [name for name, each in status.items() if each == "differ"]
    if differing:
        sizes = [
            each.total.max_abs
            for name, each in report.examination.tensors.items()
            if name in differing and each.total.max_abs is not None
        ]
        by = f", by up to {size(max(sizes))}" if sizes else ""
        return f"all answers are the same; {' and '.join(differing)} differ{by}"
    alone = [f"{name} {each}" for name, each in status.items() if each.startswith("only")]
    return f"all that both runs captured is the same; {' and '.join(alone)}"
