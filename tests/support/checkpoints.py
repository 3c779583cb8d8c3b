"""Small random checkpoints in Hugging Face's form, written without any of its libraries."""

import json
import struct
from collections.abc import Mapping
from dataclasses import dataclass, field
from math import prod, sqrt
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

END_OF_TEXT = 256
"""The id of `<|end|>`, the one special token; ids below are the 256 bytes."""


class _Numbers:
    """Numbers by integer arithmetic alone: the same on every machine and for every numpy."""

    def __init__(self, seed: int) -> None:
        self._seed = seed
        self._made = 0

    def next(self, shape: tuple[int, ...], bound: float) -> NDArray[np.float32]:
        """Return the next numbers, spread evenly between -bound and bound."""
        count = prod(shape)
        state = np.arange(self._made, self._made + count, dtype=np.uint64)
        self._made += count
        state += np.uint64(self._seed << 40)
        for factor, shift in ((0x9E3779B97F4A7C15, 29), (0xBF58476D1CE4E5B9, 32)):
            state *= np.uint64(factor)
            state ^= state >> np.uint64(shift)
        unit = (state >> np.uint64(40)).astype(np.float64) / 2**23 - 1.0
        return np.asarray(unit * bound, dtype=np.float32).reshape(shape)


_QWEN2_BIASES = {"self_attn.q_proj", "self_attn.k_proj", "self_attn.v_proj"}

Tensors = Mapping[str, NDArray[np.float32]]


_ARCHITECTURES = {
    "llama": "LlamaForCausalLM",
    "mistral": "MistralForCausalLM",
    "qwen2": "Qwen2ForCausalLM",
    "qwen3": "Qwen3ForCausalLM",
    "smollm3": "SmolLM3ForCausalLM",
}


@dataclass(frozen=True)
class CheckpointShape:
    """A small model, a Llama unless said otherwise.

    The vocabulary holds the 256 bytes, `<|end|>` and words of several bytes.
    """

    vocabulary: int = 300
    hidden: int = 64
    intermediate: int = 96
    layers: int = 2
    queries: int = 4
    keys: int = 2
    context: int = 256
    tied: bool = False
    bias: bool = False
    dtype: str = "BF16"
    files: int = 1
    family: str = "llama"
    head: int | None = None
    config: Mapping[str, Any] = field(default_factory=dict)

    def document(self) -> dict[str, Any]:
        """Return the config.json."""
        return {
            "architectures": [_ARCHITECTURES[self.family]],
            "model_type": self.family,
            **({} if self.head is None else {"head_dim": self.head}),
            "vocab_size": self.vocabulary,
            "hidden_size": self.hidden,
            "intermediate_size": self.intermediate,
            "num_hidden_layers": self.layers,
            "num_attention_heads": self.queries,
            "num_key_value_heads": self.keys,
            "max_position_embeddings": self.context,
            "hidden_act": "silu",
            "rms_norm_eps": 1e-5,
            "rope_theta": 10000.0,
            "rope_scaling": None,
            "attention_bias": self.bias,
            "mlp_bias": self.bias,
            "tie_word_embeddings": self.tied,
            "eos_token_id": END_OF_TEXT,
            **self.config,
        }


def random_tensors(shape: CheckpointShape, seed: int) -> dict[str, NDArray[np.float32]]:
    """Return the weights of a seeded random model, large enough that its logits are spread."""
    numbers = _Numbers(seed)
    head = shape.head or shape.hidden // shape.queries
    width = {"q": shape.queries * head, "k": shape.keys * head, "v": shape.keys * head}

    def matrix(outputs: int, inputs: int) -> NDArray[np.float32]:
        return numbers.next((outputs, inputs), 2.0 / sqrt(inputs))

    def norm(width: int = shape.hidden) -> NDArray[np.float32]:
        return np.float32(1) + numbers.next((width,), 0.3)

    def has_bias(name: str) -> bool:
        return shape.bias or (shape.family == "qwen2" and name in _QWEN2_BIASES)

    tensors = {"model.embed_tokens.weight": matrix(shape.vocabulary, shape.hidden)}
    for layer in range(shape.layers):
        prefix = f"model.layers.{layer}."
        linears = {
            **{f"self_attn.{name}_proj": (width[name], shape.hidden) for name in "qkv"},
            "self_attn.o_proj": (shape.hidden, width["q"]),
            "mlp.gate_proj": (shape.intermediate, shape.hidden),
            "mlp.up_proj": (shape.intermediate, shape.hidden),
            "mlp.down_proj": (shape.hidden, shape.intermediate),
        }
        for name, sizes in linears.items():
            tensors[f"{prefix}{name}.weight"] = matrix(*sizes)
            if has_bias(name):
                tensors[f"{prefix}{name}.bias"] = matrix(sizes[0], 1)[:, 0] * np.float32(0.1)
        if shape.family == "qwen3":
            for name in "qk":
                tensors[f"{prefix}self_attn.{name}_norm.weight"] = norm(head)
        tensors[f"{prefix}input_layernorm.weight"] = norm()
        tensors[f"{prefix}post_attention_layernorm.weight"] = norm()
    tensors["model.norm.weight"] = norm()
    if not shape.tied:
        tensors["lm_head.weight"] = matrix(shape.vocabulary, shape.hidden)
    return tensors


def write_checkpoint(directory: Path, shape: CheckpointShape, seed: int = 1) -> dict[str, Path]:
    """Write a random model, and return its files by name."""
    directory.mkdir(parents=True, exist_ok=True)
    write_weights(directory, random_tensors(shape, seed), shape.dtype, shape.files)
    (directory / "config.json").write_text(json.dumps(shape.document()), "utf-8")
    generation = {"eos_token_id": [END_OF_TEXT], "do_sample": False}
    (directory / "generation_config.json").write_text(json.dumps(generation), "utf-8")
    write_tokenizer(directory / "tokenizer.json", shape.vocabulary)
    return files_of(directory)


def files_of(directory: Path) -> dict[str, Path]:
    """Return the files of a model directory by name."""
    return {path.name: path for path in sorted(directory.iterdir())}


def write_weights(directory: Path, tensors: Tensors, dtype: str, files: int = 1) -> None:
    """Write tensors as one safetensors file, or as several with an index."""
    if files == 1:
        write_safetensors(directory / "model.safetensors", tensors, dtype)
        return
    names = list(tensors)
    places: dict[str, str] = {}
    for number in range(files):
        file = f"model-{number + 1:05}-of-{files:05}.safetensors"
        chosen = names[number::files]
        write_safetensors(directory / file, {name: tensors[name] for name in chosen}, dtype)
        places.update(dict.fromkeys(chosen, file))
    index = {"metadata": {}, "weight_map": places}
    (directory / "model.safetensors.index.json").write_text(json.dumps(index), "utf-8")


def write_safetensors(path: Path, tensors: Tensors, dtype: str) -> None:
    """Write one safetensors file, rounding the numbers to `dtype`: BF16, F16 or F32."""
    header: dict[str, Any] = {"__metadata__": {"format": "pt"}}
    chunks: list[bytes] = []
    position = 0
    for name, tensor in tensors.items():
        data = encode_numbers(tensor, dtype)
        span = [position, position + len(data)]
        header[name] = {"dtype": dtype, "shape": list(tensor.shape), "data_offsets": span}
        chunks.append(data)
        position += len(data)
    text = json.dumps(header).encode()
    text += b" " * (-len(text) % 8)
    path.write_bytes(struct.pack("<Q", len(text)) + text + b"".join(chunks))


def encode_numbers(tensor: NDArray[np.float32], dtype: str) -> bytes:
    """Return the little-endian bytes of numbers rounded to a dtype (half to even)."""
    if dtype == "F32":
        return tensor.astype("<f4").tobytes()
    if dtype == "F16":
        return tensor.astype("<f2").tobytes()
    bits = np.ascontiguousarray(tensor, dtype=np.float32).view(np.uint32)
    rounded = bits + np.uint32(0x7FFF) + ((bits >> np.uint32(16)) & np.uint32(1))
    return (rounded >> np.uint32(16)).astype("<u2").tobytes()


def write_tokenizer(path: Path, vocabulary: int) -> None:
    """Write a byte-level tokenizer.json: 256 bytes, `<|end|>`, then pairs of bytes as words."""
    from tokenizers import AddedToken, Tokenizer, decoders, models, pre_tokenizers

    letters = byte_letters()
    words = {letters[byte]: byte for byte in range(256)}
    words["<|end|>"] = END_OF_TEXT
    merges: list[tuple[str, str]] = []
    for number in range(vocabulary - len(words)):
        # aa, ba, ca, …: plain letters first, then bytes that are parts of characters.
        first = letters[(ord("a") + number % 256) % 256]
        second = letters[(ord("a") + number // 256) % 256]
        merges.append((first, second))
        words[first + second] = len(words)
    tokenizer = Tokenizer(models.BPE(vocab=words, merges=merges))
    tokenizer.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    tokenizer.decoder = decoders.ByteLevel()
    tokenizer.add_special_tokens([AddedToken("<|end|>", special=True)])
    tokenizer.save(str(path))


def byte_letters() -> list[str]:
    """Return the printable letter that byte-level tokenizers use for each byte."""
    printable = [*range(33, 127), *range(161, 173), *range(174, 256)]
    others = (byte for byte in range(256) if byte not in printable)
    letters = {byte: chr(byte) for byte in printable}
    letters.update({byte: chr(256 + number) for number, byte in enumerate(others)})
    return [letters[byte] for byte in range(256)]
