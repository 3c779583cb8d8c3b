"""Telling how far a piece of work has come, as often as somebody can read it."""

import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import replace

from dis_derivations.realisation.events import Event, Measure, Reporter
from dis_store.errors import DisError

# Ten times a second is all that a display shows, and a chunk of bytes takes less than a millisecond.
SECONDS_BETWEEN_REPORTS = 0.1

# Takes the name of a piece of work and how much of it is done.
Report = Callable[[str, tuple[Measure, ...]], None]


class Gauge:
    """Reports amounts: the first and the complete ones always, those in between now and then.

    Several threads may add.

    Args:
        report: Told the amounts.
        text: The piece of work.
        measures: The amounts at the beginning, which are reported at once.
        clock: Seconds that never go back.
    """

    def __init__(
        self,
        report: Report,
        text: str,
        *measures: Measure,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._report = report
        self._text = text
        self._measures = measures
        self._clock = clock
        self._lock = threading.Lock()
        self._reported_at = clock()
        report(text, measures)

    def add(self, amount: int) -> None:
        """Count `amount` more of the first measure."""
        with self._lock:
            first, *others = self._measures
            self._show((replace(first, done=first.done + amount), *others))

    def show(self, *measures: Measure) -> None:
        """Replace the amounts."""
        with self._lock:
            self._show(measures)

    def _show(self, measures: tuple[Measure, ...]) -> None:
        changed, self._measures = measures != self._measures, measures
        now = self._clock()
        due = now - self._reported_at >= SECONDS_BETWEEN_REPORTS
        if changed and (due or measures[0].complete):
            self._reported_at = now
            self._report(self._text, measures)


@contextmanager
def measured(
    reporter: Reporter, subject: str, text: str, measure: Measure, *, finished: str
) -> Iterator[Gauge]:
    """Report the beginning, the course and the end of work that is no build.

    Args:
        reporter: Told of it.
        subject: What is worked on.
        text: What is done with it.
        measure: How much there is to do.
        finished: What was done with it, if the block ends well.
    """

    def report(current: str, measures: tuple[Measure, ...]) -> None:
        reporter(Event("progress", subject, current, measures=measures))

    start = time.monotonic()
    reporter(Event("begin", subject, text))
    try:
        yield Gauge(report, text, measure)
    except BaseException as error:
        reason = error.what if isinstance(error, DisError) else "it was not finished"
        reporter(Event("failed", subject, reason, time.monotonic() - start))
        raise
    reporter(Event("end", subject, finished, time.monotonic() - start))
