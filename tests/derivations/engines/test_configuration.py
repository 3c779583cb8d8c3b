"""What the engine does not have is refused by name, before any weight is read."""

from typing import Any

import pytest

from checkpoints import END_OF_TEXT, CheckpointShape
from dis_derivations.engines.reference.attention import MOST_POSITIONS
from dis_derivations.engines.reference.configuration import (
    check_supported,
    effective_context,
    parse_configuration,
)
from dis_store.errors import InvalidInputError, UnfitEnvironmentError


def config(**changes: Any) -> dict[str, Any]:
    return {**CheckpointShape().document(), **changes}


@pytest.mark.parametrize(
    ("changes", "named"),
    [
        ({"model_type": "mistral"}, "model_type 'mistral'"),
        ({"model_type": None}, "model_type None"),
        ({"model_type": ["llama"]}, r"model_type \['llama'\]"),
        ({"architectures": ["LlamaForSequenceClassification"]}, "LlamaForSequenceClassification"),
        ({"rope_scaling": {"rope_type": "llama3", "factor": 8.0}}, "rope_scaling of type 'llama3'"),
        ({"rope_scaling": {"type": "linear", "factor": 2.0}}, "rope_scaling of type 'linear'"),
        ({"rope_parameters": {"rope_type": "yarn"}}, "rope_parameters of type 'yarn'"),
        ({"rope_parameters": {"rope_theta": 1e4, "factor": 2}}, "rope_parameters.factor"),
        ({"partial_rotary_factor": 0.5}, "partial_rotary_factor 0.5"),
        ({"hidden_act": "gelu"}, "hidden_act 'gelu'"),
        ({"hidden_act": ["silu"]}, "hidden_act"),
        ({"quantization_config": {"bits": 4}}, "quantised weights"),
    ],
)
def test_what_is_not_supported_is_named(changes: dict[str, Any], named: str) -> None:
    with pytest.raises(UnfitEnvironmentError, match=named) as refusal:
        check_supported(config(**changes))
    assert refusal.value.exit_code == 5


@pytest.mark.parametrize(
    ("key", "value"),
    [
        ("hidden_size", None),
        ("hidden_size", 0),
        ("vocab_size", "300"),
        ("num_hidden_layers", True),
        ("num_key_value_heads", 3),
        ("num_attention_heads", 6),
        ("head_dim", 15),
        ("rms_norm_eps", 0),
        ("rms_norm_eps", -1e-5),
        ("rope_theta", "10000"),
        ("rope_scaling", "default"),
        ("tie_word_embeddings", "yes"),
        ("attention_bias", 1),
        ("eos_token_id", -1),
        ("eos_token_id", [1, "2"]),
        ("eos_token_id", True),
    ],
)
def test_a_malformed_value_is_named(key: str, value: Any) -> None:
    with pytest.raises(InvalidInputError, match=f"{key} in config.json cannot be used"):
        check_supported(config(**{key: value}))


def test_defaults_are_those_of_the_format() -> None:
    document = config()
    for key in ("num_key_value_heads", "rms_norm_eps", "rope_theta", "tie_word_embeddings"):
        del document[key]
    parsed = parse_configuration(document)
    assert (parsed.heads.keys, parsed.norm_epsilon, parsed.rope_theta) == (4, 1e-6, 10000.0)
    assert not parsed.tied_head


def test_both_forms_of_rotary_parameters_are_read() -> None:
    old = config(rope_theta=5e5)
    new = config(rope_parameters={"rope_type": "default", "rope_theta": 5e5})
    del new["rope_theta"]
    assert parse_configuration(old) == parse_configuration(new)


@pytest.mark.parametrize(("written", "read"), [(7, {7}), ([7, 8], {7, 8}), (None, set())])
def test_end_tokens_are_one_or_several(written: Any, read: set[int]) -> None:
    assert parse_configuration(config(eos_token_id=written)).end_token_ids == read
    assert parse_configuration(config()).end_token_ids == {END_OF_TEXT}


def test_the_context_is_the_models_own_unless_it_is_shortened() -> None:
    parsed = parse_configuration(config(max_position_embeddings=64))
    assert effective_context(parsed, None) == 64
    assert effective_context(parsed, 10) == 10


@pytest.mark.parametrize("length", [0, -1, 65])
def test_a_context_that_does_not_fit_the_model_is_refused(length: int) -> None:
    parsed = parse_configuration(config(max_position_embeddings=64))
    with pytest.raises(InvalidInputError, match="does not fit the model"):
        effective_context(parsed, length)


def test_a_context_beyond_exact_sums_is_refused() -> None:
    parsed = parse_configuration(config(max_position_embeddings=2 * MOST_POSITIONS))
    with pytest.raises(UnfitEnvironmentError, match="positions") as refusal:
        effective_context(parsed, None)
    assert str(MOST_POSITIONS) in str(refusal.value.hint)
    assert effective_context(parsed, MOST_POSITIONS) == MOST_POSITIONS
