"""Small GGUF files, written by the library of the format's authors from checkpoints in Hugging Face's form."""

import json
import struct
import tempfile
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import gguf
import numpy as np
from numpy.typing import NDArray

from checkpoints import END_OF_TEXT, CheckpointShape, random_tensors, write_tokenizer

TEMPLATE = "{% for message in messages %}{{ message['content'] }}{% endfor %}<|end|>"
_NAMES = {
    "self_attn.q_proj": "attn_q",
    "self_attn.k_proj": "attn_k",
    "self_attn.v_proj": "attn_v",
    "self_attn.o_proj": "attn_output",
    "mlp.gate_proj": "ffn_gate",
    "mlp.up_proj": "ffn_up",
    "mlp.down_proj": "ffn_down",
    "input_layernorm": "attn_norm",
    "post_attention_layernorm": "ffn_norm",
}
Arrays = Mapping[str, NDArray[Any]]


def write_gguf(
    path: Path,
    shape: CheckpointShape,
    *,
    seed: int = 1,
    stored: str = "BF16",
    pre: str = "gpt-2",
    template: str | None = TEMPLATE,
    changes: Mapping[str, Any] | None = None,
    extra: Arrays | None = None,
) -> Path:
    """Write the random model of a shape and a seed.

    Args:
        path: Where.
        shape: Of a family `llama` or `qwen2`.
        seed: What the weights are made from.
        stored: The number format of its matrices; vectors are single precision.
        pre: The name of its way of splitting a text.
        template: Its chat template.
        changes: Values to add, or to put in the place of others; None leaves one out.
        extra: Tensors to add, by their names in the file.
    """
    writer = gguf.GGUFWriter(path, shape.family)
    for key, value in {**_values(shape, pre, template), **(changes or {})}.items():
        _add_value(writer, key, value)
    for name, tensor in {**gguf_tensors(shape, seed), **(extra or {})}.items():
        kind = "F32" if tensor.ndim == 1 else stored
        form = gguf.GGMLQuantizationType[kind]
        data = tensor if kind == "F32" else gguf.quants.quantize(tensor, form)
        writer.add_tensor(name, np.ascontiguousarray(data), raw_dtype=form)
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()
    return path


def gguf_tensors(shape: CheckpointShape, seed: int) -> dict[str, NDArray[np.float32]]:
    """Return the weights of a model under the names, and in the order of rows, that the format has."""
    found: dict[str, NDArray[np.float32]] = {}
    heads = {"attn_q": shape.queries, "attn_k": shape.keys}
    for name, tensor in random_tensors(shape, seed).items():
        target = _target(name)
        reordered = heads.get(target.split(".")[-2]) if shape.family == "llama" else None
        found[target] = tensor if reordered is None else _for_pairs(tensor, reordered)
    return found


def _target(name: str) -> str:
    whole = {
        "model.embed_tokens.weight": "token_embd.weight",
        "model.norm.weight": "output_norm.weight",
        "lm_head.weight": "output.weight",
    }
    if name in whole:
        return whole[name]
    _, _, layer, rest = name.split(".", 3)
    part, kind = rest.rsplit(".", 1)
    return f"blk.{layer}.{_NAMES[part]}.{kind}"


def _for_pairs(tensor: NDArray[np.float32], heads: int) -> NDArray[np.float32]:
    """Reorder the rows of a projection as the format's converter for Llama models does."""
    halves = tensor.reshape(heads, 2, tensor.shape[0] // heads // 2, *tensor.shape[1:])
    return halves.swapaxes(1, 2).reshape(tensor.shape)


def _values(shape: CheckpointShape, pre: str, template: str | None) -> dict[str, Any]:
    with tempfile.TemporaryDirectory() as directory:
        file = Path(directory) / "tokenizer.json"
        write_tokenizer(file, shape.vocabulary)
        model = json.loads(file.read_text("utf-8"))["model"]
    tokens = sorted(model["vocab"], key=model["vocab"].__getitem__)
    name = shape.family
    return {
        f"{name}.block_count": shape.layers,
        f"{name}.context_length": shape.context,
        f"{name}.embedding_length": shape.hidden,
        f"{name}.feed_forward_length": shape.intermediate,
        f"{name}.attention.head_count": shape.queries,
        f"{name}.attention.head_count_kv": shape.keys,
        f"{name}.attention.layer_norm_rms_epsilon": 1e-5,
        f"{name}.rope.freq_base": 10000.0,
        f"{name}.attention.key_length": shape.head,
        f"{name}.attention.value_length": shape.head,
        "tokenizer.ggml.model": "gpt2",
        "tokenizer.ggml.pre": pre,
        "tokenizer.ggml.tokens": tokens,
        "tokenizer.ggml.token_type": [3 if number == END_OF_TEXT else 1 for number in range(len(tokens))],
        "tokenizer.ggml.merges": [" ".join(merge) for merge in model["merges"]],
        "tokenizer.ggml.eos_token_id": END_OF_TEXT,
        "tokenizer.ggml.add_bos_token": False,
        "tokenizer.chat_template": template,
    }  # fmt: skip


def _add_value(writer: "gguf.GGUFWriter", key: str, value: Any) -> None:
    if value is None:
        return
    if isinstance(value, bool):
        writer.add_bool(key, value)
    elif isinstance(value, int):
        writer.add_uint32(key, value)
    elif isinstance(value, float):
        writer.add_float32(key, value)
    elif isinstance(value, str):
        writer.add_string(key, value)
    else:
        writer.add_array(key, value)


def text_bytes(text: str) -> bytes:
    """Return a text as the format writes it."""
    data = text.encode()
    return struct.pack("<Q", len(data)) + data


def raw_gguf(
    values: bytes = b"",
    tensors: bytes = b"",
    *,
    counts: tuple[int, int] = (0, 0),
    version: int = 3,
    data: bytes = b"",
) -> bytes:
    """Return a file of parts that need not fit: counts are of tensors and of values."""
    head = b"GGUF" + struct.pack("<IQQ", version, *counts) + values + tensors
    return head + bytes(-len(head) % 32) + data


def raw_tensor(name: str, shape: tuple[int, ...], kind: int = 0, offset: int = 0) -> bytes:
    """Return the description of a tensor; its shape is as the format has it, columns first."""
    return text_bytes(name) + struct.pack(f"<I{len(shape)}QIQ", len(shape), *shape, kind, offset)


def raw_value(key: str, kind: int, content: bytes) -> bytes:
    """Return a value of a type."""
    return text_bytes(key) + struct.pack("<I", kind) + content
