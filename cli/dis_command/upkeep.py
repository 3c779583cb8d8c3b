"""Progress of what is done to the store itself, as events."""

from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from typing import TYPE_CHECKING

from dis_command import stopping

if TYPE_CHECKING:
    from dis_derivations.realisation.events import Reporter

Progress = Callable[[int, int], None]
Measuring = AbstractContextManager[Progress]

_SUBJECT = "store"

# What the phases of a collection are called for people.
_PHASES = {
    "forgetting": "deleting rows of the index",
    "setting aside": "moving garbage to the trash",
    "freeing": "giving the space back to the disk",
    "sweeping": "sweeping shared files",
}


@contextmanager
def collecting(reporter: "Reporter") -> Iterator[Callable[[str, int, int], None]]:
    """Report a collection; gives the `progress` for `Store.collect_garbage`."""
    from dis_derivations.realisation.events import Event, Measure
    from dis_derivations.realisation.gauge import Gauge, measured

    gauges: dict[str, Gauge] = {}

    def report(text: str, measures: tuple[Measure, ...]) -> None:
        reporter(Event("progress", _SUBJECT, text, measures=measures))

    with measured(
        reporter,
        _SUBJECT,
        "collecting garbage",
        Measure("objects", 0),
        finished="garbage collected",
    ):

        def progress(phase: str, done: int, total: int) -> None:
            measure = Measure("directories" if phase == "sweeping" else "objects", done, total)
            if phase not in gauges:  # the first call of each comes before any thread works on it
                gauges[phase] = Gauge(report, _PHASES[phase], measure)
            gauges[phase].show(measure)

        yield progress


@contextmanager
def _measuring(
    reporter: "Reporter", unit: str, *, begun: str, text: str, finished: str
) -> Iterator[Progress]:
    """Report work whose amount the store tells.

    Args:
        reporter: Told of it.
        unit: What is counted.
        begun: What begins.
        text: What is done once the amount is known.
        finished: What was done at the end.

    Yields:
        The `progress` for the store: takes how much more is done, and how much there is in all. The first call comes
        before any thread works.
    """
    from dis_derivations.realisation.events import Event, Measure
    from dis_derivations.realisation.gauge import Gauge, measured

    gauges: list[Gauge] = []

    def report(text: str, measures: tuple[Measure, ...]) -> None:
        reporter(Event("progress", _SUBJECT, text, measures=measures))

    with measured(reporter, _SUBJECT, begun, Measure("objects", 0), finished=finished):

        def progress(amount: int, total: int) -> None:
            stopping.check()  # a large file takes long, and threads that read one know of no signal
            if not gauges:
                gauges.append(Gauge(report, text, Measure(unit, 0, total)))
            gauges[0].add(amount)

        yield progress


def verifying(reporter: "Reporter") -> Measuring:
    """Report a verification; gives the `progress` for `Store.verify`."""
    return _measuring(
        reporter, "bytes", begun="looking at objects", text="reading files", finished="verified"
    )


def reindexing(reporter: "Reporter") -> Measuring:
    """Report a rebuilding of the index; gives the `progress` for `Store.reindex`."""
    return _measuring(
        reporter, "bytes", begun="looking at objects", text="reading files", finished="indexed"
    )


def adding(reporter: "Reporter") -> Measuring:
    """Report an addition; gives the `progress` for `add_path`."""
    return _measuring(
        reporter, "bytes", begun="looking at files", text="reading files", finished="added"
    )


def exporting(reporter: "Reporter") -> Measuring:
    """Report an export; gives the `progress` for `export_closures`."""
    return _measuring(
        reporter, "bytes", begun="looking at objects", text="writing files", finished="exported"
    )


def importing(reporter: "Reporter") -> Measuring:
    """Report an import; gives the `progress` for `import_closures` and `plan_import`."""
    return _measuring(
        reporter, "bytes", begun="reading manifests", text="reading files", finished="imported"
    )


def optimising(reporter: "Reporter") -> Measuring:
    """Report an optimisation; gives the `progress` for `Store.optimise`."""
    return _measuring(
        reporter,
        "objects",
        begun="looking at objects",
        text="comparing files",
        finished="optimised",
    )
