"""The lines that stay: what happened, in words. The same on a terminal and in a log."""

from dis_command.progress.amounts import amount_text, rate_text, time_text, took_text
from dis_command.progress.tracking import Task
from dis_command.terminal import one_line
from dis_derivations.realisation.events import Event


def ending_line(event: Event) -> str:
    """Return what is said of the end of a task, or of a build that is not made."""
    subject, text = one_line(event.subject), one_line(event.text)
    took = f" in {took_text(event.seconds)}" if event.seconds is not None else ""
    match event.kind:
        case "done":
            return f"{subject}: built{took}"
        case "end":
            return f"{subject}: {text}{took}"
        case "failed":
            return f"{subject}: failed{took}: {text}"
        case _:
            return f"{subject}: {'already built' if event.kind == 'cached' else f'skipped: {text}'}"


def remark_line(event: Event) -> str:
    """Return the line of a note, of a wait or of a build's log."""
    subject, text = one_line(event.subject), one_line(event.text)
    match event.kind:
        case "note":
            return f"note: {subject}: {text}"
        case "waiting":
            return f"{subject}: waiting: {text}"
        case _:
            return f"{subject}: {text}"


def starting_line(task: Task) -> str:
    """Return what is said of a task when it begins."""
    return f"{one_line(task.subject)}: {one_line(task.text) or 'building'}"


def standing_line(task: Task, now: float) -> str:
    """Return how far a task has come: `weights: reading, 50%, 1.0/2.0 GiB, 210.0 MiB/s, ETA 5 s (5 s)`."""
    parts = [one_line(task.doing or task.text) or "building", *figures(task, now)]
    return f"{one_line(task.subject)}: {', '.join(parts)} ({took_text(now - task.since)})"


def figures(task: Task, now: float) -> list[str]:
    """Return the numbers of a task, the most telling ones first."""
    share, rate, remaining = task.share, task.rate(now), task.remaining(now)
    figures = [] if share is None else [f"{int(share * 100)}%"]
    figures += [amount_text(measure) for measure in task.measures]
    if rate is not None:
        figures.append(rate_text(*rate))
    if remaining is not None:
        figures.append(f"ETA {time_text(remaining)}")
    return figures
