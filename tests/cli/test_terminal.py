"""Text that may reach a terminal."""

from io import StringIO

import pytest
from hypothesis import given
from hypothesis import strategies as st

from dis_command.table import aligned
from dis_command.terminal import one_line, printable, size_text, wants_color


class Terminal(StringIO):
    def isatty(self) -> bool:
        return True


@given(st.text())
def test_no_character_that_steers_a_terminal_gets_through(text: str) -> None:
    shown = printable(text)
    assert not any(ord(character) < 0x20 and character not in "\n\t" for character in shown)
    assert not set(shown) & {"\x7f", "\x9b", "\u202e", "\u2066", "\u2028"}


@given(st.text(st.characters(categories=("L", "N", "P", "Zs"))))
def test_ordinary_text_is_left_as_it_is(text: str) -> None:
    assert printable(text) == text


def test_an_escape_sequence_is_shown_and_not_obeyed() -> None:
    assert printable("\x1b[2Jgone") == "\\x1b[2Jgone"
    assert one_line("two\nlines") == "two\\nlines"


@pytest.mark.parametrize(
    ("mode", "environment", "colored"),
    [
        ("auto", {}, True),
        ("auto", {"NO_COLOR": "1"}, False),
        ("auto", {"NO_COLOR": "1", "FORCE_COLOR": "1"}, False),
        ("auto", {"TERM": "dumb"}, False),
        ("never", {"FORCE_COLOR": "1"}, False),
        ("always", {"NO_COLOR": "1"}, True),
    ],
)
def test_colour_on_a_terminal(mode: str, environment: dict[str, str], colored: bool) -> None:
    assert wants_color(Terminal(), mode, environment) is colored


@pytest.mark.parametrize(
    ("environment", "colored"),
    [({}, False), ({"FORCE_COLOR": "1"}, True), ({"CLICOLOR_FORCE": "0"}, False)],
)
def test_colour_in_a_pipe(environment: dict[str, str], colored: bool) -> None:
    assert wants_color(StringIO(), "auto", environment) is colored


@pytest.mark.parametrize(
    ("size", "text"),
    [(0, "0 B"), (1023, "1023 B"), (1024, "1.0 KiB"), (3 * 2**30, "3.0 GiB"), (2**41, "2.0 TiB")],
)
def test_sizes_are_told_in_the_largest_fitting_unit(size: int, text: str) -> None:
    assert size_text(size) == text


def test_columns_are_aligned_and_end_without_spaces() -> None:
    assert aligned([("a", "bb"), ("ccc", "d\n")]) == "a    bb\nccc  d\\n"
