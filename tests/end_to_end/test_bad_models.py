"""Configurations and tokenizers that are broken, contradict the weights, or belong to models of another kind."""

import json
from typing import Any

import pytest

from checkpoints import write_tokenizer
from users import User

CONFIG = "model/config.json"

UNSUPPORTED: dict[str, tuple[dict[str, Any], str]] = {
    "another family": ({"model_type": "mamba"}, "model_type 'mamba'"),
    "a family that steers": ({"model_type": "\x1b[2J"}, "model_type '\\x1b[2J'"),
    "no family": ({"model_type": None}, "model_type None"),
    "scaled positions": (
        {"rope_scaling": {"rope_type": "longrope", "factor": 4.0}},
        "rope_scaling of type 'longrope'",
    ),
    "quantised weights": ({"quantization_config": {"quant_method": "gptq"}}, "quantised weights"),
    "another activation": ({"hidden_act": "gelu"}, "hidden_act 'gelu'"),
}


@pytest.mark.parametrize("case", UNSUPPORTED)
def test_a_model_of_another_kind_is_refused_before_its_weights_are_read(
    user: User, case: str
) -> None:
    changes, says = UNSUPPORTED[case]
    user.edit(changes, CONFIG)
    user.write("model/model.safetensors", b"never read")
    user.refused("realize", "tiny.json", code=5, says=("does not support", says))
    user.recovers()


def test_a_model_of_another_kind_is_refused_before_anything_is_built_of_its_lock(
    user: User,
) -> None:
    """Locking asks for no engine, and brings the files of a directory into the store."""
    changes, says = UNSUPPORTED["scaled positions"]
    user.edit(changes, CONFIG)
    user.does("lock", "tiny.json")
    for argv in (("realize", "tiny.json"), ("realize", "tiny.json", "--dry-run")):
        said = user.refused(*argv, code=5, says=("does not support", says))
        assert "building" not in said
    user.recovers()


WRONG: dict[str, tuple[dict[str, Any], str]] = {
    "a smaller vocabulary": ({"vocab_size": 299}, "model.embed_tokens.weight does not fit"),
    "a vocabulary beyond memory": ({"vocab_size": 2**40}, "model.embed_tokens.weight does not"),
    "a wider model": ({"hidden_size": 128}, "does not fit config.json"),
    "heads that do not divide": ({"num_attention_heads": 3}, "does not divide"),
    "no layers": ({"num_hidden_layers": 0}, "num_hidden_layers"),
    "fewer than no layers": ({"num_hidden_layers": -1}, "num_hidden_layers"),
    "layers as text": ({"num_hidden_layers": "2"}, "num_hidden_layers"),
    "one layer more": ({"num_hidden_layers": 3}, "lack the tensor model.layers.2."),
    "layers beyond memory": ({"num_hidden_layers": 2**50}, "num_hidden_layers"),
    "no epsilon": ({"rms_norm_eps": 0}, "rms_norm_eps"),
    "a negative base": ({"rope_theta": -1.0}, "rope_theta"),
    "scaling that is a list": ({"rope_scaling": [1]}, "rope_scaling"),
    "no context": ({"max_position_embeddings": 0}, "max_position_embeddings"),
    "a context of two": ({"max_position_embeddings": 2}, "the context of 2"),
    "an end that is no token": ({"eos_token_id": "x"}, "eos_token_id"),
    "code": ({"auto_map": {"AutoModel": "modeling.Model"}}, "its auto_map has a loader import"),
    "code further down": ({"text": {"auto_map": {}}}, "its auto_map has a loader import code"),
}


@pytest.mark.parametrize("case", WRONG)
def test_a_configuration_that_does_not_fit_is_refused_by_field(user: User, case: str) -> None:
    changes, says = WRONG[case]
    user.edit(changes, CONFIG)
    user.refused("realize", "tiny.json", says=says)
    user.recovers()


TEXTS: dict[str, tuple[bytes, str]] = {
    "empty": (b"", "is not valid JSON"),
    "cut off": (b'{"model_type": "llama"', "is not valid JSON"),
    "a list": (b"[]", "is not a JSON object"),
    "a number": (b"7", "is not a JSON object"),
    "a key twice": (b'{"model_type": "llama", "model_type": "x"}', "appears twice"),
    "NaN": (b'{"rms_norm_eps": NaN}', "NaN is not a JSON number"),
    "too deep": (b"[" * 100_000, "nested deeper"),
}


@pytest.mark.parametrize("case", TEXTS)
def test_a_configuration_that_is_no_json_object_is_refused(user: User, case: str) -> None:
    text, says = TEXTS[case]
    user.write(CONFIG, text)
    user.refused("realize", "tiny.json", says=("config.json", says))
    user.recovers()


def test_a_broken_generation_config_is_refused(user: User) -> None:
    user.write("model/generation_config.json", "{")
    user.refused("realize", "tiny.json", says="generation_config.json is not valid JSON")


@pytest.mark.parametrize("name", ["modeling.py", "tokenizer.PY"])
def test_code_that_comes_with_a_model_is_refused(user: User, name: str) -> None:
    user.write(f"model/{name}", "raise SystemExit")
    user.edit({"model.config.files": [{"path": "config.json"}, {"path": name}]})
    user.refused("realize", "tiny.json", says=(name, "it is code, which a loader may import"))
    user.recovers()


def test_the_code_of_a_tokenizer_is_refused(user: User) -> None:
    auto_map = {"auto_map": {"AutoTokenizer": ["tokenizer.Tokenizer", None]}}
    user.write("model/tokenizer_config.json", auto_map)
    user.refused("realize", "tiny.json", says="its auto_map has a loader import code")


@pytest.mark.parametrize("text", ["", "{}", "[]", "null", '{"version": "1.0", "model": {}}'])
def test_a_tokenizer_that_does_not_load_is_refused(user: User, text: str) -> None:
    user.write("model/tokenizer.json", text)
    user.refused("realize", "tiny.json", says="tokenizer.json does not load")
    user.recovers()


def test_a_tokenizer_that_is_cut_off_is_refused(user: User) -> None:
    user.alter("model/tokenizer.json", lambda data: data[:300])
    user.refused("realize", "tiny.json", says="tokenizer.json does not load")


def test_a_broken_tokenizer_config_is_refused(user: User) -> None:
    user.write("model/tokenizer_config.json", "{")
    user.refused("realize", "tiny.json", says="tokenizer_config.json is not valid JSON")


def test_tokens_that_the_model_does_not_have_are_refused(user: User) -> None:
    write_tokenizer(user.path("model/tokenizer.json"), 500)
    user.edit({"inference": requests([5, 400])})
    says = ("holds a token that the model does not have", "from 0 to 299")
    user.refused("realize", "tiny.json", says=says)
    user.recovers()


def test_tokens_that_the_tokenizer_does_not_have_are_refused(user: User) -> None:
    user.edit({"inference": requests([5, 2**53 - 1])})
    says = ("has the token id 9007199254740991", "go up to 299")
    user.refused("realize", "tiny.json", says=says)


def requests(token_ids: list[int]) -> dict[str, Any]:
    """Return an `inference` block with one request of token ids."""
    block: dict[str, Any] = json.loads(
        '{"batching": {"policy": "fixed"}, "requests": [{"id": "a", "kind": "completion",'
        ' "sampling": {"temperature": 0.0, "max_tokens": 3}}]}'
    )
    block["requests"][0]["prompt_token_ids"] = token_ids
    return block
