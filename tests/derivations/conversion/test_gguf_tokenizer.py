"""Tokenizers of GGUF files: they split texts as llama.cpp does, and what cannot be known is refused."""

import json
from pathlib import Path
from typing import Any

import pytest
from tokenizers import Tokenizer

from checkpoints import END_OF_TEXT, CheckpointShape
from dis_derivations.artifacts.regular_file import UnreadableWeightsError, UnsupportedWeightsError
from dis_derivations.conversion.gguf_checkpoint import read_checkpoint
from dis_derivations.conversion.gguf_tokenizer import GgufTokenizer
from gguf_files import TEMPLATE, write_gguf
from pair_vocabulary import pair_vocabulary

RECORDED = json.loads(Path(__file__).with_name("llama_cpp_tokens.json").read_text("utf-8"))
SHAPE = CheckpointShape(vocabulary=300, hidden=32, intermediate=32, layers=1)


def converted(path: Path, shape: CheckpointShape = SHAPE, **changes: Any) -> GgufTokenizer:
    write_gguf(path / "m.gguf", shape, **changes)
    return read_checkpoint(path / "m.gguf", name="m.gguf").tokenizer


def loaded(converted: GgufTokenizer) -> Tokenizer:
    return Tokenizer.from_str(json.dumps(converted.tokenizer))


@pytest.mark.parametrize("pre", RECORDED["token_ids"])
def test_texts_become_the_tokens_that_llama_cpp_makes_of_them(tmp_path: Path, pre: str) -> None:
    values = pair_vocabulary()
    shape = CheckpointShape(
        vocabulary=len(values["tokenizer.ggml.tokens"]),
        hidden=32,
        intermediate=32,
        layers=1,
        tied=True,
    )
    tokenizer = loaded(converted(tmp_path, shape, pre=pre, changes=values))
    for text, expected in zip(RECORDED["texts"], RECORDED["token_ids"][pre], strict=True):
        assert tokenizer.encode(text).ids == expected, text
        assert tokenizer.decode(expected, skip_special_tokens=False) == text


def test_special_tokens_and_the_template_are_taken_over(tmp_path: Path) -> None:
    ids = {"bos": 10, "eot": 257, "eom": END_OF_TEXT, "padding": 258, "unknown": 259}
    found = converted(
        tmp_path,
        changes={f"tokenizer.ggml.{name}_token_id": number for name, number in ids.items()},
    )
    tokens = {number: token for token, number in found.tokenizer["model"]["vocab"].items()}
    assert found.special_ids == {
        "bos_token_id": 10,
        "eos_token_id": [256, 257],
        "pad_token_id": 258,
    }
    named = {"eos_token": tokens[256], "bos_token": tokens[10], "unk_token": tokens[259]}
    assert named.items() <= found.tokenizer_config.items()
    assert found.tokenizer_config["model_max_length"] == SHAPE.context
    assert found.chat_template == TEMPLATE


def test_a_file_without_special_tokens_and_template_has_none(tmp_path: Path) -> None:
    found = converted(tmp_path, template=None, changes={"tokenizer.ggml.eos_token_id": None})
    assert (found.special_ids, found.chat_template) == ({}, None)


def test_a_text_begins_with_the_token_for_it_where_the_file_or_its_kind_says_so(
    tmp_path: Path,
) -> None:
    begin = {"tokenizer.ggml.bos_token_id": END_OF_TEXT}
    plain = loaded(converted(tmp_path)).encode("ab").ids
    asked = converted(tmp_path, changes={**begin, "tokenizer.ggml.add_bos_token": True})
    usual = converted(
        tmp_path, pre="llama-bpe", changes={**begin, "tokenizer.ggml.add_bos_token": None}
    )
    forbidden = converted(tmp_path, pre="llama-bpe", changes=begin)
    assert loaded(asked).encode("ab").ids == [END_OF_TEXT, *plain]
    assert loaded(usual).encode("ab").ids == [END_OF_TEXT, *plain]
    assert loaded(forbidden).encode("ab").ids == plain


def test_unused_tokens_are_no_tokens_and_those_of_users_are_found_whole(tmp_path: Path) -> None:
    kinds = [1] * 300
    kinds[END_OF_TEXT], kinds[298], kinds[299] = 3, 4, 5
    tokens = [f"<{number}>" if number > 297 else None for number in range(300)]
    values = converted(tmp_path).tokenizer["model"]["vocab"]
    names = sorted(values, key=values.__getitem__)
    found = converted(
        tmp_path,
        changes={
            "tokenizer.ggml.tokens": [new or old for new, old in zip(tokens, names, strict=True)],
            "tokenizer.ggml.token_type": kinds,
            "tokenizer.ggml.merges": ["a a"],
        },
    )
    tokenizer = loaded(found)
    assert tokenizer.encode("a<298>").ids == [ord("a"), 298]
    assert 299 not in tokenizer.encode("<299>").ids
    assert tokenizer.decode([298]) == "<298>"
    assert tokenizer.decode([END_OF_TEXT]) == ""


UNKNOWN = {
    "another kind of tokenizer": ({"tokenizer.ggml.model": "llama"}, "the tokenizer 'llama'"),
    "no kind": ({"tokenizer.ggml.model": None}, "the tokenizer None"),
    "another way to split": ({"tokenizer.ggml.pre": "tekken"}, "the pre-tokenizer 'tekken'"),
    "no way to split": ({"tokenizer.ggml.pre": None}, "the pre-tokenizer None"),
    "an unknown setting": (
        {"tokenizer.ggml.remove_extra_whitespaces": True},
        "remove_extra_whitespaces",
    ),
    "an end after each text": ({"tokenizer.ggml.add_eos_token": True}, "add_eos_token"),
    "a space before each text": ({"tokenizer.ggml.add_space_prefix": True}, "add_space_prefix"),
    "tokens of an unknown type": ({"tokenizer.ggml.token_type": [6] * 300}, "tokens of the type 6"),
}
BROKEN = {
    "too few tokens": ({"tokenizer.ggml.tokens": ["a", "b"]}, "there are 2, and the model has 300"),
    "a token twice": ({"tokenizer.ggml.tokens": ["a"] * 300}, "a token is there twice"),
    "tokens that are numbers": ({"tokenizer.ggml.tokens": [1] * 300}, "list of texts"),
    "too few types": ({"tokenizer.ggml.token_type": [1]}, "one number for each of 300"),
    "a merge of unknown tokens": ({"tokenizer.ggml.merges": ["a zz"]}, "does not join two tokens"),
    "a merge of three": ({"tokenizer.ggml.merges": ["a a a"]}, "does not join two tokens"),
    "a merge twice": ({"tokenizer.ggml.merges": ["a a", "a a"]}, "a pair is there twice"),
    "an end that is no token": ({"tokenizer.ggml.eos_token_id": 300}, "below 300"),
    "a beginning that is not there": ({"tokenizer.ggml.add_bos_token": True}, "no token to begin"),
    "a flag that is a number": ({"tokenizer.ggml.add_bos_token": 1}, "true or false"),
    "a template that is a number": ({"tokenizer.chat_template": 1}, "must be a text"),
}


@pytest.mark.parametrize("case", UNKNOWN)
def test_what_would_have_to_be_guessed_is_refused_by_its_name(tmp_path: Path, case: str) -> None:
    changes, words = UNKNOWN[case]
    with pytest.raises(UnsupportedWeightsError, match=words):
        converted(tmp_path, changes=changes)


@pytest.mark.parametrize("case", BROKEN)
def test_what_contradicts_itself_is_refused(tmp_path: Path, case: str) -> None:
    changes, words = BROKEN[case]
    with pytest.raises(UnreadableWeightsError) as refusal:
        converted(tmp_path, changes=changes)
    assert words in str(refusal.value)
