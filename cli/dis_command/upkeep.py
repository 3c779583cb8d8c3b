"""Progress of what is done to the store itself, as events."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from dis_derivations.realisation.events import Reporter

_SUBJECT = "store"


@contextmanager
def collecting(reporter: "Reporter") -> Iterator[Callable[[str, int, int], None]]:
    """Report a collection; gives the `progress` for `Store.collect_garbage`."""
    from dis_derivations.realisation.events import Event, Measure
    from dis_derivations.realisation.gauge import measured

    nothing_yet = Measure("objects", 0)
    with measured(
        reporter, _SUBJECT, "collecting garbage", nothing_yet, finished="garbage collected"
    ) as gauge:

        def progress(phase: str, done: int, total: int) -> None:
            if phase == "deleting":
                gauge.show(Measure("objects", done, total))
            elif done < total:
                reporter(Event("progress", _SUBJECT, "giving the space back to the disk"))

        yield progress


@contextmanager
def verifying(reporter: "Reporter") -> Iterator[Callable[[int, int], None]]:
    """Report a verification; gives the `progress` for `Store.verify`."""
    from dis_derivations.realisation.events import Event, Measure
    from dis_derivations.realisation.gauge import Gauge, measured

    gauges: list[Gauge] = []

    def report(text: str, measures: tuple[Measure, ...]) -> None:
        reporter(Event("progress", _SUBJECT, text, measures=measures))

    with measured(
        reporter, _SUBJECT, "looking at objects", Measure("objects", 0), finished="verified"
    ):

        def progress(amount: int, total: int) -> None:
            if not gauges:  # the first call comes before any thread reads
                gauges.append(Gauge(report, "reading files", Measure("bytes", 0, total)))
            gauges[0].add(amount)

        yield progress
