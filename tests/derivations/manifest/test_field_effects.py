"""What docs/reference/manifest.md says of each field is what becomes of it."""

import re
from collections.abc import Mapping, Sequence
from pathlib import Path

import pytest

from dis_derivations.graph.compilation import compile_graph
from dis_derivations.graph.graph import Graph
from dis_derivations.lock.document import Lock, LockedFile
from dis_derivations.lock.resolution import plan_lock
from dis_derivations.manifest.field_effects import FIELD_EFFECTS, Effect, FieldEffect
from dis_derivations.manifest.loading import LoadedManifest, load_manifest
from dis_derivations.realisation.preflight import check_manifest
from dis_store.digest import Sha256
from dis_store.errors import DisError

ROOT = Path(__file__).parents[3]
QUICKSTART = ROOT / "configs/quickstart.json"
DIGEST = f"sha256:{'ab' * 32}"
IMAGE = f"example/engine@{DIGEST}"
SOURCE = "model.weights.source"
TEMPLATE = "inference.request_template"
REQUEST = (
    'inference={"requests":[{"id":"one","kind":"completion","prompt":"Hi",'
    '"sampling":{"temperature":0,"max_tokens":1}}]}'
)
PACKAGE = '{"name":"a","source":{"type":"wheel","digest":"%s"}}' % DIGEST  # noqa: UP031 - JSON braces
LIBRARY = f'cuda_stack.userspace.nccl={{"version":"2","digest":"{DIGEST}"}}'
CODE = (f"{SOURCE}.remote_code_commit={'ab' * 20}", f"{SOURCE}.remote_code_digest={DIGEST}")

# How each field that is only recorded, or only says where, can be changed in the quickstart manifest: what
# must be there for it, and the change.
CHANGES: Mapping[str, Sequence[str]] = {
    "metadata.description": ["metadata.description=other"],
    "metadata.created_at": ["metadata.created_at=2020-01-01T00:00:00Z"],
    "metadata.owners": ['metadata.owners=["other"]'],
    "determinism.strict_hardware": ["determinism.strict_hardware=true"],
    "hardware.constraints.accelerator_vendor": ["hardware.constraints.accelerator_vendor=other"],
    "hardware.constraints.gpu_arch_min_cc": ['hardware.constraints.gpu_arch_min_cc="8.0"'],
    "hardware.constraints.gpu_arch_max_cc": ['hardware.constraints.gpu_arch_max_cc="9.0"'],
    "hardware.constraints.allowed_gpu_models": ['hardware.constraints.allowed_gpu_models=["x"]'],
    "hardware.constraints.cpu_arch": ["hardware.constraints.cpu_arch=other"],
    "hardware.record.capture_collect_env": ["hardware.record.capture_collect_env=true"],
    "hardware.record.capture_nvidia_smi": ["hardware.record.capture_nvidia_smi=true"],
    "hardware.record.capture_driver_versions": ["hardware.record.capture_driver_versions=true"],
    "hardware.record.capture_pcie_topology": ["hardware.record.capture_pcie_topology=true"],
    "artifacts.store.type": ['artifacts.store={"type":"cas"}', "artifacts.store.type=oci"],
    "artifacts.store.path": ['artifacts.store={"type":"cas"}', "artifacts.store.path=other"],
    "artifacts.store.registry": ['artifacts.store={"type":"cas"}', "artifacts.store.registry=x"],
    "artifacts.lockfile": ["artifacts.lockfile=other.json"],
    "software_stack.python.version": ['software_stack.python.version="3.99"'],
    "software_stack.python.distribution": [
        'software_stack.python.version="3.11"',
        "software_stack.python.distribution=other",
    ],
    "software_stack.nix": ["software_stack.nix=other"],
    "cuda_stack.env": ["cuda_stack.env.OTHER=1x"],
    "cuda_stack.driver_policy": ["cuda_stack.driver_policy=other"],
    "runtime.env": ["runtime.env.OTHER=1x"],
    "runtime.locale.lang": ['runtime.locale={"lang":"C","tz":"UTC"}', "runtime.locale.lang=other"],
    "runtime.locale.tz": ['runtime.locale={"lang":"C","tz":"UTC"}', "runtime.locale.tz=other"],
    "runtime.threads.omp_num_threads": [
        'runtime.threads={"omp_num_threads":1,"mkl_num_threads":1}',
        "runtime.threads.omp_num_threads=7",
    ],
    "runtime.threads.mkl_num_threads": [
        'runtime.threads={"omp_num_threads":1,"mkl_num_threads":1}',
        "runtime.threads.mkl_num_threads=7",
    ],
    "runtime.execution.base_url": ["runtime.execution.base_url=http://127.0.0.1:9"],
    "runtime.execution.timeout_seconds": ["runtime.execution.timeout_seconds=7"],
    "runtime.execution.deterministic_failure_policy": [
        "runtime.execution.deterministic_failure_policy=off"
    ],
    "runtime.execution.vllm_image_path": [
        f"runtime.execution.vllm_image={IMAGE}", "runtime.execution.vllm_image_path=elsewhere"
    ],
    "vllm.mode": ["vllm.mode=server"],
    "vllm.reproducibility.enable_batch_invariance": [
        "vllm.reproducibility.enable_batch_invariance=true"
    ],
    "vllm.reproducibility.enable_v1_multiprocessing": [
        "vllm.reproducibility.enable_v1_multiprocessing=true"
    ],
    "vllm.env": ["vllm.env.OTHER=1x"],
    "vllm.engine_args.model": ["vllm.engine_args.model=other"],
    "vllm.engine_args.async_scheduling": ["vllm.engine_args.async_scheduling=true"],
    "vllm.engine_args.dtype": ["vllm.engine_args.dtype=other"],
    "vllm.engine_args.enforce_eager": ["vllm.engine_args.enforce_eager=false"],
    "vllm.engine_args.enable_prefix_caching": ["vllm.engine_args.enable_prefix_caching=true"],
    "vllm.engine_args.enable_chunked_prefill": ["vllm.engine_args.enable_chunked_prefill=true"],
    "vllm.engine_args.attention_backend": ["vllm.engine_args.attention_backend=other"],
    "vllm.engine_args.block_size": ["vllm.engine_args.block_size=64"],
    "vllm.engine_args.kv_cache_dtype": ["vllm.engine_args.kv_cache_dtype=fp8"],
    "vllm.engine_args.seed": ["vllm.engine_args.seed=7"],
    "vllm.engine_args.tensor_parallel_size": ["vllm.engine_args.tensor_parallel_size=7"],
    "vllm.engine_args.pipeline_parallel_size": ["vllm.engine_args.pipeline_parallel_size=7"],
    "vllm.engine_args.gpu_memory_utilization": ["vllm.engine_args.gpu_memory_utilization=0.7"],
    "vllm.engine_args.enable_auto_tool_choice": [
        "vllm.engine_args.tool_call_parser=x",
        "vllm.engine_args.enable_auto_tool_choice=true",
    ],
    "vllm.engine_args.tool_call_parser": ["vllm.engine_args.tool_call_parser=other"],
    "vllm.engine_args.reasoning_parser": ["vllm.engine_args.reasoning_parser=other"],
    "model.*.source.repo": [f"{SOURCE}.repo=org/other"],
    "model.*.source.id": [f"{SOURCE}.id=org/other"],
    "model.*.source.url": [f"{SOURCE}.url=https://example.org/other"],
    "model.*.source.local_path": [f"{SOURCE}.local_path=/elsewhere"],
    "model.*.source.mirrors": [f'{SOURCE}.mirrors=["https://example.org/mirror"]'],
    "inference.requests[].x_arrival_ms": [REQUEST, "inference.requests.0.x_arrival_ms=7"],
    "inference.dataset.source": ["inference.dataset.source=elsewhere.json"],
    "inference.batching.schedule": ["inference.batching.schedule=batch_invariant"],
    "inference.batching.fixed_request_order": ["inference.batching.fixed_request_order=false"],
    "inference.batching.concurrency": ["inference.batching.concurrency=7"],
    "capture.activations.hooks": [
        'capture.activations={"enabled":false}',
        'capture.activations.hooks=["layers.0"]',
    ],
    "capture.engine_trace.events": [
        'capture.engine_trace={"enabled":true}',
        'capture.engine_trace.events=["step"]',
    ],
    "outputs.directory": ["outputs.directory=elsewhere"],
    "outputs.golden.enabled": ["outputs.golden.path=x", "outputs.golden.enabled=true"],
    "outputs.golden.path": ["outputs.golden.path=elsewhere"],
    "outputs.bundle_policy.include": ['outputs.bundle_policy.include=["tokens"]'],
    "outputs.bundle_policy.retention_days": ["outputs.bundle_policy.retention_days=7"],
}  # fmt: skip

# What makes a manifest ask for a field that is refused.
REFUSALS: Mapping[str, Sequence[str]] = {
    **{
        f"software_stack.python.packages[].{name}": [
            f'software_stack.python={{"version":"3.11","packages":[{PACKAGE}]}}',
            f"software_stack.python.packages.0.{change}",
        ]
        for name, change in (
            ("source.type", "source.type=git"),
            ("source.rev", "source.rev=main"),
            ("source.url", "source.url=https://example.org"),
        )
    },
    "software_stack.compiled_extensions": ['software_stack.compiled_extensions=[{"name":"x"}]'],
    "cuda_stack.userspace.*.version": [LIBRARY],
    "cuda_stack.userspace.*.digest": [LIBRARY],
    "runtime.profile": ["runtime.profile=regulated"],
    "vllm.engine_args.trust_remote_code": [*CODE, "vllm.engine_args.trust_remote_code=true"],
    "model.*.source.revision": [
        f'{SOURCE}={{"type":"huggingface","repo":"org/name","local_path":"configs/quickstart/model"}}',
        f"{SOURCE}.revision=main",
        'model.weights.files=[{"path":"model.safetensors"}]',
        'model.tokenizer.files=[{"path":"tokenizer.json"}]',
        'model.config.files=[{"path":"config.json"}]',
    ],
    "model.weights.source.remote_code_commit": CODE,
    "model.weights.source.remote_code_digest": CODE,
    "model.adapters": ['model.adapters=[{"name":"lora"}]'],
    "capture.activations.enabled": ['capture.activations={"enabled":true,"hooks":["layers.0"]}'],
}

_LOADING = "derivations/manifest/test_loading.py::"
_COMPILATION = "derivations/graph/test_compilation.py::"
_REQUESTS = "derivations/tokenization/test_requests_document.py::"
_GENERATION = "derivations/builders/test_generation.py::"
_RULES = "derivations/comparison/test_rules.py::"
_STOPPING = "derivations/engines/test_stopping.py::"
_SAMPLING = "derivations/engines/test_sampling.py::"
_LOCK = "derivations/lock/test_resolution.py::"
_PACKAGES = "cli/test_environments.py::"
# Which test shows that an enforced field decides what happens.
ENFORCED_BY: Mapping[str, str] = {
    "schema_version": f"{_LOADING}test_a_wrong_value_is_refused_in_our_words",
    "kind": f"{_LOADING}test_a_wrong_value_is_refused_in_our_words",
    "metadata.name": f"{_COMPILATION}test_a_name_is_a_label_of_every_derivation_and_part_of_no_key",
    "determinism.compare.*.rule": f"{_RULES}test_rules_are_read_with_their_tolerances",
    "determinism.compare.*.ulp": f"{_RULES}test_ulp_admits_its_number_of_steps_and_no_more",
    "determinism.compare.*.atol": f"{_RULES}test_absrel_adds_both_tolerances",
    "determinism.compare.*.rtol": f"{_RULES}test_absrel_adds_both_tolerances",
    "software_stack.python.packages[].name": f"{_PACKAGES}"
    "test_a_name_is_locked_with_all_that_it_needs",
    "software_stack.python.packages[].version": f"{_PACKAGES}"
    "test_a_changed_request_makes_the_lock_stale_and_other_packages_stay",
    "software_stack.python.packages[].source.type": f"{_PACKAGES}"
    "test_what_cannot_be_locked_is_refused_before_pip_is_asked",
    "software_stack.python.packages[].source.digest": f"{_PACKAGES}"
    "test_a_declared_digest_must_be_the_wheels",
    "software_stack.python.exclude": f"{_PACKAGES}"
    "test_what_is_excluded_is_left_out_with_what_only_it_needs",
    "runtime.network_policy": "end_to_end/test_offline.py::"
    "test_an_attempt_fails_the_run_and_is_recorded_with_its_destination",
    "runtime.execution.backend": f"{_COMPILATION}test_the_engine_of_a_manifest_is_the_one_that_generates",
    "runtime.execution.vllm_image": "derivations/images/test_image_locks.py::"
    "test_the_image_is_a_target_and_a_part_of_the_closure",
    "vllm.engine_args.max_model_len": f"{_STOPPING}test_the_context_ends_a_sequence",
    "vllm.engine_args.max_num_batched_tokens": f"{_LOADING}test_the_two_token_budgets_must_agree",
    "model.*.source.type": "derivations/sources/test_store_object.py::"
    "test_a_model_of_an_object_is_the_one_that_was_locked",
    "model.*.source.path": "derivations/sources/test_store_object.py::"
    "test_the_files_may_be_in_a_directory_of_the_object",
    "model.*.source.revision": "derivations/lock/test_refusals.py::"
    "test_a_revision_that_can_move_is_refused_once_for_all_that_share_it",
    "model.*.files[].path": "derivations/lock/test_refusals.py::"
    "test_a_listed_file_that_is_missing_a_directory_or_a_link_out_is_refused",
    "model.*.files[].digest": f"{_LOCK}test_declared_digests_are_compared_in_any_form",
    "model.chat_template.file.path": f"{_REQUESTS}test_the_nearest_chat_template_is_used",
    "model.chat_template.file.digest": f"{_LOCK}"
    "test_a_file_with_another_digest_is_an_integrity_error_that_names_all_of_them",
    "inference.requests[].id": f"{_LOADING}test_requests_have_ids_of_their_own",
    "inference.requests[].kind": f"{_REQUESTS}"
    "test_a_chat_is_rendered_and_has_no_special_tokens_but_its_own",
    "inference.requests[].prompt": f"{_REQUESTS}"
    "test_a_completion_has_special_tokens_and_is_never_cut_or_padded",
    "inference.requests[].messages[].role": f"{_REQUESTS}"
    "test_a_chat_is_rendered_and_has_no_special_tokens_but_its_own",
    "inference.requests[].messages[].content": f"{_REQUESTS}"
    "test_a_completion_of_messages_is_their_contents_line_by_line",
    "inference.requests[].prompt_token_ids": f"{_REQUESTS}test_token_ids_are_taken_as_they_are",
    "inference.*.sampling.temperature": f"{_SAMPLING}"
    "test_tokens_are_chosen_with_their_probabilities",
    "inference.*.sampling.top_p": f"{_SAMPLING}test_of_equal_tokens_the_lowest_are_kept",
    "inference.*.sampling.top_k": f"{_SAMPLING}test_a_token_is_among_the_likeliest",
    "inference.*.sampling.seed": f"{_SAMPLING}test_seed_and_id_change_the_tokens",
    "inference.*.sampling.max_tokens": f"{_STOPPING}"
    "test_the_length_ends_a_sequence_with_all_its_text",
    "inference.*.stop.sequences": f"{_STOPPING}test_a_stop_string_over_several_tokens_is_cut_off",
    "inference.*.stop.token_ids": f"{_STOPPING}test_a_stop_token_is_the_reason_and_leaves_no_text",
    "inference.n_prompts": f"{_REQUESTS}test_a_dataset_gives_its_first_prompts_to_a_template",
    "inference.request_template.kind": f"{_REQUESTS}"
    "test_a_text_of_a_dataset_is_a_message_of_the_user_in_a_chat",
    "inference.request_template.id_prefix": f"{_REQUESTS}"
    "test_a_dataset_gives_its_first_prompts_to_a_template",
    "inference.dataset.digest": f"{_LOCK}test_declared_digests_are_compared_in_any_form",
    "inference.dataset.format": f"{_REQUESTS}"
    "test_conversations_are_the_format_of_a_dataset_unless_said",
    "inference.pinned_date": f"{_REQUESTS}test_a_pinned_date_reaches_the_template",
    "inference.batching.policy": f"{_LOADING}test_a_wrong_value_is_refused_in_our_words",
    "inference.batching.max_num_seqs": f"{_GENERATION}"
    "test_a_trace_lists_what_each_step_computed",
    "inference.batching.max_num_batched_tokens": "derivations/engines/test_scheduling.py::"
    "test_a_long_prompt_is_cut_to_the_bound",
    "capture.tokens": f"{_LOADING}test_a_wrong_value_is_refused_in_our_words",
    "capture.logits.enabled": f"{_COMPILATION}test_the_capture_plan_has_every_default_filled_in",
    "capture.logits.scope": f"{_GENERATION}test_chosen_only_keeps_one_logit_a_token",
    "capture.logits.dtype": f"{_GENERATION}"
    "test_logits_are_captured_in_the_type_that_the_manifest_names",
    "capture.logits.capture_prefill": f"{_GENERATION}"
    "test_captured_logits_have_a_row_for_every_position",
    "capture.logits.capture_decode": f"{_GENERATION}"
    "test_captured_logits_have_a_row_for_every_position",
    "capture.engine_trace.enabled": f"{_GENERATION}test_a_trace_lists_what_each_step_computed",
}  # fmt: skip


# What is only recorded by the reference engine.
NO_EFFECT_HERE = (Effect.RECORDED, Effect.BY_ENGINE)


def locked(name: str, path: str) -> LockedFile:
    return LockedFile(name, path, 1, Sha256.of(path.encode()), False, "computed", {})


FILES = (
    locked("model.weight", "model.safetensors"),
    locked("model.tokenizer", "tokenizer.json"),
    locked("model.config", "config.json"),
    locked("inference.prompt_dataset", "dataset.json"),
)


def compiled(overrides: Sequence[str]) -> tuple[str, Graph]:
    loaded = load_manifest(QUICKSTART, overrides)
    files = FILES if loaded.manifest.inference.dataset else FILES[:-1]
    lock = Lock(loaded.manifest_id, "2026-01-01T00:00:00Z", files, {})
    return str(loaded.manifest_id), compile_graph(loaded, lock)


def reached(overrides: Sequence[str]) -> set[str]:
    """Return what the last override changes: the targets, and `id` for the manifest's id."""
    (id_before, before), (id_after, after) = compiled(overrides[:-1]), compiled(overrides)
    assert load_manifest(QUICKSTART, overrides[:-1]).document != (
        load_manifest(QUICKSTART, overrides).document
    )
    targets = {name for name in after.targets if after.targets[name] != before.targets.get(name)}
    return targets | ({"id"} if id_before != id_after else set())


def of(*effects: Effect) -> list[FieldEffect]:
    return [field for field in FIELD_EFFECTS if field.effect in effects]


def test_every_field_has_the_evidence_that_its_class_asks_for() -> None:
    refused = {field.path for field in FIELD_EFFECTS if field.refusal}
    assert set(REFUSALS) == refused
    assert set(CHANGES) == {field.path for field in of(*NO_EFFECT_HERE, Effect.WHERE)}
    assert set(ENFORCED_BY) == {field.path for field in of(Effect.ENFORCED)}
    assert {field.path for field in of(Effect.REFUSED)} <= refused


@pytest.mark.parametrize("field", of(*NO_EFFECT_HERE), ids=lambda field: field.path)
def test_a_recorded_field_changes_the_id_and_no_result(field: FieldEffect) -> None:
    assert reached(CHANGES[field.path]) == {"id", "run"}


@pytest.mark.parametrize("field", of(Effect.BY_ENGINE), ids=lambda field: field.path)
def test_a_field_that_counts_for_vllm_changes_what_it_generates(field: FieldEffect) -> None:
    changes = [each.replace('"enabled":false', '"enabled":true') for each in CHANGES[field.path]]
    if field.path == "capture.activations.hooks":
        changes = ['capture.activations={"enabled":true,"hooks":["layers.1"]}', *changes[1:]]
    assert "generation" in reached(["runtime.execution.backend=vllm", *changes])


@pytest.mark.parametrize("field", of(Effect.WHERE), ids=lambda field: field.path)
def test_a_field_that_says_where_changes_nothing(field: FieldEffect) -> None:
    assert reached(CHANGES[field.path]) == set()


def check(loaded: LoadedManifest) -> None:
    """Check a manifest as a realisation does before anything is built."""
    check_manifest(loaded.document)
    plan_lock(loaded)


@pytest.mark.parametrize(
    "field", [field for field in FIELD_EFFECTS if field.refusal], ids=lambda field: field.path
)
def test_a_refused_field_is_refused_in_the_words_of_the_page(
    field: FieldEffect, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(ROOT)
    loaded = load_manifest(QUICKSTART, REFUSALS[field.path])
    with pytest.raises(DisError) as caught:
        check(loaded)
    words = ".*".join(map(re.escape, field.refusal.split("…")))
    assert re.search(words, str(caught.value.cause))
    assert caught.value.exit_code in {2, 5}


@pytest.mark.parametrize("test", sorted(set(ENFORCED_BY.values())))
def test_the_evidence_of_an_enforced_field_is_there(test: str) -> None:
    file, _, name = test.partition("::")
    text = (ROOT / "tests" / file).read_text("utf-8")
    assert f"def {name}(" in text
