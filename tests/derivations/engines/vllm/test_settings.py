"""What vLLM is told, and what a manifest may not ask of it."""

from typing import Any

import pytest

from dis_derivations.engines.child.environment import declared_variables
from dis_derivations.engines.protocol import Batching
from dis_derivations.engines.vllm.settings import (
    FORCED_VARIABLES,
    engine_arguments,
    kept_positions,
    kv_cache_bytes,
    overridden,
    process_variables,
    refused_settings,
)

CONFIG = {
    "num_hidden_layers": 30,
    "num_attention_heads": 9,
    "num_key_value_heads": 3,
    "hidden_size": 576,
}


def document(**vllm: Any) -> dict[str, Any]:
    return {"runtime": {"env": {"PYTHONHASHSEED": "0"}}, "vllm": vllm}


def refusals(*, on_cpu: bool = True, **vllm: Any) -> list[str]:
    given = document(**vllm)
    return list(refused_settings(given, declared_variables(given), on_cpu=on_cpu))


def test_nothing_that_can_change_a_bit_is_left_to_vllm() -> None:
    found = engine_arguments({}, Batching(8), CONFIG, 512)
    assert found["generation_config"] == "vllm"
    assert found["enable_prefix_caching"] is False
    assert found["async_scheduling"] is False
    assert found["enable_chunked_prefill"] is False
    assert found["enforce_eager"] is True
    assert found["seed"] == 0
    assert (found["max_num_seqs"], found["max_num_batched_tokens"]) == (8, 2048)
    assert (found["max_model_len"], found["skip_tokenizer_init"]) == (512, True)


def test_what_a_manifest_says_is_told() -> None:
    said = {"dtype": "float32", "enforce_eager": False, "block_size": 64, "max_model_len": 100}
    found = engine_arguments(said, Batching(2, 300), CONFIG, 100)
    assert {name: found[name] for name in said} == said
    assert found["max_num_batched_tokens"] == 300


def test_prompts_longer_than_a_step_are_computed_in_pieces() -> None:
    assert engine_arguments({}, Batching(2, 128), CONFIG, 512)["enable_chunked_prefill"] is True


def test_memory_is_room_for_a_full_batch_unless_a_share_is_named() -> None:
    found = engine_arguments({}, Batching(8), CONFIG, 512)
    # Twice: keys and values, 30 layers, 3 heads of 64 numbers of at most 4 bytes, 8 sequences of 640 positions.
    assert found["kv_cache_memory_bytes"] == 2 * (2 * 30 * 3 * 64 * 4) * 8 * 640
    named = engine_arguments({"gpu_memory_utilization": 0.5}, Batching(8), CONFIG, 512)
    assert "kv_cache_memory_bytes" not in named
    assert named["gpu_memory_utilization"] == 0.5


def test_a_configuration_that_says_little_still_gets_memory() -> None:
    assert kv_cache_bytes({}, 1, 16) == 64 << 20


@pytest.mark.parametrize(
    ("vllm", "field"),
    [
        ({"mode": "server"}, "vllm.mode"),
        ({"env": {"VLLM_ENABLE_V1_MULTIPROCESSING": "1"}}, "vllm.env.VLLM_ENABLE_V1_MULTIPROCESSING"),
        ({"env": {"HF_HUB_OFFLINE": "0"}}, "vllm.env.HF_HUB_OFFLINE"),
        ({"reproducibility": {"enable_v1_multiprocessing": True}}, "vllm.reproducibility.enable_v1_multiprocessing"),
        ({"engine_args": {"tensor_parallel_size": 2}}, "vllm.engine_args.tensor_parallel_size"),
        ({"engine_args": {"async_scheduling": True}}, "vllm.engine_args.async_scheduling"),
        ({"engine_args": {"enable_prefix_caching": True}}, "vllm.engine_args.enable_prefix_caching"),
        ({"engine_args": {"reasoning_parser": "qwen3"}}, "vllm.engine_args.reasoning_parser"),
    ],
)  # fmt: skip
def test_a_manifest_is_told_what_vllm_is_not_run_with(vllm: dict[str, Any], field: str) -> None:
    (refusal,) = refusals(**vllm)
    assert refusal.startswith(f"{field}: ")


def test_what_is_said_as_it_is_done_is_no_refusal() -> None:
    same = {name: value for name, (value, _) in FORCED_VARIABLES.items()}
    arguments = {
        "tensor_parallel_size": 1,
        "async_scheduling": False,
        "enable_prefix_caching": False,
    }
    assert refusals(env=same, engine_args=arguments, mode="offline") == []


@pytest.mark.parametrize(
    "vllm", [{"reproducibility": {"enable_batch_invariance": True}}, {"env": {"VLLM_BATCH_INVARIANT": "1"}}]
)  # fmt: skip
def test_batch_invariance_is_refused_on_the_cpu_alone(vllm: dict[str, Any]) -> None:
    (refusal,) = refusals(**vllm)
    assert "on the CPU vLLM does not start" in refusal
    assert refusals(on_cpu=False, **vllm) == []


def test_variables_of_the_process_follow_from_the_manifest() -> None:
    given = document(reproducibility={"enable_batch_invariance": True})
    found = process_variables(given, declared_variables(given))
    assert found["VLLM_BATCH_INVARIANT"] == "1"
    assert found["VLLM_ENABLE_V1_MULTIPROCESSING"] == "0"
    assert found["PYTHONHASHSEED"] == "0"


def test_what_vllm_overrides_is_named_with_both_values() -> None:
    asked = {"dtype": "auto", "block_size": 64, "seed": 0, "load_format": "safetensors"}
    used = {"dtype": "bfloat16", "block_size": 16, "seed": 0, "attention_backend": "CPU_ATTN"}
    assert overridden(asked, used) == {"block_size": {"asked": 64, "used": 16}}
    assert overridden({"disable_cascade_attn": True}, {"cascade_attention": True}) == {
        "cascade_attention": {"asked": False, "used": True}
    }


def test_another_word_for_the_same_setting_is_no_override() -> None:
    asked = {"dtype": "half", "attention_backend": "cpu_attn"}
    used = {"dtype": "float16", "attention_backend": "CPU_ATTN", "cascade_attention": False}
    assert overridden(asked, used) == {}
    assert overridden({"dtype": "half"}, {"dtype": "float32"}) == {
        "dtype": {"asked": "float16", "used": "float32"}
    }


def test_the_closure_of_an_experiment_turns_the_prefix_cache_on_and_has_room_for_it() -> None:
    plain = engine_arguments({}, Batching(8), CONFIG, 512)
    kept = kept_positions([100, 128, 129])
    assert kept == 256 + 256 + 384
    settings = {"enable_prefix_caching": True, "prefix_cache_positions": kept}
    found = engine_arguments(settings, Batching(8), CONFIG, 512)
    room = found["kv_cache_memory_bytes"] - plain["kv_cache_memory_bytes"]
    assert room == kept * 2 * 30 * 3 * 64 * 4
    assert found == {
        **plain,
        "enable_prefix_caching": True,
        "kv_cache_memory_bytes": found["kv_cache_memory_bytes"],
    }
