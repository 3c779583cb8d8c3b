"""What a model's config.json says, in the form that the engine computes with."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from dis_derivations.engines.reference.attention import MOST_POSITIONS, HeadLayout
from dis_derivations.engines.reference.config_values import malformed
from dis_derivations.engines.reference.rotary_scaling import Rotation
from dis_store.errors import InvalidInputError, UnfitEnvironmentError


@dataclass(frozen=True)
class LayerKind:
    """What the layers of one model may differ in.

    Attributes:
        window: How many positions a position attends to, itself included; None: all before it.
        rotates: Whether queries and keys are turned by their positions.
    """

    window: int | None = None
    rotates: bool = True


@dataclass(frozen=True)
class ModelConfiguration:
    """A decoder-only transformer of the Llama kind.

    Attributes:
        layers: What each layer is like.
        context: The longest sequence the model was made for.
        projection_bias: Whether the query, key, value projections add a bias.
        output_bias: Whether the attention's output projection adds one.
        mlp_bias: Whether the three projections of the feed-forward part add one.
        head_norms: Whether each query and key head is normalised.
        end_token_ids: The end-of-sequence tokens that config.json names.
    """

    family: str
    vocabulary: int
    hidden_size: int
    intermediate_size: int
    layers: tuple[LayerKind, ...]
    heads: HeadLayout
    context: int
    norm_epsilon: float
    rotation: Rotation
    tied_head: bool
    projection_bias: bool
    output_bias: bool
    mlp_bias: bool
    head_norms: bool
    end_token_ids: frozenset[int]


def end_token_ids(document: Mapping[str, Any], name: str) -> frozenset[int] | None:
    """Return the `eos_token_id` of a document, or None where it says nothing.

    Raises:
        InvalidInputError: It is neither a token id nor a list of them.
    """
    value = document.get("eos_token_id")
    if value is None:
        return None
    ids = value if isinstance(value, list) else [value]
    if not all(type(item) is int and item >= 0 for item in ids):
        raise malformed("eos_token_id", "it must be a token id or a list of them", name)
    return frozenset(ids)


def effective_context(configuration: ModelConfiguration, max_model_len: int | None) -> int:
    """Return how long a sequence may become: the smaller wish, checked.

    Raises:
        InvalidInputError: `max_model_len` is beyond what the model was made for.
        UnfitEnvironmentError: The length is beyond what the engine's sums are exact for.
    """
    length = configuration.context if max_model_len is None else max_model_len
    if not 1 <= length <= configuration.context:
        raise InvalidInputError(
            f"max_model_len {length} does not fit the model",
            cause=f"config.json says max_position_embeddings {configuration.context}",
            hint=f"set vllm.engine_args.max_model_len to at most {configuration.context}",
        )
    if length > MOST_POSITIONS:
        raise UnfitEnvironmentError(
            f"the reference engine does not run contexts of {length} positions",
            cause=f"its sums over positions are exact up to {MOST_POSITIONS}",
            hint=f"set vllm.engine_args.max_model_len to at most {MOST_POSITIONS}",
        )
    return length
