"""One picture of the work, as lines that fit a terminal. Pure: the same state and size give the same lines."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from dis_command.progress.amounts import BYTES, amount_text, time_text
from dis_command.progress.display_width import cut, display_width, settled
from dis_command.progress.lines import figures
from dis_command.progress.tracking import Task, Work
from dis_command.terminal import one_line, size_text
from dis_derivations.realisation.events import Measure

FRAMES_PER_SECOND = 10
_LONGEST_NAME, _SHORTEST_NAME = 40, 12
_BAR = 16
_BOLD, _DIM, _CYAN, _YELLOW = "1", "2", "36", "33"
_GAP = "  "


@dataclass(frozen=True)
class Style:
    """What the terminal can do.

    Attributes:
        spinner: The signs of a build that goes on, one after the other.
        ellipsis: What marks a cut.
        color: Whether it is to be coloured.
    """

    spinner: str
    ellipsis: str
    color: bool


def style_for(encoding: str | None, *, color: bool) -> Style:
    """Return the style for a stream: ASCII where its encoding has nothing finer."""
    fine = Style("⠋⠙⠹⠸⠼⠴⠦⠧⠇⠏", "…", color)
    try:
        (fine.spinner + fine.ellipsis).encode(encoding or "ascii")
    except (UnicodeEncodeError, LookupError):
        return Style("|/-\\", "...", color)
    return fine


@dataclass(frozen=True)
class Line:
    """A line of a frame, with and without the sequences that colour it."""

    plain: str
    painted: str


def frame(work: Work, *, columns: int, rows: int, style: Style, stopping: str = "") -> list[Line]:
    """Return the lines that show the work: one for all of it, where builds are planned, and one a task.

    No line is as wide as the terminal, and there are fewer lines than it has rows.

    Args:
        work: What goes on.
        columns: The width of the terminal.
        rows: Its height.
        style: What it can do.
        stopping: What to say when the work is asked to stop; empty when it is not.
    """
    room = rows - 1
    lines: list[list[tuple[str, str]]] = []
    if work.planned or stopping:
        lines.append(_overall(work, stopping))
    tasks = sorted(work.tasks.values(), key=_size)
    shown = tasks if len(lines) + len(tasks) <= room else tasks[: max(0, room - len(lines) - 1)]
    lines += [_task(task, work.now(), columns, style) for task in shown]
    if hidden := len(tasks) - len(shown):
        lines.append([(f"  and {hidden} more", _DIM)])
    return [_fitted(line, columns - 1, style) for line in lines[: max(0, room)]]


def _size(task: Task) -> int:
    """Return what tasks are ordered by: the longest transfer stands last, where the eye is."""
    return max(
        (measure.total or 0 for measure in task.measures if measure.unit == BYTES), default=0
    )


def _overall(work: Work, stopping: str) -> list[tuple[str, str]]:
    parts: list[tuple[str, str]] = [(stopping, _YELLOW)] if stopping else []
    if work.planned:
        builds = amount_text(Measure("builds", work.finished, work.planned))
        parts.append((builds, _BOLD))
    if work.failed:
        parts.append((f"{work.failed} failed", _YELLOW))
    if work.bytes:
        parts.append((size_text(work.bytes), ""))
    return _spaced([*parts, (time_text(work.now() - work.since), "")])


def _task(task: Task, now: float, columns: int, style: Style) -> list[tuple[str, str]]:
    name_room = min(_LONGEST_NAME, max(_SHORTEST_NAME, columns // 3))
    turn = int((now - task.since) * FRAMES_PER_SECOND) % len(style.spinner)
    name = cut(_shown(task.subject), name_room, style.ellipsis)
    parts = [(f"{style.spinner[turn]} {name}", _CYAN)]
    numbers = figures(task, now)
    if task.remaining(now) is None:
        numbers = [*numbers, time_text(now - task.since)]
    share = task.share
    # A bar says nothing that the figures do not say, so it is the first to go where they need the room.
    if share is not None and _width([parts[0][0], _bar(share), *numbers]) < columns:
        parts.append((_bar(share), ""))
    parts += [(number, "") for number in numbers]
    parts += [(_shown(text), _DIM) for text in dict.fromkeys((task.doing, task.text)) if text]
    return _spaced(parts)


def _width(texts: Sequence[str]) -> int:
    return sum(map(display_width, texts)) + len(_GAP) * (len(texts) - 1)


def _shown(text: str) -> str:
    return settled(one_line(text))


def _bar(share: float) -> str:
    done = int(share * _BAR)
    tip = ">" if done < _BAR else ""
    return f"[{('=' * done + tip).ljust(_BAR)}]"


def _spaced(parts: Iterable[tuple[str, str]]) -> list[tuple[str, str]]:
    spaced: list[tuple[str, str]] = []
    for part in parts:
        spaced += [(_GAP, ""), part] if spaced else [part]
    return spaced


def _fitted(parts: list[tuple[str, str]], width: int, style: Style) -> Line:
    """Return the parts as a line of at most `width` columns."""
    whole = "".join(text for text, _ in parts)
    left = cut(whole, max(0, width), style.ellipsis)
    plain, painted = left, ""
    for text, color in parts:
        piece, left = left[: len(text)], left[len(text) :]
        painted += f"\x1b[{color}m{piece}\x1b[0m" if color and piece and style.color else piece
    return Line(plain, painted + left)
