"""What this version does with each field of the manifest; docs/reference/manifest.md is made from it.

A field that the schema has and this table lacks fails a test, and so does a field that does
something else than the table says. Blocks that stand in several places have one row for all of them.
"""

import re

from dis_derivations.manifest.engine_fields import ENGINE_FIELDS
from dis_derivations.manifest.field_effect import Effect, FieldEffect

__all__ = ["FIELD_EFFECTS", "Effect", "FieldEffect", "row_of"]

# Blocks that stand in several places: the pattern of a path, and the path of the row they share.
_SHARED = (
    (r"^determinism\.compare\.\w+\.", "determinism.compare.*."),
    (r"^cuda_stack\.userspace\.\w+\.", "cuda_stack.userspace.*."),
    (r"^inference\.dataset\.source\..*", "inference.dataset.source"),
    (r"^model\.\w+\.source\.(?!remote)", "model.*.source."),
    (r"^model\.\w+\.files\[\]", "model.*.files[]"),
    (r"^inference\.[\w\[\]]+\.(sampling|stop)\.", r"inference.*.\1."),
)


def row_of(path: str) -> str:
    """Return the path of the row that a field of the schema has, which blocks may share."""
    for pattern, replacement in _SHARED:
        path = re.sub(pattern, replacement, path)
    return path


def _rows(effect: Effect, block: str, **meanings: str) -> tuple[FieldEffect, ...]:
    """Return rows of one block; `block` ends where the name of a field can follow."""
    return tuple(
        FieldEffect(
            block + name, Effect.BY_ENGINE if block + name in ENGINE_FIELDS else effect, text
        )
        for name, text in meanings.items()
    )


def _refused(path: str, meaning: str, refusal: str, when: str = "") -> FieldEffect:
    return FieldEffect(path, Effect.REFUSED, meaning, when, refusal)


_UNCHECKED = "cannot be fetched by this version, so the digest cannot be checked"
_ELSEWHERE = "a wheel comes from the index that pip goes to, and from no other address"
_LIBRARY = f"CUDA libraries {_UNCHECKED}"
_CODE = f"a model's own code {_UNCHECKED}"
_PACKAGES = "software_stack.python.packages[]."

FIELD_EFFECTS: tuple[FieldEffect, ...] = (
    *_rows(
        Effect.ENFORCED,
        "",
        schema_version="version of this format",
        kind="what the document is",
    ),
    *_rows(
        Effect.ENFORCED,
        "metadata.",
        name="label of derivations and runs; `${manifest_name}` in `outputs.directory`",
    ),
    *_rows(
        Effect.RECORDED,
        "metadata.",
        description="for people",
        created_at="for people",
        owners="for people",
    ),
    *_rows(
        Effect.RECORDED,
        "determinism.",
        strict_hardware="whether a run on hardware outside the constraints is refused before anything is loaded; "
        "without it the bundle says so",
    ),
    *_rows(
        Effect.ENFORCED,
        "determinism.compare.*.",
        rule="how `dis verify` compares `tokens`, `logits`, `activations` and `engine_trace`; "
        "bits, where there is no rule",
        ulp="tolerance of `ulp`, required there and allowed nowhere else",
        atol="absolute tolerance of `absrel`",
        rtol="relative tolerance of `absrel`",
    ),
    *_rows(
        Effect.RECORDED,
        "hardware.constraints.",
        accelerator_vendor="whose accelerators conform",
        gpu_arch_min_cc="lowest compute capability",
        gpu_arch_max_cc="highest compute capability",
        allowed_gpu_models="models that conform; an empty list allows all",
        cpu_arch="architecture of the CPU",
    ),
    *_rows(
        Effect.RECORDED,
        "hardware.record.",
        capture_collect_env="the environment is wanted in the log",
        capture_nvidia_smi="the GPUs are wanted in the log",
        capture_driver_versions="drivers are wanted in the log",
        capture_pcie_topology="the topology is wanted in the log",
    ),
    *_rows(
        Effect.WHERE,
        "artifacts.",
        lockfile="the lock; without it `NAME.lock.json` beside the manifest",
    ),
    *_rows(
        Effect.WHERE,
        "artifacts.store.",
        type="store of earlier tools; not used, `dis` has its own (`--store`)",
        path="as above",
        registry="as above",
    ),
    *_rows(
        Effect.RECORDED,
        "software_stack.python.",
        version="version of Python; enforced where packages are listed: wheels are chosen for it",
        distribution="which Python",
    ),
    *_rows(
        Effect.ENFORCED,
        _PACKAGES,
        name="a package of the engine's environment; what it needs is resolved, too",
        version="its one version; the newest that goes with the others without it",
    ),
    FieldEffect(
        f"{_PACKAGES}source.type",
        Effect.ENFORCED,
        "where it comes from: a wheel from the index of the user's pip",
        "unless `wheel`",
        "Python packages of source type '…' cannot be built; only wheels are taken",
    ),
    *_rows(
        Effect.ENFORCED,
        f"{_PACKAGES}source.",
        digest="what its wheel must hash to; without it, the lock's is taken",
    ),
    _refused(f"{_PACKAGES}source.rev", "revision of a `git` source", _ELSEWHERE),
    _refused(f"{_PACKAGES}source.url", "address", _ELSEWHERE),
    *_rows(
        Effect.ENFORCED,
        "software_stack.python.",
        exclude="packages that are left out although others ask for them, with all that only they need",
    ),
    *_rows(Effect.RECORDED, "software_stack.", nix="a Nix expression of earlier tools"),
    _refused(
        "software_stack.compiled_extensions",
        "extensions of the engine's environment",
        "compiled extensions cannot be pinned by this version",
        "when not empty",
    ),
    _refused(
        "cuda_stack.userspace.*.version",
        "version of `cuda_toolkit`, `cublas`, `cudnn`, `nccl`",
        _LIBRARY,
    ),
    _refused("cuda_stack.userspace.*.digest", "its SHA-256", _LIBRARY),
    *_rows(
        Effect.RECORDED,
        "cuda_stack.",
        env="variables for CUDA",
        driver_policy="how drivers are treated",
    ),
    *_rows(
        Effect.RECORDED,
        "runtime.",
        env="variables of the engine's process; `PYTHONHASHSEED` is required, and is a number",
    ),
    *_rows(
        Effect.RECORDED,
        "runtime.locale.",
        lang="language of the process",
        tz="time zone of the process",
    ),
    *_rows(
        Effect.RECORDED,
        "runtime.threads.",
        omp_num_threads="OpenMP threads",
        mkl_num_threads="MKL threads",
    ),
    *_rows(
        Effect.ENFORCED,
        "runtime.",
        network_policy="`offline_required`: builds have no network, and one that tries it fails",
    ),
    FieldEffect(
        "runtime.execution.backend", Effect.ENFORCED, "the engine ([engines](../guides/engines.md))"
    ),
    *_rows(
        Effect.WHERE,
        "runtime.execution.",
        base_url="address of an `openai_compatible` server, required there; https, or http on this machine; no "
        "password and no query",
        vllm_image_path="OCI layout or `docker save` archive that has the image, in place of its registry",
    ),
    *_rows(
        Effect.RECORDED,
        "runtime.execution.",
        timeout_seconds="patience with an engine that says nothing",
        deterministic_failure_policy="what an unmet determinism control does",
    ),
    *_rows(
        Effect.ENFORCED,
        "runtime.execution.",
        vllm_image="image of the engine; a tag is pinned by `dis lock`",
    ),
    _refused(
        "runtime.profile", "a stricter set of rules", "the regulated profile is not available"
    ),
    *_rows(Effect.RECORDED, "vllm.", mode="how vLLM runs; `vllm` takes `offline` alone"),
    *_rows(
        Effect.RECORDED,
        "vllm.reproducibility.",
        enable_batch_invariance="vLLM's batch-invariant kernels; refused by `vllm` on the CPU",
        enable_v1_multiprocessing="vLLM's worker processes; `vllm` takes `false` alone",
    ),
    *_rows(Effect.RECORDED, "vllm.", env="variables of vLLM"),
    *_rows(
        Effect.RECORDED,
        "vllm.engine_args.",
        model="name under which the model is served and listed",
    ),
    _refused(
        "vllm.engine_args.trust_remote_code",
        "run code that comes with the model; needs `remote_code_commit` and `remote_code_digest`",
        "no engine of this version runs a model's own code",
        "when true",
    ),
    *_rows(
        Effect.RECORDED,
        "vllm.engine_args.",
        async_scheduling="vLLM's scheduler; `vllm` takes `false` alone",
        dtype="type of weights and activations, of `transformers` as well; the reference engine's arithmetic is fixed",
        enforce_eager="no compilation and no graphs; `true` unless said",
        enable_prefix_caching="take positions from earlier requests; `vllm` takes `false` alone",
        enable_chunked_prefill="compute long prompts in pieces; unless said, where a step is shorter than the context",
        attention_backend="implementation of attention",
        block_size="positions in a block of keys and values",
        kv_cache_dtype="type of keys and values",
        seed="of vLLM itself; 0 unless said; requests have their own",
        tensor_parallel_size="accelerators a layer is split over; `vllm` takes 1 alone",
        pipeline_parallel_size="accelerators the layers are split over; `vllm` takes 1 alone",
    ),
    *_rows(
        Effect.ENFORCED,
        "vllm.engine_args.",
        max_model_len="most positions of a sequence",
        max_num_batched_tokens="as in `inference.batching`, with which it must agree",
    ),
    *_rows(
        Effect.RECORDED,
        "vllm.engine_args.",
        gpu_memory_utilization="share of memory; enough for a full batch unless said",
        enable_auto_tool_choice="needs `tool_call_parser`; refused by `vllm`",
        tool_call_parser="parser of tool calls; refused by `vllm`",
        reasoning_parser="parser of reasoning; refused by `vllm`",
    ),
    FieldEffect(
        "model.*.source.type",
        Effect.ENFORCED,
        "kind of source that `weights` (where it is required), `tokenizer`, `config` or "
        "`chat_template` has",
    ),
    *_rows(
        Effect.RECORDED,
        "model.*.source.",
        repo="repository, for `huggingface`, `oci`, `pypi`",
        id="the same under an older name; for `store`, the digest of an object or the name of a root",
    ),
    *_rows(
        Effect.ENFORCED,
        "model.*.source.",
        path="for `store`, the directory of the object that the files are in; for a dataset, its file in the source",
    ),
    FieldEffect(
        "model.*.source.revision",
        Effect.ENFORCED,
        "branch, tag or commit of a `huggingface` repository, whose commit the lock pins; tag or digest of an `oci` "
        "artifact, whose manifest the lock pins; version of a `pypi` package, the newest where there is none",
        "when it is no commit beside a `local_path`",
        "its revision '…' is a branch or tag, which can move, and no commit",
    ),
    *_rows(
        Effect.RECORDED,
        "model.*.source.",
        url="address, for `url`: of a directory, ending with `/`, or of one file; https, or http on this machine; "
        "no password and no query; *where* once every file from it has a digest",
    ),
    *_rows(
        Effect.WHERE,
        "model.*.source.",
        local_path="directory that holds the files; required for `local`; for `store`, the directory of another store",
        mirrors="other addresses of the same, for `url`, asked in this order where the one before fails",
    ),
    _refused("model.weights.source.remote_code_commit", "commit of the model's own code", _CODE),
    _refused("model.weights.source.remote_code_digest", "SHA-256 of that code", _CODE),
    *_rows(
        Effect.ENFORCED,
        "model.*.files[].",
        path="a file of `weights`, `tokenizer` or `config` below its source; each is named once",
        digest="what its bytes must hash to",
    ),
    *_rows(
        Effect.ENFORCED,
        "model.chat_template.file.",
        path="the chat template",
        digest="what its bytes must hash to",
    ),
    _refused(
        "model.adapters",
        "adapters such as LoRA",
        "adapters are not available",
        "when not empty",
    ),
    *_rows(
        Effect.ENFORCED,
        "inference.requests[].",
        id="name of the request, unique",
        kind="a plain prompt, or a conversation through the chat template",
        prompt="the prompt as text, not for `chat`",
    ),
    *_rows(
        Effect.ENFORCED,
        "inference.requests[].messages[].",
        role="who speaks",
        content="what is said",
    ),
    FieldEffect("inference.requests[].prompt_token_ids", Effect.ENFORCED, "the prompt as tokens"),
    *_rows(
        Effect.ENFORCED,
        "inference.*.sampling.",
        temperature="0 is greedy; above 0 tokens are chosen by chance, with a `seed`",
        top_p="the share of probability that the likeliest tokens considered have",
        top_k="how many tokens are considered; null, -1 and 0: all",
        max_tokens="most tokens of the answer",
        seed="what chance is made of, with the request's id; required above temperature 0",
    ),
    *_rows(Effect.ENFORCED, "inference.*.stop.", sequences="texts that end an answer"),
    FieldEffect("inference.*.stop.token_ids", Effect.ENFORCED, "tokens that end an answer"),
    *_rows(
        Effect.RECORDED,
        "inference.requests[].",
        x_arrival_ms="arrival, required for the schedule `replay`",
    ),
    *_rows(
        Effect.ENFORCED,
        "inference.",
        n_prompts="how many prompts of the dataset, from its beginning; at most 100 without `dataset`",
    ),
    *_rows(
        Effect.ENFORCED,
        "inference.request_template.",
        kind="as of a request",
        id_prefix="what the ids of the requests begin with",
    ),
    *_rows(
        Effect.WHERE,
        "inference.dataset.",
        source="the file of prompts, as a path or as a source like the model's; recorded unless local",
    ),
    *_rows(
        Effect.ENFORCED,
        "inference.dataset.",
        digest="what its bytes must hash to",
        format="how the file is read",
    ),
    *_rows(
        Effect.ENFORCED,
        "inference.",
        pinned_date="what chat templates take for today (`strftime_now`); without it such a template "
        "is refused",
    ),
    *_rows(Effect.ENFORCED, "inference.batching.", policy="how batches are formed"),
    *_rows(Effect.RECORDED, "inference.batching.", schedule="what the schedule promises"),
    *_rows(
        Effect.ENFORCED,
        "inference.batching.",
        max_num_seqs="sequences that share a step",
        max_num_batched_tokens="most positions of a step",
    ),
    *_rows(
        Effect.RECORDED,
        "inference.batching.",
        fixed_request_order="whether requests keep their order",
        concurrency="requests in flight to a server",
    ),
    *_rows(Effect.ENFORCED, "capture.", tokens="tokens are always captured"),
    *_rows(
        Effect.ENFORCED,
        "capture.logits.",
        enabled="needs `capture_prefill` or `capture_decode`",
        scope="of the whole vocabulary, or of the chosen token",
        dtype="how they are stored",
        capture_prefill="the logits of prompt positions; not with `chosen_only`",
        capture_decode="the logits that output tokens were chosen from",
    ),
    _refused(
        "capture.activations.enabled",
        "what single layers put out",
        "the reference engine does not capture activations",
        "by `reference` when true",
    ),
    *_rows(Effect.RECORDED, "capture.activations.", hooks="which layers, as `layers.11`"),
    *_rows(
        Effect.ENFORCED,
        "capture.engine_trace.",
        enabled="which requests and how many tokens each step had",
    ),
    *_rows(Effect.RECORDED, "capture.engine_trace.", events="which events"),
    *_rows(
        Effect.WHERE,
        "outputs.",
        directory="where `dis run` lays out a run; `runs/<run_id>` without it",
    ),
    *_rows(
        Effect.WHERE,
        "outputs.golden.",
        enabled="whether every run is compared with it; needs `path`",
        path="a REF of a run, as `dis diff` takes; a path is relative to the working directory",
    ),
    *_rows(
        Effect.WHERE,
        "outputs.bundle_policy.",
        include="what archives and run directories hold; everything where the list is empty",
        retention_days="for how many days from its last use the run's automatic root is kept at least",
    ),
)
