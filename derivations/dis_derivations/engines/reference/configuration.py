"""What a model's config.json says, checked, and what this engine does not know refused by name."""

from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass
from typing import Any

from dis_derivations.engines.reference.attention import MOST_POSITIONS, HeadLayout
from dis_store.errors import InvalidInputError, UnfitEnvironmentError


@dataclass(frozen=True)
class ModelConfiguration:
    """A decoder-only transformer of the Llama kind.

    Attributes:
        context: The longest sequence the model was made for.
        projection_bias: Whether the query, key, value projections add a bias.
        output_bias: Whether the attention's output projection adds one.
        mlp_bias: Whether the three projections of the feed-forward part add one.
        end_token_ids: The end-of-sequence tokens that config.json names.
    """

    family: str
    vocabulary: int
    hidden_size: int
    intermediate_size: int
    layers: int
    heads: HeadLayout
    context: int
    norm_epsilon: float
    rope_theta: float
    tied_head: bool
    projection_bias: bool
    output_bias: bool
    mlp_bias: bool
    end_token_ids: frozenset[int]


def check_supported(config: Mapping[str, Any]) -> None:
    """Check that the engine can run the model that config.json describes.

    Raises:
        UnfitEnvironmentError: The model needs something this engine does not have.
        InvalidInputError: A value is missing, malformed or contradicts another.
    """
    parse_configuration(config)


def parse_configuration(config: Mapping[str, Any]) -> ModelConfiguration:
    """Return the checked form of config.json.

    Raises:
        UnfitEnvironmentError: The model needs something this engine does not have.
        InvalidInputError: A value is missing, malformed or contradicts another.
    """
    family = config.get("model_type")
    if not isinstance(family, str) or family not in _FAMILIES:
        raise unsupported(f"model_type {family!r}", f"it runs {', '.join(sorted(_FAMILIES))}")
    return _FAMILIES[family](config)


def unsupported(what: str, cause: str | None = None) -> UnfitEnvironmentError:
    """Return the refusal of something that the engine does not have."""
    return UnfitEnvironmentError(
        f"the reference engine of this version of dis does not support {what}", cause=cause
    )


def _llama(config: Mapping[str, Any]) -> ModelConfiguration:
    _require_only(config, "architectures", ["LlamaForCausalLM"])
    attention_bias = _flag(config, "attention_bias")
    return _decoder(
        config,
        projection_bias=attention_bias,
        output_bias=attention_bias,
        mlp_bias=_flag(config, "mlp_bias"),
    )


_FAMILIES: Mapping[str, Callable[[Mapping[str, Any]], ModelConfiguration]] = {"llama": _llama}


def _decoder(
    config: Mapping[str, Any], *, projection_bias: bool, output_bias: bool, mlp_bias: bool
) -> ModelConfiguration:
    """Read what all families share; what they differ in comes as arguments."""
    if config.get("quantization_config") is not None:
        raise unsupported("quantised weights", "config.json has a quantization_config")
    if config.get("hidden_act", "silu") not in ("silu", "swish"):
        raise unsupported(f"hidden_act {config['hidden_act']!r}", "it knows silu")
    hidden = _count(config, "hidden_size")
    return ModelConfiguration(
        family=config["model_type"],
        vocabulary=_count(config, "vocab_size"),
        hidden_size=hidden,
        intermediate_size=_count(config, "intermediate_size"),
        layers=_count(config, "num_hidden_layers"),
        heads=_heads(config, hidden),
        context=_count(config, "max_position_embeddings", 2048),
        norm_epsilon=_positive(config, "rms_norm_eps", 1e-6),
        rope_theta=_rope_theta(config),
        tied_head=_flag(config, "tie_word_embeddings"),
        projection_bias=projection_bias,
        output_bias=output_bias,
        mlp_bias=mlp_bias,
        end_token_ids=end_token_ids(config, "config.json") or frozenset(),
    )


def _heads(config: Mapping[str, Any], hidden: int) -> HeadLayout:
    queries = _count(config, "num_attention_heads")
    keys = _count(config, "num_key_value_heads", queries)
    if queries % keys:
        raise _malformed(
            "num_key_value_heads", f"{keys} does not divide num_attention_heads, {queries}"
        )
    if config.get("head_dim") is None and hidden % queries:
        raise _malformed("num_attention_heads", f"{queries} does not divide hidden_size, {hidden}")
    size = _count(config, "head_dim", hidden // queries)
    if size % 2:
        raise _malformed("head_dim", f"rotary embedding needs an even number, and it is {size}")
    return HeadLayout(queries, keys, size)


def _rope_theta(config: Mapping[str, Any]) -> float:
    """Read the base of the rotary embedding in the form of transformers 5 or the older one."""
    for key in ("rope_parameters", "rope_scaling"):
        parameters = config.get(key)
        if parameters is None:
            continue
        if not isinstance(parameters, Mapping):
            raise _malformed(key, "it must be an object or null")
        kind = parameters.get("rope_type", parameters.get("type", "default"))
        if kind != "default":
            raise unsupported(f"{key} of type {kind!r}", "it knows the default rotary embedding")
        _refuse_unknown(key, parameters, {"rope_type", "type", "rope_theta"})
    if config.get("partial_rotary_factor") not in (None, 1):
        raise unsupported(f"partial_rotary_factor {config['partial_rotary_factor']!r}")
    nested = config.get("rope_parameters") or {}
    return _positive(nested if "rope_theta" in nested else config, "rope_theta", 10000.0)


def _refuse_unknown(name: str, value: Mapping[str, Any], known: Collection[str]) -> None:
    unknown = sorted(set(value) - set(known))
    if unknown:
        raise unsupported(f"{name}.{unknown[0]}")


def _require_only(config: Mapping[str, Any], key: str, value: object) -> None:
    if config.get(key) is not None and config[key] != value:
        raise unsupported(f"{key} {config[key]!r}", f"for {config['model_type']} it knows {value}")


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
        raise _malformed("eos_token_id", "it must be a token id or a list of them", name)
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


def _count(config: Mapping[str, Any], key: str, default: int | None = None) -> int:
    value = config.get(key)
    if value is None and default is not None:
        value = default
    if type(value) is not int or value < 1:
        raise _malformed(key, f"it must be a positive integer, and is {value!r}")
    return value


def _positive(config: Mapping[str, Any], key: str, default: float) -> float:
    value = config.get(key)
    if value is None:
        return default
    if isinstance(value, bool) or not isinstance(value, int | float) or not value > 0:
        raise _malformed(key, f"it must be a positive number, and is {value!r}")
    return float(value)


def _flag(config: Mapping[str, Any], key: str) -> bool:
    value = config.get(key, False)
    if not isinstance(value, bool):
        raise _malformed(key, f"it must be true or false, and is {value!r}")
    return value


def _malformed(key: str, cause: str, name: str = "config.json") -> InvalidInputError:
    return InvalidInputError(f"{key} in {name} cannot be used", cause=cause)
