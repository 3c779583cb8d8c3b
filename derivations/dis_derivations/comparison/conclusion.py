"""What a comparison of two runs comes to, in a sentence: for whoever reads no further."""

from collections.abc import Mapping

from dis_derivations.comparison.causes.effects import setting_of
from dis_derivations.comparison.causes.json_changes import Change
from dis_derivations.comparison.causes.upstream import Cause
from dis_derivations.comparison.report import DiffReport
from dis_derivations.comparison.sequences import SequencePair
from dis_derivations.comparison.text_layout import count, printable, quoted, size

_SHOWN_NAMES = 3
# Of these kinds a statement says little: whoever changed a seed wants to read of the seed.
_NAMED_KINDS = frozenset({"config", "requests", "engine", "batching", "platform"})
_OF_PROMPTS = frozenset({"prompt", "prompt_token_ids", "conversation", "content", "role"})
_CHOSEN: Mapping[str | None, str] = {
    "exact tie": ", at an exact tie",
    "near tie": ", at a near tie",
    "real change": ", by a real change",
    "sampled": ", as sampling chose",
    "same logits": ", as sampling chose",
}


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
    return f"{sentence} Most likely because {most_likely}{_named(report.causes[0])}{others}."


def _found(report: DiffReport) -> str:
    status, alignment = report.examination.status, report.examination.alignment
    if report.same:
        captured = [name for name, each in status.items() if each == "identical"]
        return f"every bit of what was captured is equal: {', '.join(captured)}"
    first = alignment.first
    if first is not None:
        parted = f"{len(alignment.parted)} of {count(len(alignment.pairs), 'answer')}"
        which = "differs," if len(alignment.parted) == 1 else "differ, first"
        place = f"from position {first.output_common} on{_how(first, report)}"
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
        verb = "differs" if differing == ["engine_trace"] else "differ"
        return f"all answers are the same; {' and '.join(differing)} {verb}{by}"
    alone = [f"{name} {each}" for name, each in status.items() if each.startswith(("only", "left"))]
    compared = "is there of both" if any("left" in each for each in alone) else "both runs captured"
    return f"all that {compared} is the same; {' and '.join(alone)}"


def _how(first: SequencePair, report: DiffReport) -> str:
    """Return what is known of how the first answer came to part."""
    if not first.same_prompt:
        return ", after another prompt"
    if first.token_a is None or first.token_b is None:
        return f", where {'A' if first.token_a is None else 'B'} ended"
    return _CHOSEN.get(None if report.divergence is None else report.divergence.choice, "")


def _named(cause: Cause) -> str:
    """Return the names of the first settings that a cause is about, in brackets; nothing where its kind says enough."""
    if cause.kind not in _NAMED_KINDS:
        return ""
    settings = map(_setting, filter(_is_setting, cause.changes))
    names = [printable(name) for name in dict.fromkeys(settings) if name]
    more = len(names) - _SHOWN_NAMES
    rest = f" and {more} more" if more > 0 else ""
    return f" ({', '.join(names[:_SHOWN_NAMES])}{rest})" if names else ""


def _is_setting(change: Change) -> bool:
    """Tell a setting, which has a place in a document, from a whole file or request."""
    return change.name.startswith("/")


def _setting(change: Change) -> str:
    name = setting_of(change)
    return "prompts" if name in _OF_PROMPTS else name
