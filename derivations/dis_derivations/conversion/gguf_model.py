"""Which model a GGUF file holds: its `config.json`, and where each tensor of its checkpoint comes from.

Only what is known to mean the same in both forms is converted. Every setting of the architecture and every tensor must
be accounted for; one that is left over is refused by its name.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from dis_derivations.artifacts.gguf_header import GgufHeader, GgufTensor, Value
from dis_derivations.conversion.gguf_values import (
    count,
    malformed,
    number,
    text,
    unsupported,
)

MAX_LAYERS = 1 << 10


@dataclass(frozen=True)
class ConvertedTensor:
    """A tensor of the checkpoint.

    Attributes:
        source: Where its numbers are.
        heads: Where the rows were reordered for another rotary embedding, the heads that they are rows of; else None.
    """

    source: GgufTensor
    heads: int | None = None


@dataclass(frozen=True)
class GgufModel:
    """A model in the terms of Hugging Face.

    Attributes:
        config: Its `config.json`.
        tensors: Its checkpoint, by the names there.
    """

    config: Mapping[str, Any]
    tensors: Mapping[str, ConvertedTensor]


@dataclass(frozen=True)
class _Architecture:
    """What is known of an architecture.

    Attributes:
        pairs_rotated: Whether queries and keys are laid out for a rotation of neighbours, where the checkpoint's are
            for one of halves.
        biases: The projections of the attention that have a bias.
        settings: What its `config.json` says beside what is read from the file.
    """

    config_class: str
    pairs_rotated: bool
    biases: tuple[str, ...]
    settings: Mapping[str, Any]


_ARCHITECTURES = {
    "llama": _Architecture(
        "LlamaForCausalLM", pairs_rotated=True, biases=(), settings={"attention_bias": False, "mlp_bias": False}
    ),
    "qwen2": _Architecture(
        "Qwen2ForCausalLM", pairs_rotated=False, biases=("q", "k", "v"), settings={"use_sliding_window": False}
    ),
}  # fmt: skip

# What is read below, without the architecture's name before it.
_READ = {
    "block_count", "context_length", "embedding_length", "feed_forward_length", "attention.head_count",
    "attention.head_count_kv", "attention.key_length", "attention.value_length", "attention.layer_norm_rms_epsilon",
    "rope.freq_base", "rope.dimension_count", "vocab_size",
}  # fmt: skip
# What may be said as well, as long as it changes nothing.
_NEUTRAL: Mapping[str, Value] = {
    "expert_count": 0,
    "expert_used_count": 0,
    "rope.scaling.type": "none",
    "attention.causal": True,
}
_TENSORS = {
    "attn_norm": "input_layernorm",
    "ffn_norm": "post_attention_layernorm",
    "attn_q": "self_attn.q_proj",
    "attn_k": "self_attn.k_proj",
    "attn_v": "self_attn.v_proj",
    "attn_output": "self_attn.o_proj",
    "ffn_gate": "mlp.gate_proj",
    "ffn_up": "mlp.up_proj",
    "ffn_down": "mlp.down_proj",
}


def read_model(header: GgufHeader) -> GgufModel:
    """Return the model that a file holds.

    Raises:
        UnsupportedWeightsError: Its architecture, a setting or a tensor is not known.
        UnreadableWeightsError: A value is missing or malformed, or a tensor does not fit.
    """
    name = text(header, "general.architecture")
    if name not in _ARCHITECTURES:
        raise unsupported(
            f"the architecture {name!r}", f"it converts {', '.join(sorted(_ARCHITECTURES))}"
        )
    if text(header, "general.type") not in {None, "model"}:
        raise unsupported(f"the type {text(header, 'general.type')!r}", "it converts whole models")
    if "split.count" in header.values and header.values["split.count"] != 1:
        raise unsupported("weights in several files", "merge them: llama-gguf-split --merge")
    _refuse_unknown(header, name)
    config = _config(header, name)
    return GgufModel(config, _tensors(header, _ARCHITECTURES[name], config))


def _refuse_unknown(header: GgufHeader, name: str) -> None:
    for key, value in header.values.items():
        setting = key.removeprefix(f"{name}.")
        if setting == key or setting in _READ:
            continue
        if setting not in _NEUTRAL or value != _NEUTRAL[setting]:
            raise unsupported(f"the setting {key}", f"it is {value!r:.80}")


def _config(header: GgufHeader, name: str) -> dict[str, Any]:
    heads = count(header, f"{name}.attention.head_count")
    hidden = count(header, f"{name}.embedding_length")
    layers = count(header, f"{name}.block_count")
    if layers > MAX_LAYERS:
        raise malformed(f"{name}.block_count", f"{layers} is no number of layers")
    size = _head_size(header, name, hidden, heads)
    architecture = _ARCHITECTURES[name]
    vocabulary = _vocabulary(header, name)
    return {
        "architectures": [architecture.config_class],
        "model_type": name,
        "vocab_size": vocabulary,
        "hidden_size": hidden,
        "intermediate_size": count(header, f"{name}.feed_forward_length"),
        "num_hidden_layers": layers,
        "num_attention_heads": heads,
        "num_key_value_heads": count(header, f"{name}.attention.head_count_kv", heads),
        "head_dim": size,
        "max_position_embeddings": count(header, f"{name}.context_length"),
        "hidden_act": "silu",
        "rms_norm_eps": number(header, f"{name}.attention.layer_norm_rms_epsilon"),
        "rope_theta": number(header, f"{name}.rope.freq_base", 10000.0),
        "rope_scaling": None,
        "tie_word_embeddings": "output.weight" not in header.tensors,
        "torch_dtype": "bfloat16",
        **architecture.settings,
    }


def _head_size(header: GgufHeader, name: str, hidden: int, heads: int) -> int:
    key = f"{name}.attention.key_length"
    if key not in header.values and hidden % heads:
        raise malformed(f"{name}.attention.head_count", f"{heads} does not divide {hidden}")
    size = count(header, key, hidden // heads)
    if size % 2:
        raise malformed(key, f"rotary embedding needs an even number, and it is {size}")
    if (values := count(header, f"{name}.attention.value_length", size)) != size:
        raise unsupported("values of another length than keys", f"{values} and {size}")
    if (rotated := count(header, f"{name}.rope.dimension_count", size)) != size:
        raise unsupported("heads that are rotated in part", f"{rotated} of {size}")
    return size


def _vocabulary(header: GgufHeader, name: str) -> int:
    embedding = header.tensors.get("token_embd.weight")
    if embedding is None:
        raise malformed("token_embd.weight", "there is no such tensor")
    rows = embedding.shape[0]
    if (said := count(header, f"{name}.vocab_size", rows)) != rows:
        raise malformed(f"{name}.vocab_size", f"it is {said}, and the embedding has {rows} rows")
    return rows


def _tensors(
    header: GgufHeader, architecture: _Architecture, config: Mapping[str, Any]
) -> dict[str, ConvertedTensor]:
    untaken = dict(header.tensors)
    heads = {"attn_q": config["num_attention_heads"], "attn_k": config["num_key_value_heads"]}

    def take(name: str, shape: tuple[int, ...], heads: int | None = None) -> ConvertedTensor:
        found = untaken.pop(name, None)
        if found is None:
            raise malformed(name, "there is no such tensor")
        if found.shape != shape:
            raise malformed(name, f"its shape is {list(found.shape)}, and must be {list(shape)}")
        return ConvertedTensor(found, heads)

    hidden, vocabulary = config["hidden_size"], config["vocab_size"]
    tensors = {
        "model.embed_tokens.weight": take("token_embd.weight", (vocabulary, hidden)),
        "model.norm.weight": take("output_norm.weight", (hidden,)),
    }
    if not config["tie_word_embeddings"]:
        tensors["lm_head.weight"] = take("output.weight", (vocabulary, hidden))
    shapes = _layer_shapes(config)
    for layer in range(config["num_hidden_layers"]):
        for name, target in _TENSORS.items():
            reordered = heads.get(name) if architecture.pairs_rotated else None
            tensors[f"model.layers.{layer}.{target}.weight"] = take(
                f"blk.{layer}.{name}.weight", shapes[name], reordered
            )
        for letter in architecture.biases:
            tensors[f"model.layers.{layer}.self_attn.{letter}_proj.bias"] = take(
                f"blk.{layer}.attn_{letter}.bias", shapes[f"attn_{letter}"][:1]
            )
    if untaken:
        raise unsupported(
            f"the tensor {min(untaken)}",
            f"the checkpoint of a {config['model_type']} model has no place for it",
        )
    return tensors


def _layer_shapes(config: Mapping[str, Any]) -> dict[str, tuple[int, ...]]:
    hidden, inner = config["hidden_size"], config["intermediate_size"]
    queries = config["num_attention_heads"] * config["head_dim"]
    keys = config["num_key_value_heads"] * config["head_dim"]
    return {
        "attn_norm": (hidden,),
        "ffn_norm": (hidden,),
        "attn_q": (queries, hidden),
        "attn_k": (keys, hidden),
        "attn_v": (keys, hidden),
        "attn_output": (hidden, queries),
        "ffn_gate": (inner, hidden),
        "ffn_up": (inner, hidden),
        "ffn_down": (hidden, inner),
    }
