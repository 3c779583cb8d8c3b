"""The families of models that the engine runs, each read from its own form of config.json.

What a key means, and what its absence means, is what transformers' configuration of the family
says. A key that would change what is computed, and that the engine does not know, is refused.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from dis_derivations.engines.reference.attention import HeadLayout
from dis_derivations.engines.reference.config_values import (
    Config,
    count,
    flag,
    malformed,
    per_layer,
    positive,
    require_only,
    unsupported,
)
from dis_derivations.engines.reference.configuration import (
    LayerKind,
    ModelConfiguration,
    end_token_ids,
)
from dis_derivations.engines.reference.rotary_scaling import read_rotation
from dis_store.errors import InvalidInputError

_BIASES = ("attention_bias", "mlp_bias")
_FULL, _SLIDING = "full_attention", "sliding_attention"
_MOST_LAYERS = 1 << 16
"""Of a model: a bound on what is made from a number in a file. Models stay below 200."""


def check_supported(config: object) -> None:
    """Check that the engine can run the model that config.json describes.

    Raises:
        UnfitEnvironmentError: The model needs something this engine does not have.
        InvalidInputError: A value is missing, malformed or contradicts another.
    """
    parse_configuration(config)


def parse_configuration(config: object) -> ModelConfiguration:
    """Return the checked form of config.json, given as the JSON value that it holds.

    Raises:
        UnfitEnvironmentError: The model needs something this engine does not have.
        InvalidInputError: It is no object, or a value is missing, malformed or contradicts another.
    """
    if not isinstance(config, Mapping):
        raise InvalidInputError("config.json is not a JSON object")
    name = config.get("model_type")
    if not isinstance(name, str) or name not in _FAMILIES:
        raise unsupported(f"model_type {name!r}", f"it runs {', '.join(sorted(_FAMILIES))}")
    family = _FAMILIES[name]
    config = {**family.defaults, **config}
    require_only(config, "architectures", [family.architecture])
    if config.get("quantization_config") is not None:
        raise unsupported("quantised weights", "config.json has a quantization_config")
    if config.get("hidden_act", "silu") not in ("silu", "swish"):
        raise unsupported(f"hidden_act {config['hidden_act']!r}", "it knows silu")
    hidden = count(config, "hidden_size")
    heads = _heads(config, hidden)
    layers = count(config, "num_hidden_layers")
    if layers > _MOST_LAYERS:
        raise malformed("num_hidden_layers", f"{layers} is no number of layers")
    context = count(config, "max_position_embeddings", family.defaults["max_position_embeddings"])
    attention_bias, mlp_bias = (_bias(config, key, family) for key in _BIASES)
    return ModelConfiguration(
        family=name,
        vocabulary=count(config, "vocab_size"),
        hidden_size=hidden,
        intermediate_size=count(config, "intermediate_size"),
        layers=family.layers(config, layers),
        heads=heads,
        context=context,
        norm_epsilon=positive(config, "rms_norm_eps", 1e-6),
        rotation=read_rotation(config, heads.size, context, family.theta),
        tied_head=flag(config, "tie_word_embeddings"),
        projection_bias=attention_bias or family.biased_projections,
        output_bias=attention_bias,
        mlp_bias=mlp_bias,
        head_norms=family.head_norms,
        end_token_ids=end_token_ids(config, "config.json") or frozenset(),
    )


def _heads(config: Config, hidden: int) -> HeadLayout:
    queries = count(config, "num_attention_heads")
    keys = count(config, "num_key_value_heads", queries)
    if queries % keys:
        raise malformed(
            "num_key_value_heads", f"{keys} does not divide num_attention_heads, {queries}"
        )
    if config.get("head_dim") is None and hidden % queries:
        raise malformed("num_attention_heads", f"{queries} does not divide hidden_size, {hidden}")
    size = count(config, "head_dim", hidden // queries)
    if size % 2:
        raise malformed("head_dim", f"rotary embedding needs an even number, and it is {size}")
    return HeadLayout(queries, keys, size)


def _bias(config: Config, key: str, family: "_Family") -> bool:
    if flag(config, key) and key not in family.biases:
        raise unsupported(f"{key} in a {config['model_type']} model", "the family has none")
    return flag(config, key)


def _alike(_config: Config, layers: int) -> tuple[LayerKind, ...]:
    """Return layers that all attend to everything before."""
    return (LayerKind(),) * layers


def _window(config: Config) -> int | None:
    return None if config.get("sliding_window") is None else count(config, "sliding_window")


def _mistral_layers(config: Config, layers: int) -> tuple[LayerKind, ...]:
    """Read one window for all layers; null is none."""
    window = _window(config)
    kind = _FULL if window is None else _SLIDING
    if config.get("layer_types") not in (None, [kind] * layers):
        raise unsupported("layer_types in a mistral model", "it knows one window for all layers")
    return (LayerKind(window),) * layers


def _qwen_layers(config: Config, layers: int) -> tuple[LayerKind, ...]:
    """Read a window for the layers from `max_window_layers` on, or for those of `layer_types`."""
    window = _window(config) if flag(config, "use_sliding_window") else None
    first = config["max_window_layers"]
    if type(first) is not int or first < 0:
        raise malformed("max_window_layers", f"it must be a number of layers, and is {first!r}")
    usual = [window is not None and layer >= first for layer in range(layers)]
    return tuple(LayerKind(kind) for kind in _windows(config, window, usual))


def _smollm3_layers(config: Config, layers: int) -> tuple[LayerKind, ...]:
    """Read which layers do not turn queries and keys; a window is for those alone."""
    rotates = per_layer(config, "no_rope_layers", layers)
    if rotates is None:
        interval = count(config, "no_rope_layer_interval", 4)
        rotates = [int((layer + 1) % interval != 0) for layer in range(layers)]
    if not all(type(value) is int and value in (0, 1) for value in rotates):
        raise malformed("no_rope_layers", "its values must be 1 for rotary embedding, 0 for none")
    window = _window(config) if flag(config, "use_sliding_window") else None
    usual = [window is not None and not value for value in rotates]
    windows = _windows(config, window, usual)
    return tuple(LayerKind(kind, value == 1) for kind, value in zip(windows, rotates, strict=True))


def _windows(config: Config, window: int | None, usual: list[bool]) -> list[int | None]:
    """Return each layer's window: as `layer_types` says, or as usual where it is missing."""
    kinds = per_layer(config, "layer_types", len(usual))
    if kinds is None:
        return [window if slides else None for slides in usual]
    for kind in kinds:
        if kind not in (_FULL, _SLIDING):
            raise unsupported(f"layer_types {kind!r}", f"it knows {_FULL} and {_SLIDING}")
    if window is None and _SLIDING in kinds:
        raise malformed("layer_types", f"it has {_SLIDING}, and no sliding window is used")
    return [window if kind == _SLIDING else None for kind in kinds]


@dataclass(frozen=True)
class _Family:
    """What the configurations of one family have in common.

    Attributes:
        architecture: The one of transformers' classes that the engine computes.
        defaults: What a missing key means, where it means something.
        layers: Reads what each layer is like.
        theta: The base of the rotary embedding where nothing else is said.
        biases: Which keys of config.json say whether projections add a bias.
        biased_projections: Whether query, key, value add one always.
        head_norms: Whether each query and key head is normalised.
    """

    architecture: str
    defaults: Mapping[str, Any]
    layers: Callable[[Config, int], tuple[LayerKind, ...]] = _alike
    theta: float = 10000.0
    biases: tuple[str, ...] = ()
    biased_projections: bool = False
    head_norms: bool = False


_QWEN = {
    "num_key_value_heads": 32,
    "max_position_embeddings": 32768,
    "sliding_window": 4096,
    "max_window_layers": 28,
}
_FAMILIES: Mapping[str, _Family] = {
    "llama": _Family("LlamaForCausalLM", {"max_position_embeddings": 2048}, biases=_BIASES),
    "mistral": _Family(
        "MistralForCausalLM",
        {
            "num_key_value_heads": 8,
            "max_position_embeddings": 131072,
            "sliding_window": 4096,
        },
        layers=_mistral_layers,
    ),
    "qwen2": _Family("Qwen2ForCausalLM", _QWEN, layers=_qwen_layers, biased_projections=True),
    "qwen3": _Family(
        "Qwen3ForCausalLM",
        {**_QWEN, "head_dim": 128},
        layers=_qwen_layers,
        biases=("attention_bias",),
        head_norms=True,
    ),
    "smollm3": _Family(
        "SmolLM3ForCausalLM",
        {
            "num_key_value_heads": 4,
            "max_position_embeddings": 32768,
            "tie_word_embeddings": True,
        },
        layers=_smollm3_layers,
        theta=2000000.0,
        biases=_BIASES,
    ),
}
