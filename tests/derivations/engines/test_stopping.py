"""A sequence ends where its request and its model say, and its text is cut there."""

from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from checkpoints import END_OF_TEXT, write_tokenizer
from dis_derivations.engines.reference.stopping import (
    Decode,
    Finish,
    StopRule,
    find_stop_string,
    open_decoder,
)
from dis_store.errors import InvalidInputError
from engine_runs import greedy_request


@pytest.fixture(scope="module")
def decode(tmp_path_factory: pytest.TempPathFactory) -> Decode:
    path = tmp_path_factory.mktemp("tokenizer") / "tokenizer.json"
    write_tokenizer(path, 1024)
    return open_decoder(path)


def first_finish(rule: StopRule, output: bytes | list[int]) -> tuple[int, Finish] | None:
    """Feed tokens one by one; return after how many the rule ends the sequence, and how."""
    for count in range(1, len(output) + 1):
        finish = rule.finish(list(output[:count]))
        if finish is not None:
            return count, finish
    return None


def rule(
    decode: Decode, *strings: str, token_ids: tuple[int, ...] = (), most: int = 1000
) -> StopRule:
    request = greedy_request("r", [1, 2], max_tokens=most, strings=strings, token_ids=token_ids)
    return StopRule(request, frozenset({END_OF_TEXT}), 500, decode)


def test_the_end_of_sequence_token_stops_without_a_reason(decode: Decode) -> None:
    assert first_finish(rule(decode), [*b"ab", END_OF_TEXT]) == (3, Finish("stop", None, "ab"))


def test_a_stop_token_is_the_reason_and_leaves_no_text(decode: Decode) -> None:
    found = first_finish(rule(decode, token_ids=(ord("c"),)), b"abcd")
    assert found == (3, Finish("stop", ord("c"), "ab"))


def test_the_end_of_sequence_wins_over_the_same_stop_token(decode: Decode) -> None:
    found = first_finish(rule(decode, token_ids=(END_OF_TEXT,)), [END_OF_TEXT])
    assert found == (1, Finish("stop", None, ""))


def test_a_stop_string_over_several_tokens_is_cut_off(decode: Decode) -> None:
    assert first_finish(rule(decode, "cd"), b"abcde") == (4, Finish("stop", "cd", "ab"))


def test_text_after_a_stop_string_in_the_same_token_is_cut_off(decode: Decode) -> None:
    two_letters = 257  # the token "aa"
    assert first_finish(rule(decode, "xa"), [ord("x"), two_letters]) == (
        2,
        Finish("stop", "xa", ""),
    )


def test_the_earliest_stop_string_is_the_reason(decode: Decode) -> None:
    two_letters = 257
    found = first_finish(rule(decode, "aa", "xa"), [ord("x"), two_letters])
    assert found == (2, Finish("stop", "xa", ""))


def test_of_two_stop_strings_in_one_place_the_first_named_is_the_reason() -> None:
    assert find_stop_string("abc", ("bc", "b")) == (1, "bc")
    assert find_stop_string("abc", ("b", "bc")) == (1, "b")


def test_a_stop_string_wins_over_the_length(decode: Decode) -> None:
    found = first_finish(rule(decode, "c", most=3), b"abcd")
    assert found == (3, Finish("stop", "c", "ab"))


def test_the_length_ends_a_sequence_with_all_its_text(decode: Decode) -> None:
    assert first_finish(rule(decode, most=3), b"abcd") == (3, Finish("length", None, "abc"))


def test_the_context_ends_a_sequence(decode: Decode) -> None:
    count, finish = first_finish(rule(decode), b"a" * 600) or (0, None)
    assert count == 498
    assert finish is not None
    assert finish.finish_reason == "length"


def test_a_character_split_over_tokens_is_found_when_it_is_complete(decode: Decode) -> None:
    found = first_finish(rule(decode, "é"), "aé".encode())
    assert found == (3, Finish("stop", "é", "a"))


def test_an_incomplete_character_is_no_replacement_character_yet(decode: Decode) -> None:
    assert first_finish(rule(decode, "\ufffd"), "a€".encode()) is None


def test_bytes_that_never_become_a_character_are_replacement_characters(decode: Decode) -> None:
    count, finish = first_finish(rule(decode, "\ufffd"), b"a\xffbc") or (0, None)
    assert (count, finish) == (3, Finish("stop", "\ufffd", "a"))


def test_special_tokens_leave_no_text(tmp_path: Path) -> None:
    write_tokenizer(tmp_path / "tokenizer.json", 300)
    assert open_decoder(tmp_path / "tokenizer.json")([97, END_OF_TEXT, 98]) == "ab"


def test_a_file_that_is_no_tokenizer_is_refused(tmp_path: Path) -> None:
    (tmp_path / "tokenizer.json").write_text("{}")
    with pytest.raises(InvalidInputError, match=r"tokenizer\.json cannot be read"):
        open_decoder(tmp_path / "tokenizer.json")


@settings(deadline=None)
@given(
    st.text("abé€😀", max_size=12), st.lists(st.text("abé€😀", min_size=1, max_size=3), max_size=3)
)
def test_stopping_token_by_token_cuts_before_the_first_stop_string(
    decode: Decode, text: str, strings: list[str]
) -> None:
    """Byte by byte, the first stop string to be complete ends the text; one token is one byte."""
    found = first_finish(rule(decode, *strings), text.encode())
    ends = [text.find(string) + len(string) for string in strings if string in text]
    if not ends:
        assert found is None
        return
    assert found is not None
    count, finish = found
    assert count == len(text[: min(ends)].encode())
    assert isinstance(finish.stop_reason, str)
    assert finish.text + finish.stop_reason == text[: min(ends)]
