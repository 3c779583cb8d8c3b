"""The tokenizer of a GGUF file, as the files that the tokenizers library and chat templates want.

Byte-level BPE alone is converted, with those ways of splitting a text before it that are known by name: a file names
the way and does not describe it, so an unknown one would have to be guessed.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from dis_derivations.artifacts.gguf_header import GgufHeader
from dis_derivations.conversion.gguf_values import (
    flag,
    malformed,
    text,
    texts,
    token_id,
    unsupported,
)

_PREFIX = "tokenizer.ggml."
# What is read below; ids of further tokens and scores change nothing.
_READ = {
    "model", "pre", "tokens", "token_type", "merges", "add_bos_token", "add_eos_token", "add_space_prefix",
}  # fmt: skip
_NORMAL, _CONTROL, _USER_DEFINED, _UNUSED = 1, 3, 4, 5
_NAMED = {"bos": "bos_token", "eos": "eos_token", "unknown": "unk_token", "padding": "pad_token"}
# The tokens that end an answer: end of text, of a turn, of a message.
_ENDS = ("eos", "eot", "eom")


def _byte_level(*, splits: bool) -> dict[str, Any]:
    return {
        "type": "ByteLevel",
        "add_prefix_space": False,
        "trim_offsets": True,
        "use_regex": splits,
    }


def _split_by(pattern: str) -> dict[str, Any]:
    split = {
        "type": "Split",
        "pattern": {"Regex": pattern},
        "behavior": "Isolated",
        "invert": False,
    }
    return {"type": "Sequence", "pretokenizers": [split, _byte_level(splits=False)]}


def _modern(digits: str) -> str:
    """Return the pattern of newer tokenizers, which differ in how they group digits."""
    return (
        r"(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|"
        + digits
        + r"| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+"
    )


@dataclass(frozen=True)
class _Splitting:
    """What a name in `tokenizer.ggml.pre` stands for.

    Attributes:
        pre_tokenizer: In the form of tokenizer.json.
        normalizer: What is done to a text before.
        whole_words: Whether a piece that is a token is taken without looking at merges.
        begins: Whether a text begins with the token for that, where the file does not say.
    """

    pre_tokenizer: Mapping[str, Any]
    normalizer: Mapping[str, Any] | None = None
    whole_words: bool = False
    begins: bool = False


_SPLITTINGS = {
    "gpt-2": _Splitting(_byte_level(splits=True)),
    "smollm": _Splitting(
        {
            "type": "Sequence",
            "pretokenizers": [
                {"type": "Digits", "individual_digits": True},
                _byte_level(splits=True),
            ],
        }
    ),
    "llama-bpe": _Splitting(_split_by(_modern(r"\p{N}{1,3}")), whole_words=True, begins=True),
    "qwen2": _Splitting(_split_by(_modern(r"\p{N}")), normalizer={"type": "NFC"}),
}


@dataclass(frozen=True)
class GgufTokenizer:
    """A tokenizer in the terms of Hugging Face.

    Attributes:
        tokenizer: `tokenizer.json`.
        tokenizer_config: `tokenizer_config.json`.
        special_ids: `bos_token_id` and others, for `config.json` and `generation_config.json`.
        chat_template: As text; None where the file has none.
    """

    tokenizer: Mapping[str, Any]
    tokenizer_config: Mapping[str, Any]
    special_ids: Mapping[str, Any]
    chat_template: str | None


def read_tokenizer(header: GgufHeader, *, rows: int, context: int) -> GgufTokenizer:
    """Return the tokenizer that a file holds.

    Args:
        header: The file's.
        rows: How many tokens the model has.
        context: How many tokens a text may have.

    Raises:
        UnsupportedWeightsError: Its kind, its way of splitting a text or a setting is not known.
        UnreadableWeightsError: A value is missing, malformed or contradicts another.
    """
    splitting = _splitting(header)
    tokens = texts(header, f"{_PREFIX}tokens")
    if len(tokens) != rows:
        raise malformed(f"{_PREFIX}tokens", f"there are {len(tokens)}, and the model has {rows}")
    kinds = _kinds(header, len(tokens))
    vocabulary = {token: number for number, token in enumerate(tokens) if kinds[number] != _UNUSED}
    if len(vocabulary) != len(tokens) - kinds.count(_UNUSED):
        raise malformed(f"{_PREFIX}tokens", "a token is there twice")
    ids = {name: token_id(header, name, len(tokens)) for name in (*_NAMED, *_ENDS)}
    return GgufTokenizer(
        tokenizer={
            "version": "1.0",
            "truncation": None,
            "padding": None,
            "added_tokens": [
                _added(number, tokens[number], special=kind == _CONTROL)
                for number, kind in enumerate(kinds)
                if kind in {_CONTROL, _USER_DEFINED}
            ],
            "normalizer": splitting.normalizer,
            "pre_tokenizer": splitting.pre_tokenizer,
            "post_processor": _post_processor(header, splitting, tokens, ids["bos"]),
            "decoder": _byte_level(splits=True),
            "model": {
                "type": "BPE",
                "dropout": None,
                "unk_token": None,
                "continuing_subword_prefix": None,
                "end_of_word_suffix": None,
                "fuse_unk": False,
                "byte_fallback": False,
                "ignore_merges": splitting.whole_words,
                "vocab": vocabulary,
                "merges": _merges(header, vocabulary),
            },
        },
        tokenizer_config={
            "clean_up_tokenization_spaces": False,
            "model_max_length": context,
            "tokenizer_class": "PreTrainedTokenizerFast",
            **{
                key: tokens[found]
                for name, key in _NAMED.items()
                if (found := ids[name]) is not None
            },
        },
        special_ids=_special_ids(ids),
        chat_template=text(header, "tokenizer.chat_template"),
    )


def _splitting(header: GgufHeader) -> _Splitting:
    """Return how a text is split, when all that is said of the tokenizer is known."""
    model, name = text(header, f"{_PREFIX}model"), text(header, f"{_PREFIX}pre")
    if model != "gpt2":
        raise unsupported(f"the tokenizer {model!r}", "it converts gpt2, which is byte-level BPE")
    if name not in _SPLITTINGS:
        known = ", ".join(sorted(_SPLITTINGS))
        raise unsupported(f"the pre-tokenizer {name!r}", f"it knows {known}, and does not guess")
    for key in header.values:
        setting = key.removeprefix(_PREFIX)
        if setting in {key, "scores"} or setting in _READ or setting.endswith("_token_id"):
            continue
        raise unsupported(f"the setting {key}")
    for setting in ("add_eos_token", "add_space_prefix"):
        if flag(header, _PREFIX + setting):
            raise unsupported(f"the setting {_PREFIX}{setting}", "it is true")
    return _SPLITTINGS[name]


def _kinds(header: GgufHeader, count: int) -> tuple[int, ...]:
    key = f"{_PREFIX}token_type"
    kinds = header.values.get(key)
    if not isinstance(kinds, tuple) or len(kinds) != count:
        raise malformed(key, f"it must have one number for each of {count} tokens")
    if unknown := set(kinds) - {_NORMAL, _CONTROL, _USER_DEFINED, _UNUSED}:
        raise unsupported(f"tokens of the type {min(unknown, key=str)!r}", f"{key} has one")
    return tuple(map(int, kinds))


def _merges(header: GgufHeader, vocabulary: Mapping[str, int]) -> list[list[str]]:
    key = f"{_PREFIX}merges"
    merges = [merge.split(" ") for merge in texts(header, key)]
    for merge in merges:
        if len(merge) != 2 or any(part not in vocabulary for part in (*merge, "".join(merge))):  # noqa: PLR2004 - a pair
            raise malformed(key, f"{' '.join(merge)!r:.80} does not join two tokens to a third")
    if len({tuple(merge) for merge in merges}) != len(merges):
        raise malformed(key, "a pair is there twice")
    return merges


def _added(number: int, token: str, *, special: bool) -> dict[str, Any]:
    return {
        "id": number,
        "content": token,
        "single_word": False,
        "lstrip": False,
        "rstrip": False,
        "normalized": False,
        "special": special,
    }


def _post_processor(
    header: GgufHeader, splitting: _Splitting, tokens: Sequence[str], first: int | None
) -> dict[str, Any] | None:
    """Return what puts the token for the beginning before a text, where that is wanted."""
    if not flag(header, f"{_PREFIX}add_bos_token", default=splitting.begins):
        return None
    if first is None:
        raise malformed(f"{_PREFIX}add_bos_token", "there is no token to begin a text with")
    token = tokens[first]
    begin = {"SpecialToken": {"id": token, "type_id": 0}}
    return {
        "type": "TemplateProcessing",
        "single": [begin, {"Sequence": {"id": "A", "type_id": 0}}],
        "pair": [
            begin,
            {"Sequence": {"id": "A", "type_id": 0}},
            {"Sequence": {"id": "B", "type_id": 0}},
        ],
        "special_tokens": {token: {"id": token, "ids": [first], "tokens": [token]}},
    }


def _special_ids(ids: Mapping[str, int | None]) -> dict[str, Any]:
    ends = [ids[name] for name in _ENDS if ids[name] is not None]
    found = {
        "bos_token_id": ids["bos"],
        "eos_token_id": list(dict.fromkeys(ends)) or None,
        "pad_token_id": ids["padding"],
    }
    return {key: value for key, value in found.items() if value is not None}
