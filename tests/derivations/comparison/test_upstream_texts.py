"""What differs in templates, prompts, tokenizers, packages and traces, in words that help."""

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from bundles import Answer, Diff, FolderStore, Run
from dis_derivations.comparison.causes.effects import effect_of
from dis_derivations.comparison.causes.json_changes import ABSENT, Change, json_changes, keyed
from dis_derivations.comparison.causes.text_changes import excerpts, text_diff
from dis_derivations.comparison.causes.tokenizer_changes import tokenizer_changes
from dis_derivations.comparison.render_text import render_text

MODEL = {"type": "BPE", "vocab": {"a": 0, "b": 1, "ab": 2}, "merges": ["a b", "b a", "a a"]}
TOKENIZER = {
    "added_tokens": [{"id": 0, "content": "<s>"}, {"id": 1, "content": "</s>"}],
    "normalizer": {"type": "NFC"},
    "pre_tokenizer": None,
    "model": MODEL,
}


def told(changes: tuple[Change, ...]) -> list[tuple[str, Any, Any]]:
    return [(each.name, each.old, each.new) for each in changes]


def test_a_vocabulary_is_compared_by_token() -> None:
    other = {**TOKENIZER, "model": {**MODEL, "vocab": {"a": 0, "ab": 1, "c": 3}}}

    assert told(tokenizer_changes(TOKENIZER, other)) == [
        ("tokens", "1 only here: 'b'", "1 only here: 'c'"),
        ("ids of 1 tokens", "'ab' 2", "'ab' 1"),
    ]


def test_merges_are_compared_in_their_order() -> None:
    other = {**TOKENIZER, "model": {**MODEL, "merges": ["a b", "a a", "b a"]}}

    assert told(tokenizer_changes(TOKENIZER, other)) == [
        ("/model/merges/1 and 1 more", "b a", "a a")
    ]


def test_steps_and_added_tokens_are_compared_by_field() -> None:
    other = {
        **TOKENIZER,
        "normalizer": {"type": "NFKC"},
        "added_tokens": [{"id": 1, "content": "</s>"}],
    }

    assert told(tokenizer_changes(TOKENIZER, other)) == [
        ("/added_tokens/0/content", "<s>", ABSENT),
        ("/added_tokens/0/id", 0, ABSENT),
        ("/normalizer/type", "NFC", "NFKC"),
    ]


@given(
    st.recursive(
        st.none() | st.integers(0, 3) | st.text(max_size=2),
        lambda inner: (
            st.lists(inner, max_size=3)
            | st.dictionaries(
                st.sampled_from(["model", "vocab", "merges", "added_tokens", "id"]),
                inner,
                max_size=3,
            )
        ),
        max_leaves=12,
    )
)
def test_a_tokenizer_that_is_none_is_compared_all_the_same(value: Any) -> None:
    for one, two in ((value, TOKENIZER), (TOKENIZER, value)):
        assert isinstance(tokenizer_changes(one, two), tuple)
    assert tokenizer_changes(value, value) == ()


def test_things_with_names_are_compared_by_name() -> None:
    old = {"packages": [{"name": "numpy", "version": "2.0"}, {"name": "torch", "version": "2.9"}]}
    new = {"packages": [{"name": "attrs", "version": "1"}, {"name": "numpy", "version": "2.0"},
                        {"name": "torch", "version": "2.10"}]}  # fmt: skip

    assert told(json_changes("x", keyed(old), keyed(new))) == [
        ("/packages/attrs/name", ABSENT, "attrs"),
        ("/packages/attrs/version", ABSENT, "1"),
        ("/packages/torch/version", "2.9", "2.10"),
    ]


def test_layers_are_compared_one_by_one() -> None:
    layers = [f"sha256:{digit * 64}" for digit in "abc"]

    (change,) = json_changes(
        "x", keyed({"layers": layers}), keyed({"layers": [*layers[:2], layers[0]]})
    )

    assert change.name == "/layers/2"


def test_an_environment_is_compared_package_by_package(diff: Diff, store: FolderStore) -> None:
    for label, version in (("one", "2.9"), ("two", "2.10")):
        document = {"packages": [{"name": "torch", "version": version}]}
        store.add(label, {"environment.json": json.dumps(document).encode()})
    one, two = (
        Run(inputs={"environment": label, "closure": f"with {label}"}) for label in ("one", "two")
    )

    (cause,) = [cause for cause in diff(_made(one), _made(two)).causes if cause.kind == "software"]

    assert told(cause.changes) == [("/packages/torch/version", "2.9", "2.10")]
    assert "torch" in cause.effect


def _made(run: Run) -> Run:
    class Made(Run):
        @property
        def objects(self) -> Any:
            from bundles import digest_of

            environment = self.inputs["environment"]
            return {**super().objects, "environment": digest_of(environment)}

    return Made(inputs=run.inputs)


def test_the_template_and_the_rendered_prompt_are_shown_as_texts(
    diff: Diff, store: FolderStore
) -> None:
    for label, greeting in (("one", "Hello"), ("two", "Good day")):
        template = "{% for m in messages %}\n" + greeting + " {{ m }}\n{% endfor %}\n"
        store.add(f"template {label}", {"chat_template.jinja": template.encode()})
        requests = {"requests": [{"id": "r", "prompt": f"{greeting} fox", "prompt_token_ids": [1]}]}
        store.add(f"requests {label}", {"requests.json": json.dumps(requests).encode()})
    one, two = (
        Run(answers=(Answer("r", (1,)),))
        .with_input("chat_template", f"template {label}")
        .with_input("requests", f"requests {label}")
        for label in ("one", "two")
    )

    report = diff(one, two)

    template_diff, prompt_diff = report.upstream.texts
    assert template_diff.lines == (
        " {% for m in messages %}",
        "-Hello {{ m }}",
        "+Good day {{ m }}",
        " {% endfor %}",
    )
    assert prompt_diff.lines == ("-Hello fox", "+Good day fox")
    assert "What differs in the chat template" in render_text(report)


def test_a_template_on_one_line_falls_apart_between_its_blocks() -> None:
    old = "".join(f"{{%- if part{number} -%}}" for number in range(20))

    found = text_diff("it", old, old.replace("part7 ", "other "))

    assert found.lines == (
        " {%- if part6 -%}", "-{%- if part7 -%}", "+{%- if other -%}", " {%- if part8 -%}",
    )  # fmt: skip


@given(st.text(), st.text(), st.integers(10, 50))
def test_excerpts_of_different_texts_differ(old: str, new: str, width: int) -> None:
    left, right = excerpts(old, new, width)

    assert (left == right) == (old == new)
    assert max(len(left), len(right)) <= width + 2


@given(st.text(), st.text())
def test_different_texts_have_a_difference(old: str, new: str) -> None:
    assert bool(text_diff("it", old, new).lines) == (old != new)


def test_a_trace_is_compared_step_by_step_and_request_by_request(diff: Diff) -> None:
    def step(number: int, **tokens: int) -> dict[str, Any]:
        requests = [{"id": name, "tokens": count} for name, count in tokens.items()]
        return {"step": number, "requests": requests}

    one = Run(trace=[step(0, a=4, b=2), step(1, a=1, b=1)])
    two = Run(trace=[step(0, a=4), step(1, a=1, b=2)])

    report = diff(one, two)

    assert report.examination.trace is not None
    assert told(report.examination.trace.changes) == [
        ("step 0/requests/b/id", "b", ABSENT),
        ("step 0/requests/b/tokens", 2, ABSENT),
        ("step 1/requests/b/tokens", 1, 2),
    ]
    assert "step 1/requests/b/tokens: 1 → 2" in render_text(report)


def test_a_setting_says_what_it_is_known_to_do() -> None:
    def effect(kind: str, *names: str) -> str:
        return effect_of(kind, [Change("manifest", name, 1, 2) for name in names])

    assert "also with batch-invariant kernels" in effect(
        "engine", "/engine_args/tensor_parallel_size"
    )
    assert "temperature 0" in effect("requests", "/request_template/sampling/seed")
    assert effect("weights", "model.safetensors").startswith("every value")
    assert effect("platform", "/facts/driver").endswith(
        "driver: may bring other kernels: changes bits"
    )
    assert effect("description", "/metadata/name") == ""


# Settings that are known to change bits, or not to: vLLM's documentation and the reports of its users.
@pytest.mark.parametrize(
    "setting",
    [
        "dtype", "quantization", "kv_cache_dtype", "hf_overrides", "load_format", "tensor_parallel_size",
        "pipeline_parallel_size", "data_parallel_size", "enable_expert_parallel", "decode_context_parallel_size",
        "max_num_seqs", "max_num_batched_tokens", "enable_chunked_prefill", "long_prefill_token_threshold",
        "async_scheduling", "scheduling_policy", "enable_prefix_caching", "enforce_eager", "cudagraph_capture_sizes",
        "compilation_config/mode", "attention_backend", "attention_config/flash_attn_version", "block_size",
        "moe_backend", "linear_backend", "VLLM_USE_DEEP_GEMM", "VLLM_ALLREDUCE_USE_SYMM_MEM",
        "disable_custom_all_reduce", "VLLM_MARLIN_USE_ATOMIC_ADD", "VLLM_FLOAT32_MATMUL_PRECISION",
        "enable_flashinfer_autotune", "VLLM_FLASHINFER_AUTOTUNE_CACHE_DIR", "VLLM_CACHE_ROOT",
        "VLLM_DISABLE_COMPILE_CACHE", "VLLM_USE_AOT_COMPILE", "VLLM_TUNED_CONFIG_FOLDER", "speculative_config/model",
        "enable_lora", "logits_processors", "structured_outputs_config/backend", "gpu_memory_utilization",
        "num_gpu_blocks_override", "cpu_offload_gb", "generation_config", "override_generation_config/temperature",
        "seed", "logprobs_mode", "max_logprobs",
    ],
)  # fmt: skip
def test_what_is_known_of_a_setting_is_said(setting: str) -> None:
    said = effect_of("engine", [Change("manifest", f"/vllm/engine_args/{setting}", 1, 2)])

    unknown = effect_of("engine", [Change("manifest", "/vllm/engine_args/unheard_of", 1, 2)])
    assert said != unknown
    assert said.partition(":")[0] in setting.split("/")
