"""What a realisation shows while it works."""

from io import StringIO

import pytest

from dis_command.progress import SECONDS_BETWEEN_LINES, Progress
from dis_derivations.realisation.events import Event


class Clock:
    now = 0.0

    def __call__(self) -> float:
        return self.now


@pytest.fixture
def clock() -> Clock:
    return Clock()


@pytest.fixture
def stream() -> StringIO:
    return StringIO()


def plain(stream: StringIO, clock: Clock, *, verbose: bool = False) -> Progress:
    return Progress(stream, status_line=False, verbose=verbose, clock=clock)


def test_a_build_says_when_it_begins_and_when_it_ends(stream: StringIO, clock: Clock) -> None:
    with plain(stream, clock) as progress:
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
    assert stream.getvalue() == "run: building\nrun: building (1 min 15 s)\n"


def test_verbose_shows_every_line_and_what_was_built_before(stream: StringIO, clock: Clock) -> None:
    with plain(stream, clock, verbose=True) as progress:
        progress(Event("cached", "weights"))
        progress(Event("progress", "run", "1 of 3"))
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


def test_the_status_line_is_rewritten_in_place_and_leaves_nothing_behind(
    stream: StringIO, clock: Clock
) -> None:
    with Progress(stream, status_line=True, verbose=False, clock=clock) as progress:
        progress(Event("start", "run"))
        progress(Event("progress", "run", "1 of 3"))
        assert stream.getvalue().endswith("\r\x1b[Krun: 1 of 3 (0.0 s)")
    assert stream.getvalue().endswith("\r\x1b[K")
