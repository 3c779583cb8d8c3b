"""What a server is made of, as it tells, and what of that is not what a manifest wants."""

from collections.abc import Iterator, Mapping
from typing import Any

from dis_derivations.engines.openai_compatible.asking import Server
from dis_derivations.runs.bundle import SERVER
from dis_store.digest import Digest
from dis_store.errors import BuildError, InvalidInputError

_LONGEST_TEXT = 4096
# Where a server's configuration (`/server_info`) has what may change a bit: block and name, by that of the argument.
_SETTINGS: Mapping[str, tuple[str, str]] = {
    "async_scheduling": ("scheduler_config", "async_scheduling"),
    "block_size": ("cache_config", "block_size"),
    "dtype": ("model_config", "dtype"),
    "enable_chunked_prefill": ("scheduler_config", "enable_chunked_prefill"),
    "enable_prefix_caching": ("cache_config", "enable_prefix_caching"),
    "enforce_eager": ("model_config", "enforce_eager"),
    "kv_cache_dtype": ("cache_config", "cache_dtype"),
    "logprobs_mode": ("model_config", "logprobs_mode"),
    "max_logprobs": ("model_config", "max_logprobs"),
    "max_model_len": ("model_config", "max_model_len"),
    "max_num_batched_tokens": ("scheduler_config", "max_num_batched_tokens"),
    "max_num_seqs": ("scheduler_config", "max_num_seqs"),
    "pipeline_parallel_size": ("parallel_config", "pipeline_parallel_size"),
    "quantization": ("model_config", "quantization"),
    "scheduling_policy": ("scheduler_config", "policy"),
    "seed": ("model_config", "seed"),
    "tensor_parallel_size": ("parallel_config", "tensor_parallel_size"),
    "trust_remote_code": ("model_config", "trust_remote_code"),
}
_SYSTEM = (
    "torch_version", "python_version", "cuda_runtime_version", "cudnn_version", "nvidia_driver_version",
    "nvidia_gpu_models", "pip_packages",
)  # fmt: skip
_VARIABLES = (
    "VLLM_BATCH_INVARIANT", "VLLM_CPU_SGL_KERNEL", "VLLM_FLOAT32_MATMUL_PRECISION", "VLLM_USE_DEEP_GEMM",
    "VLLM_USE_FLASHINFER_SAMPLER", "VLLM_USE_V2_MODEL_RUNNER",
)  # fmt: skip
_ALIASES = {"float": "float32", "half": "float16"}
# What a manifest wants where it says nothing: what a request gives would depend on those before it.
_WANTED: Mapping[str, Any] = {"enable_prefix_caching": False}
_CPU_MODEL = "Model name:"
UNPROVEN_WEIGHTS = (
    "model.weights: nothing proves that the server computes with the weights of the lock"
)
NOT_TOLD = "it does not tell (a vLLM server does with VLLM_SERVER_DEV_MODE=1)"


def read_server(server: Server, wanted_model: str | None) -> dict[str, Any]:
    """Return what a server says of itself and can change a bit, read anew.

    Members: `version`, `model` (`id`, `max_model_len`), `settings`, `system` and `variables`, the last three null where
    it does not tell them; then `address` is a digest of where it is, for nothing else tells it from another one.

    Args:
        server: Asks it.
        wanted_model: The name of the model in the manifest; where the server has one model alone, it is that one.

    Raises:
        BuildError: It cannot be reached, or answers what makes no sense.
        InvalidInputError: It has several models, and none of this name.
    """
    version = _object(server.read("version"), "version").get("version")
    info = server.read("server_info", "config_format=json")
    told = {
        "version": version if isinstance(version, str) and len(version) < _LONGEST_TEXT else None,
        "model": _model(server, wanted_model),
        "settings": None,
        "system": None,
        "variables": None,
    }
    config = info.get("vllm_config") if isinstance(info, dict) else None
    if not isinstance(config, dict):
        root = server.place.root
        return {**told, "address": str(Digest.of(f"{root.origin}{root.path}".encode()))}
    return {
        **told,
        "settings": {
            name: _plain(_member(config, block).get(member))
            for name, (block, member) in _SETTINGS.items()
        },
        "system": _system(_member(info, "system_env")),
        "variables": {
            name: _plain(_member(info, "vllm_env").get(name)) for name in sorted(_VARIABLES)
        },
    }


def departures(document: Mapping[str, Any], told: Mapping[str, Any]) -> list[str]:
    """Return one line for each thing in which a server is not what a manifest wants, or does not prove that it is.

    Args:
        document: The manifest.
        told: What `read_server` returned.
    """
    return [*_software(document, told), *_settings(document, told), UNPROVEN_WEIGHTS]


def server_identity(document: Mapping[str, Any], told: Mapping[str, Any]) -> dict[str, Any]:
    """Return what enters the closure."""
    return {"kind": SERVER, **told, "departures": departures(document, told)}


def _software(document: Mapping[str, Any], told: Mapping[str, Any]) -> Iterator[str]:
    wanted = (document["vllm"].get("engine_args") or {}).get("model")
    if wanted is not None and told["model"]["id"] != wanted:
        yield f"vllm.engine_args.model: the server's is {told['model']['id']!r}, and the manifest's {wanted!r}"
    if told["version"] is None:
        yield f"vllm: its version, {NOT_TOLD}"
    packages = document.get("software_stack", {}).get("python", {}).get("packages") or ()
    for package in packages:
        name, version = package.get("name"), package.get("version")
        if name == "vllm" and version and told["version"] not in (None, version):
            yield f"vllm: the server has version {told['version']!r}, and the manifest {version!r}"


def _settings(document: Mapping[str, Any], told: Mapping[str, Any]) -> Iterator[str]:
    arguments = document["vllm"].get("engine_args") or {}
    batching = document["inference"].get("batching") or {}
    said = {**arguments, **batching}
    wanted = {
        **_WANTED,
        **{name: said[name] for name in _SETTINGS if said.get(name) not in (None, "auto")},
    }
    settings = told["settings"]
    for name in sorted(wanted):
        value = wanted[name]
        place = "inference.batching" if name in batching else "vllm.engine_args"
        if settings is None or settings[name] is None:
            yield f"{place}.{name}: the manifest wants {value!r}, and what the server has {NOT_TOLD}"
        elif settings[name] != _ALIASES.get(value, value):
            yield f"{place}.{name}: the manifest wants {value!r}, and the server has {settings[name]!r}"


def _model(server: Server, wanted: str | None) -> dict[str, Any]:
    listed = _object(server.read("v1/models"), "v1/models").get("data")
    models = [each for each in listed if isinstance(each, dict)] if isinstance(listed, list) else []
    names = [each.get("id") for each in models]
    if not models or not all(isinstance(name, str) and len(name) < _LONGEST_TEXT for name in names):
        raise BuildError(f"the server {server.name} does not say which models it has")
    if wanted not in names and len(models) > 1:
        raise InvalidInputError(
            f"the server {server.name} has no model {wanted!r}",
            cause=f"it has {', '.join(map(repr, names))}"[:_LONGEST_TEXT],
            hint="name one of them: --set vllm.engine_args.model=NAME",
        )
    chosen = models[names.index(wanted)] if wanted in names else models[0]
    return {"id": chosen["id"], "max_model_len": _plain(chosen.get("max_model_len"))}


def _system(system: Mapping[str, Any]) -> dict[str, Any]:
    lines = str(system.get("cpu_info") or "").splitlines()
    model = next((line for line in lines if line.startswith(_CPU_MODEL)), None)
    return {
        **{name: _plain(system.get(name)) for name in _SYSTEM},
        "cpu_model": None if model is None else _plain(model.removeprefix(_CPU_MODEL).strip()),
    }


def _plain(value: object) -> bool | int | float | str | None:
    """Return a value that a document may hold; None for any other."""
    if isinstance(value, str):
        return value.removeprefix("torch.")[:_LONGEST_TEXT]
    return value if isinstance(value, bool | int | float) else None


def _member(document: Mapping[str, Any], name: str) -> Mapping[str, Any]:
    value = document.get(name)
    return value if isinstance(value, dict) else {}


def _object(document: object, path: str) -> Mapping[str, Any]:
    if document is None:
        return {}
    if not isinstance(document, dict):
        raise BuildError(f"the server answers {path} with something that is no object")
    return document
