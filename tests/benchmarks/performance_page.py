"""The tables of docs/performance.md, which stand between markers."""

from collections.abc import Sequence
from pathlib import Path

from stopwatch import Outcome, Target, Timing


def write_table(page: Path, group: str, outcomes: Sequence[Outcome]) -> None:
    """Replace the part of a page between the markers of a group. A group that it does not have yet goes to its end."""
    begin, end = f"<!-- bench: {group} -->\n", f"<!-- end: {group} -->\n"
    written = page.read_text("utf-8")
    before, _, rest = written.partition(begin)
    _, found, after = rest.partition(end)
    if not found:
        before, after = f"{written}\n## {group.capitalize()}\n\n", ""
    text = "\n".join(_section(outcome) for outcome in outcomes)
    page.write_text(f"{before}{begin}{text}{end}{after}", encoding="utf-8")


def _section(outcome: Outcome) -> str:
    lines = [f"**{outcome.comparison.title}**, {outcome.comparison.rounds} rounds", ""]
    lines += ["| | median | shortest | longest |", "|---|---|---|---|"]
    lines += [_row(timing) for timing in outcome.timings.values()]
    lines.append("")
    lines += [_verdict(outcome, target) for target in outcome.comparison.targets]
    if remark := outcome.comparison.remark():
        lines.append(f"- {remark}")
    return "\n".join(lines) + "\n"


def _row(timing: Timing) -> str:
    cells = (timing.median, timing.best, max(timing.seconds))
    return f"| {timing.name} | {' | '.join(map(_seconds, cells))} |"


def _seconds(seconds: float) -> str:
    if seconds >= 1:
        return f"{seconds:.2f} s"
    return f"{seconds * 1e3:.1f} ms" if seconds >= 1e-3 else f"{seconds * 1e6:.0f} µs"


def _verdict(outcome: Outcome, target: Target) -> str:
    word = "met" if outcome.met(target) else "**missed**"
    return (
        f"- `{target.name}` took {_times(outcome.factor(target))} the time of `{target.peer}`;"
        f" at most {_times(target.factor)} is asked for: {word}"
    )


def _times(factor: float) -> str:
    return f"{factor:.2f} times"
