"""What dis itself reads of a model before an engine does: its context, its ends of sequence, its tokenizer."""

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from dis_derivations.artifacts.regular_file import read_whole
from dis_derivations.engines.reference.stopping import Decode, open_decoder
from dis_store import strict_json
from dis_store.errors import InvalidInputError

CONFIG = "config.json"
GENERATION_CONFIG = "generation_config.json"
TOKENIZER = "tokenizer.json"


@dataclass(frozen=True)
class ModelEnds:
    """What of a model ends a sequence, and how its text is read.

    Attributes:
        end_token_ids: The model's own ends of sequence.
        context: How long a sequence may become, the prompt included.
        decode: Token ids to text.
    """

    end_token_ids: frozenset[int]
    context: int
    decode: Decode


def read_config(files: Mapping[str, Path]) -> Mapping[str, Any]:
    """Return the configuration of the language model in `config.json`.

    Raises:
        InvalidInputError: There is none, or it is malformed.
    """
    document = _document(files, CONFIG)
    inner = document.get("text_config")
    # A model of several kinds of input says there what its language model is like.
    return {**document, **inner} if isinstance(inner, dict) else document


def model_ends(
    files: Mapping[str, Path], config: Mapping[str, Any], max_model_len: int | None
) -> ModelEnds:
    """Return what ends a sequence of a model: `generation_config.json` before `config.json`, and nothing by guess.

    Raises:
        InvalidInputError: The model has no tokenizer or says nothing of its context, or what it says is malformed.
    """
    context = config.get("max_position_embeddings") if max_model_len is None else max_model_len
    if not isinstance(context, int) or context < 1:
        raise InvalidInputError(
            f"{CONFIG} does not say how long a sequence may become",
            hint="say it in the manifest: --set vllm.engine_args.max_model_len=N",
        )
    ends = _end_token_ids(config, CONFIG)
    if GENERATION_CONFIG in files:
        named = _end_token_ids(_document(files, GENERATION_CONFIG), GENERATION_CONFIG)
        ends = ends if named is None else named
    if TOKENIZER not in files:
        raise InvalidInputError(f"the model has no {TOKENIZER}")
    return ModelEnds(ends or frozenset(), context, open_decoder(files[TOKENIZER]))


def _end_token_ids(document: Mapping[str, Any], name: str) -> frozenset[int] | None:
    value = document.get("eos_token_id")
    ids = value if isinstance(value, list) else [] if value is None else [value]
    if not all(isinstance(each, int) and not isinstance(each, bool) and each >= 0 for each in ids):
        raise InvalidInputError(
            f"{name} is malformed", cause="eos_token_id must be a token id or a list of them"
        )
    return None if value is None else frozenset(ids)


def _document(files: Mapping[str, Path], name: str) -> Mapping[str, Any]:
    if name not in files:
        raise InvalidInputError(f"the model has no {name}")
    document = strict_json.decode(read_whole(files[name]), name=name)
    if not isinstance(document, dict):
        raise InvalidInputError(f"{name} is not a JSON object")
    return document


def vocabulary_size(config: Mapping[str, Any]) -> int | None:
    """Return how many tokens the model's configuration says there are; None where it does not."""
    value = config.get("vocab_size")
    return value if isinstance(value, int) and value > 0 else None
