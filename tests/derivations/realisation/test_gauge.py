"""Telling how far work has come, as often as somebody can read it."""

import pytest

from clock import Clock
from dis_derivations.realisation.events import Event, Measure
from dis_derivations.realisation.gauge import SECONDS_BETWEEN_REPORTS, Gauge, Report, measured
from dis_store.errors import BuildError

Told = list[tuple[str, tuple[Measure, ...]]]


def recorder(told: Told) -> Report:
    return lambda text, measures: told.append((text, measures))


def test_the_beginning_and_the_end_are_always_told() -> None:
    told: Told = []
    gauge = Gauge(recorder(told), "reading", Measure("bytes", 0, 100), clock=Clock())
    for _ in range(100):
        gauge.add(1)
    assert told == [
        ("reading", (Measure("bytes", 0, 100),)),
        ("reading", (Measure("bytes", 100, 100),)),
    ]


def test_what_lies_between_is_told_now_and_then() -> None:
    told: Told = []
    clock = Clock()
    gauge = Gauge(recorder(told), "reading", Measure("bytes", 0), clock=clock)
    for _ in range(100):
        clock.now += 0.26 * SECONDS_BETWEEN_REPORTS
        gauge.add(10)
    assert [measures[0].done for _, measures in told] == [40 * count for count in range(26)]


def test_the_first_of_several_amounts_tells_the_end() -> None:
    told: Told = []
    gauge = Gauge(
        recorder(told), "generating", Measure("requests", 0, 2), Measure("tokens", 0), clock=Clock()
    )
    for requests, tokens in ((0, 1), (1, 2), (2, 3), (2, 3)):
        gauge.show(Measure("requests", requests, 2), Measure("tokens", tokens))
    assert [measures[1].done for _, measures in told] == [0, 3]


def test_work_that_ends_well_is_told_from_its_beginning_to_its_end() -> None:
    events: list[Event] = []
    with measured(
        events.append, "a.json", "reading 2 files", Measure("bytes", 0, 5), finished="read 2 files"
    ) as gauge:
        gauge.add(5)
    assert [(event.kind, event.text) for event in events] == [
        ("begin", "reading 2 files"),
        ("progress", "reading 2 files"),
        ("progress", "reading 2 files"),
        ("end", "read 2 files"),
    ]
    assert events[2].measures == (Measure("bytes", 5, 5),)
    assert {event.subject for event in events} == {"a.json"}


@pytest.mark.parametrize(
    ("error", "text"),
    [(BuildError("no disk"), "no disk"), (KeyboardInterrupt(), "it was not finished")],
)
def test_work_that_does_not_end_well_is_told_to_have_failed(
    error: BaseException, text: str
) -> None:
    events: list[Event] = []
    nothing = Measure("bytes", 0, 1)
    with (
        pytest.raises(type(error)),
        measured(events.append, "a.json", "reading", nothing, finished="read"),
    ):
        raise error
    assert (events[-1].kind, events[-1].text) == ("failed", text)
