"""The quickstart checkpoint that ships with the project, and the script that writes its text."""

import json
import struct
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest
from jinja2.sandbox import ImmutableSandboxedEnvironment
from tokenizers import Tokenizer

QUICKSTART = Path(__file__).resolve().parents[2] / "configs" / "quickstart"
MODEL = QUICKSTART / "model"
WRITER = QUICKSTART / "training" / "write_corpus.py"
SIZE_LIMIT = 4_000_000

Messages = list[dict[str, str]]


def load(path: Path) -> dict[str, Any]:
    document: dict[str, Any] = json.loads(path.read_text("utf-8"))
    return document


def tensor_headers() -> tuple[dict[str, Any], int]:
    """The safetensors header's tensors and the number of bytes behind the header."""
    data = (MODEL / "model.safetensors").read_bytes()
    (length,) = struct.unpack("<Q", data[:8])
    header: dict[str, Any] = json.loads(data[8 : 8 + length])
    header.pop("__metadata__")
    return header, len(data) - 8 - length


def expected_shapes(config: Mapping[str, Any]) -> dict[str, list[int]]:
    hidden, inner = config["hidden_size"], config["intermediate_size"]
    queries = config["num_attention_heads"] * config["head_dim"]
    keys = config["num_key_value_heads"] * config["head_dim"]
    layer = {
        "input_layernorm": [hidden],
        "mlp.down_proj": [hidden, inner],
        "mlp.gate_proj": [inner, hidden],
        "mlp.up_proj": [inner, hidden],
        "post_attention_layernorm": [hidden],
        "self_attn.k_proj": [keys, hidden],
        "self_attn.o_proj": [hidden, queries],
        "self_attn.q_proj": [queries, hidden],
        "self_attn.v_proj": [keys, hidden],
    }
    shapes = {
        "model.embed_tokens.weight": [config["vocab_size"], hidden],
        "model.norm.weight": [hidden],
    }
    for index in range(config["num_hidden_layers"]):
        shapes |= {f"model.layers.{index}.{name}.weight": shape for name, shape in layer.items()}
    return shapes


def conversations() -> list[Messages]:
    found: list[Messages] = load(QUICKSTART / "prompts.json")["conversations"]
    return found


def render(messages: Messages) -> str:
    template = (MODEL / "chat_template.jinja").read_text("utf-8")
    environment = ImmutableSandboxedEnvironment()
    return environment.from_string(template).render(messages=messages, add_generation_prompt=True)


def written_corpus(seed: int) -> bytes:
    command = [sys.executable, str(WRITER), "--documents", "300", "--seed", str(seed)]
    return subprocess.run(command, check=True, capture_output=True).stdout


def test_the_tensors_have_the_shapes_that_the_config_names() -> None:
    config = load(MODEL / "config.json")
    headers, _ = tensor_headers()
    assert {name: entry["shape"] for name, entry in headers.items()} == expected_shapes(config)
    assert config["tie_word_embeddings"]


def test_the_tensors_are_bfloat16_and_fill_the_file_without_gaps() -> None:
    headers, size = tensor_headers()
    assert {entry["dtype"] for entry in headers.values()} == {"BF16"}
    place = 0
    for begin, end in sorted(entry["data_offsets"] for entry in headers.values()):
        assert begin == place
        place = end
    assert place == size


def test_the_model_directory_is_small() -> None:
    assert sum(path.stat().st_size for path in MODEL.iterdir()) <= SIZE_LIMIT


def test_the_tokenizer_fills_the_vocabulary_and_knows_the_end() -> None:
    tokenizer = Tokenizer.from_file(str(MODEL / "tokenizer.json"))
    config = load(MODEL / "config.json")
    assert tokenizer.get_vocab_size() == config["vocab_size"]
    assert tokenizer.token_to_id("<|end|>") == config["eos_token_id"]
    assert load(MODEL / "generation_config.json")["eos_token_id"] == [config["eos_token_id"]]


@pytest.mark.parametrize("messages", conversations(), ids=lambda found: found[-1]["content"])
def test_a_rendered_prompt_survives_the_tokenizer(messages: Messages) -> None:
    tokenizer = Tokenizer.from_file(str(MODEL / "tokenizer.json"))
    text = render(messages)
    encoding = tokenizer.encode(text)
    assert tokenizer.decode(encoding.ids, skip_special_tokens=False) == text
    assert encoding.tokens[-1] == "<|assistant|>"
    assert encoding.tokens.count("<|end|>") == len(messages)


def test_any_text_survives_the_tokenizer() -> None:
    tokenizer = Tokenizer.from_file(str(MODEL / "tokenizer.json"))
    text = "Größe, 東京,\ttabs\n  and   spaces 🦊"
    assert tokenizer.decode(tokenizer.encode(text).ids) == text


def test_both_homes_of_the_chat_template_agree() -> None:
    template = (MODEL / "chat_template.jinja").read_text("utf-8")
    assert load(MODEL / "tokenizer_config.json")["chat_template"] == template


def test_the_corpus_depends_on_the_seed_alone() -> None:
    first = written_corpus(7)
    assert first == written_corpus(7)
    assert first != written_corpus(8)


def test_the_corpus_leaves_no_mark_of_the_grammar() -> None:
    for line in written_corpus(7).decode().splitlines():
        document = json.loads(line)
        texts = [m["content"] for m in document.get("conversation", [])] or [document["text"]]
        for text in texts:
            assert text
            assert not set(text) & set("[]{}<>|")
