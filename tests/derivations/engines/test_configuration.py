"""What the engine does not have is refused by name, before any weight is read."""

from math import log
from typing import Any

import pytest

from checkpoints import END_OF_TEXT, CheckpointShape
from dis_derivations.engines.reference.attention import MOST_POSITIONS
from dis_derivations.engines.reference.configuration import effective_context
from dis_derivations.engines.reference.families import check_supported, parse_configuration
from dis_store.errors import InvalidInputError, UnfitEnvironmentError


def config(**changes: Any) -> dict[str, Any]:
    return {**CheckpointShape().document(), **changes}


YARN = {"rope_type": "yarn", "factor": 4.0, "original_max_position_embeddings": 64}


def of_family(family: str, **changes: Any) -> dict[str, Any]:
    return {**CheckpointShape(family=family).document(), **changes}


@pytest.mark.parametrize(
    ("changes", "named"),
    [
        ({"model_type": "mixtral"}, "model_type 'mixtral'"),
        ({"model_type": None}, "model_type None"),
        ({"model_type": ["llama"]}, r"model_type \['llama'\]"),
        ({"architectures": ["LlamaForSequenceClassification"]}, "LlamaForSequenceClassification"),
        ({"rope_scaling": {"rope_type": "longrope"}}, "rope_scaling of type 'longrope'"),
        ({"rope_scaling": {"type": "mrope"}}, "rope_scaling of type 'mrope'"),
        ({"rope_parameters": {"rope_type": 7}}, "rope_parameters of type 7"),
        ({"rope_parameters": {"rope_theta": 1e4, "factor": 2}}, "rope_parameters.factor"),
        ({"rope_scaling": {**YARN, "low_freq_factor": 1}}, "rope_scaling.low_freq_factor"),
        ({"rope_parameters": {"full_attention": {}}}, "rope_parameters.full_attention"),
        ({"rope_parameters": {"partial_rotary_factor": 0.5}}, "partial_rotary_factor 0.5"),
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
    ("family", "changes", "named"),
    [
        ("mistral", {"architectures": ["LlamaForCausalLM"]}, "architectures"),
        ("mistral", {"attention_bias": True}, "attention_bias in a mistral model"),
        ("mistral", {"layer_types": ["full_attention"] * 2}, "layer_types in a mistral model"),
        ("qwen2", {"mlp_bias": True}, "mlp_bias in a qwen2 model"),
        ("qwen2", {"attention_bias": True}, "attention_bias in a qwen2 model"),
        ("qwen3", {"mlp_bias": True}, "mlp_bias in a qwen3 model"),
        ("qwen3", {"layer_types": ["full_attention", "chunked"]}, "layer_types 'chunked'"),
        ("smollm3", {"layer_types": ["linear", "linear"]}, "layer_types 'linear'"),
    ],
)
def test_what_a_family_does_not_have_is_named(
    family: str, changes: dict[str, Any], named: str
) -> None:
    with pytest.raises(UnfitEnvironmentError, match=named):
        check_supported(of_family(family, **changes))


@pytest.mark.parametrize(
    ("key", "value"),
    [
        ("hidden_size", None),
        ("hidden_size", 0),
        ("vocab_size", "300"),
        ("num_hidden_layers", True),
        ("num_hidden_layers", 2**50),
        ("num_key_value_heads", 3),
        ("num_attention_heads", 6),
        ("head_dim", 15),
        ("rms_norm_eps", 0),
        ("rms_norm_eps", -1e-5),
        ("rms_norm_eps", 10**400),
        ("rope_theta", "10000"),
        ("rope_theta", 1.0),
        ("rope_theta", 1e200),
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


@pytest.mark.parametrize("document", [None, [], "llama", 1, [{"model_type": "llama"}]])
def test_a_configuration_that_is_no_object_is_refused(document: object) -> None:
    with pytest.raises(InvalidInputError, match=r"config\.json is not a JSON object"):
        check_supported(document)


@pytest.mark.parametrize(
    ("family", "key", "changes"),
    [
        ("mistral", "sliding_window", {"sliding_window": 0}),
        ("qwen2", "use_sliding_window", {"use_sliding_window": 1}),
        ("qwen2", "max_window_layers", {"max_window_layers": -1}),
        ("qwen2", "layer_types", {"layer_types": ["full_attention"]}),
        ("qwen3", "layer_types", {"layer_types": ["full_attention", "sliding_attention"]}),
        ("smollm3", "no_rope_layers", {"no_rope_layers": [1]}),
        ("smollm3", "no_rope_layers", {"no_rope_layers": [1, 2]}),
        ("smollm3", "no_rope_layer_interval", {"no_rope_layer_interval": 0}),
    ],
)
def test_a_malformed_value_of_a_family_is_named(
    family: str, key: str, changes: dict[str, Any]
) -> None:
    with pytest.raises(InvalidInputError, match=f"{key} in config.json cannot be used"):
        check_supported(of_family(family, **changes))


LLAMA3 = {"rope_type": "llama3", "factor": 8, "low_freq_factor": 1, "high_freq_factor": 4}


@pytest.mark.parametrize(
    ("key", "scaling"),
    [
        ("factor", {"type": "linear"}),
        ("factor", {"type": "linear", "factor": 0.5}),
        ("factor", {"type": "dynamic", "factor": None}),
        ("high_freq_factor", {**LLAMA3, "high_freq_factor": None}),
        ("low_freq_factor", {**LLAMA3, "low_freq_factor": 4}),
        ("original_max_position_embeddings", {**YARN, "original_max_position_embeddings": 0}),
        ("attention_factor", {**YARN, "attention_factor": 0}),
        ("attention_factor", {**YARN, "attention_factor": 1e6}),
        ("attention_factor", {**YARN, "attention_factor": 1e-6}),
        ("mscale", {**YARN, "mscale": "1", "mscale_all_dim": 1}),
        ("beta_fast", {**YARN, "beta_fast": 0.5}),
        ("truncate", {**YARN, "truncate": "no"}),
    ],
)
def test_a_malformed_parameter_of_scaling_is_named(key: str, scaling: dict[str, Any]) -> None:
    with pytest.raises(InvalidInputError, match=f"{key} in config.json cannot be used"):
        check_supported(config(rope_scaling=scaling))


def test_two_spellings_that_contradict_each_other_are_refused() -> None:
    both = config(rope_parameters=YARN, rope_scaling={**YARN, "factor": 2.0})
    with pytest.raises(InvalidInputError, match="rope_scaling in config"):
        check_supported(both)
    twice = config(rope_scaling=YARN, original_max_position_embeddings=128)
    with pytest.raises(InvalidInputError, match="original_max_position_embeddings"):
        check_supported(twice)
    agreeing = config(rope_parameters=YARN, rope_scaling=YARN, original_max_position_embeddings=64)
    assert parse_configuration(agreeing) == parse_configuration(config(rope_scaling=YARN))


@pytest.mark.parametrize(
    "scaling",
    [
        {"rope_type": "linear", "factor": 2.5},
        {"rope_type": "dynamic", "factor": 2.0},
        {**LLAMA3, "original_max_position_embeddings": 64},
        YARN,
        {**YARN, "attention_factor": 0.7, "beta_fast": 16, "beta_slow": 2, "truncate": False},
    ],
    ids=lambda scaling: scaling["rope_type"],
)
def test_both_spellings_of_scaling_are_read(scaling: dict[str, Any]) -> None:
    older = {**scaling, "type": scaling["rope_type"]}
    del older["rope_type"]
    old = config(rope_scaling=older, rope_theta=5e5)
    new = config(rope_parameters={**scaling, "rope_theta": 5e5}, rope_theta=None)
    assert parse_configuration(old) == parse_configuration(new)
    plain = parse_configuration(config(rope_theta=5e5))
    changed = parse_configuration(old).rotation != plain.rotation
    assert changed == (scaling["rope_type"] != "dynamic")


def test_linear_scaling_divides_frequencies() -> None:
    plain = parse_configuration(config()).rotation.frequencies
    found = parse_configuration(config(rope_scaling={"type": "linear", "factor": 4})).rotation
    assert found.frequencies == tuple(frequency / 4 for frequency in plain)
    assert found.factor == 1.0


def test_yarn_sharpens_attention_by_the_logarithm_of_its_factor() -> None:
    assert parse_configuration(config(rope_scaling=YARN)).rotation.factor == 0.1 * log(4) + 1
    weighed = {**YARN, "mscale": 0.8, "mscale_all_dim": 0.5}
    found = parse_configuration(config(rope_scaling=weighed)).rotation.factor
    assert found == pytest.approx((0.08 * log(4) + 1) / (0.05 * log(4) + 1), rel=1e-15)


def windows(family: str, layers: int = 4, **changes: Any) -> list[int | None]:
    document = of_family(family, num_hidden_layers=layers, **changes)
    return [kind.window for kind in parse_configuration(document).layers]


def test_a_window_of_mistral_is_of_all_layers() -> None:
    assert windows("mistral", sliding_window=7) == [7] * 4
    assert windows("mistral", sliding_window=None) == [None] * 4
    assert windows("mistral") == [4096] * 4
    kinds = ["sliding_attention"] * 4
    assert windows("mistral", sliding_window=7, layer_types=kinds) == [7] * 4


@pytest.mark.parametrize("family", ["qwen2", "qwen3"])
def test_a_window_of_qwen_is_of_the_layers_that_are_said_to_have_it(family: str) -> None:
    on: dict[str, Any] = {"use_sliding_window": True, "sliding_window": 7}
    assert windows(family, sliding_window=7) == [None] * 4
    assert windows(family, **on) == [None] * 4
    assert windows(family, **on, max_window_layers=3) == [None, None, None, 7]
    assert windows(family, **on, max_window_layers=0) == [7] * 4
    kinds = ["sliding_attention", "full_attention"] * 2
    assert windows(family, **on, layer_types=kinds) == [7, None, 7, None]


def test_a_smollm3_turns_all_but_some_layers_and_slides_in_the_others() -> None:
    parsed = parse_configuration(of_family("smollm3", num_hidden_layers=5))
    assert [kind.rotates for kind in parsed.layers] == [True, True, True, False, True]
    on: dict[str, Any] = {
        "use_sliding_window": True,
        "sliding_window": 7,
        "no_rope_layer_interval": 2,
    }
    assert windows("smollm3", **on) == [None, 7, None, 7]
    named: dict[str, Any] = {**on, "no_rope_layers": [0, 1, 1, 1]}
    assert windows("smollm3", **named) == [7, None, None, None]


def test_what_is_missing_means_what_the_family_takes_it_for() -> None:
    document = of_family("smollm3")
    for key in ("rope_theta", "tie_word_embeddings", "max_position_embeddings"):
        del document[key]
    parsed = parse_configuration(document)
    assert parsed.tied_head
    assert parsed.context == 32768
    assert parsed.rotation == parse_configuration({**document, "rope_theta": 2e6}).rotation
    qwen = of_family("qwen3", num_attention_heads=64)
    del qwen["num_key_value_heads"]
    heads = parse_configuration(qwen).heads
    assert (heads.queries, heads.keys, heads.size) == (64, 32, 128)


def test_defaults_are_those_of_the_format() -> None:
    document = config()
    for key in ("num_key_value_heads", "rms_norm_eps", "rope_theta", "tie_word_embeddings"):
        del document[key]
    parsed = parse_configuration(document)
    assert (parsed.heads.keys, parsed.norm_epsilon) == (4, 1e-6)
    assert parsed.rotation == parse_configuration(config(rope_theta=10000.0)).rotation
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
