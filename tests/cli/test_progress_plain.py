"""Progress as lines of a log."""

from io import StringIO

import pytest

from clock import Clock
from dis_command.progress.plain import (
    SECONDS_BETWEEN_LINES,
    SHORTEST_SECONDS_BETWEEN_LINES,
    PlainProgress,
)
from dis_derivations.realisation.events import Event, Measure


@pytest.fixture
def clock() -> Clock:
    return Clock()


@pytest.fixture
def stream() -> StringIO:
    return StringIO()


def plain(stream: StringIO, clock: Clock, *, verbose: bool = False) -> PlainProgress:
    return PlainProgress(stream, verbose=verbose, clock=clock)


def read(done: int, total: int | None = 100 << 20) -> Event:
    return Event("progress", "weights", "reading", measures=(Measure("bytes", done << 20, total),))


def test_a_build_says_when_it_begins_and_when_it_ends(stream: StringIO, clock: Clock) -> None:
    with plain(stream, clock) as progress:
        progress(Event("plan", "run", measures=(Measure("builds", 0, 1),)))
        progress(Event("start", "weights"))
        progress(Event("done", "weights", seconds=1.5))
    assert stream.getvalue() == "weights: building\nweights: built in 1.5 s\n"


def test_lines_of_a_build_are_shown_at_most_every_ten_seconds(
    stream: StringIO, clock: Clock
) -> None:
    with plain(stream, clock) as progress:
        progress(Event("start", "run"))
        progress(Event("progress", "run", "1 of 3"))
        clock.now = SECONDS_BETWEEN_LINES
        progress(Event("progress", "run", "2 of 3"))
        progress(Event("progress", "run", "3 of 3"))
    assert stream.getvalue() == "run: building\nrun: 2 of 3\n"


def test_a_build_that_says_nothing_is_still_heard_of(stream: StringIO, clock: Clock) -> None:
    with plain(stream, clock) as progress:
        progress(Event("start", "run"))
        progress.tick()
        clock.now = 75.0
        progress.tick()
        progress.tick()
    assert stream.getvalue() == "run: building\nrun: building (1 min 15 s)\n"


def test_a_build_that_waits_for_another_process_is_still_heard_of(
    stream: StringIO, clock: Clock
) -> None:
    with plain(stream, clock) as progress:
        progress(Event("waiting", "run", "process 7 builds it"))
        clock.now = SECONDS_BETWEEN_LINES
        progress.tick()
        progress(Event("cached", "run"))
        clock.now *= 2
        progress.tick()
    assert stream.getvalue().splitlines() == [
        "run: waiting: process 7 builds it",
        "run: waiting: process 7 builds it (10.0 s)",
    ]


def test_every_tenth_of_a_transfer_is_told_with_its_rate_and_its_end(
    stream: StringIO, clock: Clock
) -> None:
    with plain(stream, clock) as progress:
        progress(Event("start", "weights"))
        progress(read(0))
        for second in range(1, 6):
            clock.now = second * SHORTEST_SECONDS_BETWEEN_LINES
            progress(read(9 * second))
    assert stream.getvalue().splitlines() == [
        "weights: building",
        "weights: reading, 18%, 18.0/100.0 MiB, 4.5 MiB/s, ETA 18 s (4.0 s)",
        "weights: reading, 36%, 36.0/100.0 MiB, 4.5 MiB/s, ETA 14 s (8.0 s)",
    ]


def test_a_transfer_faster_than_anybody_reads_gets_no_line_for_its_tenths(
    stream: StringIO, clock: Clock
) -> None:
    with plain(stream, clock) as progress:
        progress(Event("start", "weights"))
        for done in range(101):
            progress(read(done))
            clock.now += SHORTEST_SECONDS_BETWEEN_LINES / 200
        progress(Event("done", "weights", seconds=clock.now))
    assert stream.getvalue() == "weights: building\nweights: built in 1.0 s\n"


def test_a_transfer_slower_than_a_tenth_is_told_of_every_ten_seconds(
    stream: StringIO, clock: Clock
) -> None:
    with plain(stream, clock) as progress:
        progress(Event("start", "weights"))
        progress(read(0))
        for second in range(1, 31):
            clock.now = float(second)
            progress(read(0) if second < 30 else read(1))
            progress.tick()
    assert stream.getvalue().splitlines() == [
        "weights: building",
        "weights: reading, 0%, 0.0/100.0 MiB, 0 B/s (10.0 s)",
        "weights: reading, 0%, 0.0/100.0 MiB, 0 B/s (20.0 s)",
        "weights: reading, 1%, 1.0/100.0 MiB, 102.4 KiB/s, ETA 16 min 30 s (30.0 s)",
    ]


def test_a_generation_tells_requests_and_tokens(stream: StringIO, clock: Clock) -> None:
    def generated(requests: int, tokens: int) -> Event:
        measures = (Measure("requests", requests, 8), Measure("tokens", tokens))
        return Event("progress", "run", "generating", measures=measures)

    with plain(stream, clock) as progress:
        progress(Event("start", "run"))
        progress(generated(0, 0))
        clock.now = SECONDS_BETWEEN_LINES
        progress(generated(2, 850))
    last = stream.getvalue().splitlines()[-1]
    assert last == "run: generating, 25%, 2/8 requests, 850 tokens, 85 tokens/s, ETA 30 s (10.0 s)"


def test_quick_work_that_is_no_build_is_not_worth_a_line(stream: StringIO, clock: Clock) -> None:
    with plain(stream, clock) as progress:
        progress(Event("begin", "a.json", "reading 8 files"))
        clock.now = 1.0
        progress.tick()
        progress(Event("end", "a.json", "read 8 files", seconds=1.0))
        progress(Event("begin", "a.json", "reading 8 files"))
        progress(Event("failed", "a.json", "no disk", seconds=1.0))
    assert not stream.getvalue()


def test_work_that_takes_a_while_is_told_from_beginning_to_end(
    stream: StringIO, clock: Clock
) -> None:
    with plain(stream, clock) as progress:
        progress(Event("begin", "a.json", "reading 8 files"))
        clock.now = SHORTEST_SECONDS_BETWEEN_LINES
        progress.tick()
        progress(Event("end", "a.json", "read 8 files", seconds=2.5))
    assert stream.getvalue() == "a.json: reading 8 files\na.json: read 8 files in 2.5 s\n"


def test_verbose_shows_every_line_and_what_was_built_before(stream: StringIO, clock: Clock) -> None:
    with plain(stream, clock, verbose=True) as progress:
        progress(Event("cached", "weights"))
        progress(Event("progress", "run", "1 of 3"))
        progress(read(0))
    assert stream.getvalue() == "weights: already built\nrun: 1 of 3\n"


def test_failures_skips_and_waits_are_told(stream: StringIO, clock: Clock) -> None:
    with plain(stream, clock) as progress:
        progress(Event("waiting", "a", "being built by 7"))
        progress(Event("failed", "a", "no disk", seconds=2.0))
        progress(Event("skipped", "b", "needs a, which failed"))
        progress(Event("note", "run", "not rooted"))
    assert stream.getvalue().splitlines() == [
        "a: waiting: being built by 7",
        "a: failed in 2.0 s: no disk",
        "b: skipped: needs a, which failed",
        "note: run: not rooted",
    ]


def test_a_name_cannot_steer_the_terminal(stream: StringIO, clock: Clock) -> None:
    with plain(stream, clock) as progress:
        progress(Event("start", "\x1b[2J\nx"))
    assert stream.getvalue() == "\\x1b[2J\\nx: building\n"
