"""The picture of the work on a terminal: from events and a size to lines, and from lines to what is written."""

import re
from io import StringIO
from typing import get_args

from hypothesis import given, settings
from hypothesis import strategies as st

from clock import Clock
from dis_command.progress.canvas import Canvas
from dis_command.progress.display_width import cut, display_width, rows_taken, settled
from dis_command.progress.frame import Style, frame, style_for
from dis_command.progress.tracking import WINDOW_SECONDS, Window, Work
from dis_command.terminal import one_line
from dis_derivations.realisation.events import Event, EventKind, Measure
from screen import Screen

MIB = 1 << 20
STYLE = Style("|/-\\", "…", color=False)
_COLOR = re.compile(r"\x1b\[[0-9;]*m")

names = st.sampled_from(["weights", "模型-权重", "e\u0301t\u00e9 ❤\ufe0f", "a" * 300, "\x1b[2J\n"])
measures = st.lists(
    st.builds(
        Measure,
        st.sampled_from(["bytes", "tokens", "requests"]),
        st.integers(0, 1 << 50),
        st.none() | st.integers(0, 1 << 50),
    ),
    max_size=2,
    unique_by=lambda measure: measure.unit,
).map(tuple)
kinds: tuple[EventKind, ...] = get_args(EventKind)
events = st.builds(Event, st.sampled_from(kinds), names, st.text(max_size=60), measures=measures)
sizes = st.tuples(st.integers(1, 120), st.integers(1, 30))


def shown(work: Work, columns: int = 100, rows: int = 24, stopping: str = "") -> list[str]:
    lines = frame(work, columns=columns, rows=rows, style=STYLE, stopping=stopping)
    return [line.plain for line in lines]


def measured(subject: str, text: str, *amounts: Measure) -> Event:
    return Event("progress", subject, text, measures=amounts)


def planned(total: int) -> Event:
    return Event("plan", "run", measures=(Measure("builds", 0, total),))


def test_nothing_is_shown_of_nothing() -> None:
    assert shown(Work(Clock())) == []


def test_a_frame_tells_all_of_the_work_and_each_task() -> None:
    clock = Clock()
    work = Work(clock)
    for event in (planned(3), Event("start", "tokenizer"), Event("done", "tokenizer")):
        work.take(event)
    work.take(Event("start", "weights"))
    work.take(measured("weights", "reading", Measure("bytes", 0, 200 * MIB)))
    work.take(Event("start", "requests"))
    clock.now = 5.0
    work.take(measured("weights", "reading", Measure("bytes", 50 * MIB, 200 * MIB)))
    work.take(Event("progress", "requests", "tokenising"))
    assert shown(work, 120) == [
        "1/3 builds  50.0 MiB  5 s",
        "- requests  5 s  tokenising",
        "- weights  [====>           ]  25%  50.0/200.0 MiB  10.0 MiB/s  ETA 15 s  reading",
    ]


def test_tokens_give_the_rate_and_requests_the_end() -> None:
    clock = Clock()
    work = Work(clock)
    work.take(Event("start", "run"))
    for clock.now, requests, tokens in ((0.0, 0, 0), (4.0, 2, 320)):
        work.take(
            measured(
                "run", "generating", Measure("requests", requests, 8), Measure("tokens", tokens)
            )
        )
    work.take(Event("progress", "run", "2 of 8 requests finished"))
    [line] = shown(work, 120)
    assert "25%  2/8 requests  320 tokens  80 tokens/s  ETA 12 s  generating  2 of 8" in line


def test_on_80_columns_the_figures_stay_and_the_bar_makes_room() -> None:
    """Amount, rate and time to go are what a line is for."""
    clock = Clock()
    work = Work(clock)
    work.take(Event("start", "quickstart-generation"))
    for clock.now, requests, tokens in ((0.0, 0, 0), (4.0, 2, 320)):
        amounts = Measure("requests", requests, 8), Measure("tokens", tokens)
        work.take(measured("quickstart-generation", "generating", *amounts))
    [line] = shown(work, 80)
    assert "25%  2/8 requests  320 tokens  80 tokens/s  ETA 12 s" in line
    assert "[==" not in line
    [wide] = shown(work, 120)
    assert "[====>           ]  25%  2/8 requests" in wide


def test_a_measured_part_that_is_over_makes_room_for_what_is_said_next() -> None:
    work = Work(Clock())
    work.take(Event("start", "run"))
    work.take(measured("run", "verifying the model", Measure("bytes", 5, 5)))
    work.take(Event("progress", "run", "engine loaded"))
    assert shown(work) == ["| run  0 s  engine loaded"]


def test_bytes_add_up_over_tasks_and_their_parts() -> None:
    work = Work(Clock())
    for done in (10, 30):
        work.take(measured("a", "reading", Measure("bytes", done, 30)))
    for done in (0, 5):
        work.take(measured("a", "verifying", Measure("bytes", done, 5)))
    work.take(measured("b", "reading", Measure("bytes", 7)))
    assert work.bytes == 42


def test_the_longest_transfer_stands_last() -> None:
    work = Work(Clock())
    work.take(measured("large", "reading", Measure("bytes", 0, 3)))
    work.take(measured("small", "reading", Measure("bytes", 0, 2)))
    work.take(Event("start", "build"))
    assert [line.split()[1] for line in shown(work)] == ["build", "small", "large"]


def test_a_stop_is_shown_first_even_on_a_narrow_terminal() -> None:
    work = Work(Clock())
    work.take(Event("start", "a"))
    assert shown(work, 20, stopping="stopping; press Ctrl-C again")[0].startswith("stopping;")


def test_failures_are_counted() -> None:
    work = Work(Clock())
    for event in (planned(3), Event("start", "a"), Event("failed", "a", "no disk")):
        work.take(event)
    assert shown(work) == ["1/3 builds  1 failed  0 s"]


def test_what_does_not_fit_is_counted() -> None:
    work = Work(Clock())
    work.take(planned(9))
    for number in range(9):
        work.take(Event("start", f"build-{number}"))
    lines = shown(work, rows=6)
    assert len(lines) == 5
    assert lines[-1] == "  and 6 more"


def test_a_rate_is_that_of_the_last_seconds_and_falls_to_nothing_in_a_stall() -> None:
    window = Window()
    assert window.rate(0.0) is None
    window.add(0.0, 0)
    assert window.rate(0.1) is None
    for second in range(1, 31):
        window.add(float(second), 100 * second if second <= 15 else 1500 + 10 * (second - 15))
    assert window.rate(30.0) == 10.0
    assert (window.rate(30.0 + 9 * WINDOW_SECONDS) or 0.0) < 2.0


def test_a_rate_begins_anew_when_the_amount_does() -> None:
    window = Window()
    window.add(0.0, 1000)
    window.add(1.0, 0)
    window.add(2.0, 50)
    assert window.rate(2.0) == 50.0


@settings(max_examples=60, deadline=None)
@given(st.lists(events, max_size=12), sizes, st.sampled_from(["utf-8", "ascii"]), st.booleans())
def test_whatever_happens_no_line_is_too_long_and_no_frame_too_high(
    happened: list[Event], size: tuple[int, int], encoding: str, stopping: bool
) -> None:
    clock = Clock()
    work = Work(clock)
    columns, rows = size
    for event in happened:
        clock.now += 0.7
        work.take(event)
        lines = frame(
            work,
            columns=columns,
            rows=rows,
            style=style_for(encoding, color=True),
            stopping="stopping; press Ctrl-C again" if stopping else "",
        )
        assert len(lines) < max(1, rows) or not lines
        for line in lines:
            assert display_width(line.plain) < columns
            assert one_line(line.plain) == line.plain
            assert _COLOR.sub("", line.painted) == line.plain
    assert work.finished <= work.planned


@given(st.text(), st.integers(0, 40), st.sampled_from(["…", "..."]))
def test_a_cut_text_fits_and_is_the_beginning(text: str, width: int, mark: str) -> None:
    short = cut(text, width, mark)
    assert display_width(short) <= width
    assert short == text or text.startswith(short.removesuffix(mark))


def test_wide_characters_count_double_and_marks_nothing() -> None:
    assert [display_width(text) for text in ("ab", "模型", "e\u0301", "")] == [2, 4, 1, 0]
    assert cut("模型模型", 6) == "模型…"
    assert rows_taken("模型模型", 5) == 2
    assert rows_taken("模型模型", 3) == 4


def test_characters_of_uncertain_width_are_left_out() -> None:
    assert settled("a\u200db\u00ad ❤\ufe0f e\u0301") == "ab ❤ e\u0301"


def test_a_stream_that_knows_only_ascii_gets_only_ascii() -> None:
    for encoding in ("ascii", None, "no such encoding"):
        assert (style_for(encoding, color=False).spinner + "...").isascii()
    assert not style_for("utf-8", color=False).spinner.isascii()


def test_no_colour_is_written_where_none_is_wanted() -> None:
    work = Work(Clock())
    work.take(planned(1))
    work.take(Event("start", "a"))
    for line in frame(work, columns=80, rows=24, style=style_for("utf-8", color=False)):
        assert line.painted == line.plain


steps = st.lists(
    st.tuples(
        st.lists(events, max_size=4),
        st.lists(st.text(st.characters(categories=("L", "N", "P")), max_size=50), max_size=2),
    ),
    max_size=8,
)


@given(st.data(), steps)
@settings(max_examples=60, deadline=None)
def test_after_any_course_of_work_only_the_lines_that_stay_are_on_the_screen(
    data: st.DataObject, course: list[tuple[list[Event], list[str]]]
) -> None:
    screen = Screen(80, 24)
    written = StringIO()
    work, canvas = Work(Clock()), Canvas()
    kept: list[str] = []
    for happened, above in course:
        for event in happened:
            work.take(event)
        lines = frame(work, columns=screen.columns, rows=screen.rows, style=STYLE)
        kept += above
        text = canvas.paint(above, lines, columns=screen.columns, rows=screen.rows)
        written.write(text)
        screen.feed(text)
        if data.draw(st.booleans()):
            screen.resize(data.draw(st.integers(20, 120)), 24)
    screen.feed(canvas.paint([], [], columns=screen.columns, rows=screen.rows))
    assert _without_blanks(screen.lines()) == _without_blanks(kept)
    assert screen.cursor[1] == 0
    assert "?25" not in written.getvalue()


def _without_blanks(lines: list[str]) -> str:
    return "".join("".join(lines).split())


def test_an_unchanged_frame_is_not_written_again() -> None:
    work, canvas = Work(Clock()), Canvas()
    work.take(Event("start", "a"))
    lines = frame(work, columns=80, rows=24, style=STYLE)
    assert canvas.paint([], lines, columns=80, rows=24)
    assert not canvas.paint([], lines, columns=80, rows=24)
