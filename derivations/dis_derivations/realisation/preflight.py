"""Refuse what cannot work before a byte is fetched: fields of the manifest, disk and memory."""

import shutil
import stat
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from dis_derivations.engines.registry import (
    REFERENCE,
    SERVER,
    TRANSFORMERS,
    EngineKind,
    engine_kind,
)
from dis_derivations.graph.compilation import TARGETS
from dis_derivations.lock.unverified_digests import FLAG
from dis_derivations.manifest.artifact_groups import CONFIG, ArtifactGroup, artifact_groups
from dis_derivations.manifest.loading import LoadedManifest
from dis_derivations.realisation.memory import available_memory
from dis_derivations.realisation.target import TargetRequest
from dis_store import Store, strict_json
from dis_store.digest import Digest
from dis_store.errors import (
    DisError,
    DiskFullError,
    InvalidInputError,
    LittleMemoryError,
    UnfitEnvironmentError,
    UnsupportedError,
)

# What a build needs beside its inputs: room for results, logs and the index.
_WORKING_BYTES = 64 * 2**20
# An output and a log, each with directory, manifest and file; the derivation; the record of the build, its directory.
_FILES_OF_A_BUILD = 9
_CONFIG_BYTES = 1 << 20
# The reference engine holds weights once as integers of up to 8 bytes where the checkpoint has 2; vLLM reads a file
# while it fills what it computes with.
_WEIGHT_EXPANSION = {"reference": 4.5, "vllm": 2.0, "transformers": 2.0}
_GENERATING = ("run", "generation")


def check_manifest(document: Mapping[str, Any]) -> None:
    """Refuse a manifest that asks for something this version cannot do, with every such field at once.

    Args:
        document: The effective manifest, validated.

    Raises:
        UnfitEnvironmentError: Lists each field, its value and why it is refused.
    """
    refused = list(_refusals(document))
    if refused:
        raise UnsupportedError(
            f"manifest {document['metadata']['name']!r} asks for what this version of dis cannot do",
            cause="\n".join(refused),
            hint="change the fields, or set them for one run: --set FIELD=VALUE (docs/reference/manifest.md)",
        )


def _refusals(document: Mapping[str, Any]) -> Iterator[str]:
    """Yield one line for each field that is refused; engines that are not there are refused by `engine_kind`."""
    runtime, model, capture = document["runtime"], document["model"], document["capture"]
    backend = runtime["execution"]["backend"]
    engine = None
    try:
        engine = engine_kind(backend)
    except UnfitEnvironmentError as refusal:
        yield f"runtime.execution.backend: {refusal.what}"
    if engine is not None:
        yield from _engine_refusals(document, engine)
    if runtime.get("profile") == "regulated":
        yield "runtime.profile: the regulated profile is not available"
    if model.get("adapters"):
        yield "model.adapters: adapters are not available"
    if document["vllm"].get("engine_args", {}).get("trust_remote_code"):
        yield "vllm.engine_args.trust_remote_code: no engine of this version runs a model's own code"
    captures = engine is not None and engine.captures_activations
    if capture.get("activations", {}).get("enabled") and not captures:
        yield f"capture.activations: the {backend} engine does not capture activations"


def _engine_refusals(document: Mapping[str, Any], engine: EngineKind) -> Iterator[str]:
    """Yield what an engine that is no part of dis is not run with."""
    if engine.name == SERVER.name:
        yield from _server_refusals(document["capture"])
    if not engine.has_process:
        return
    from dis_derivations.engines.child.environment import declared_variables, refused_variables

    yield from refused_variables(document)
    declared = declared_variables(document)
    if engine.name == TRANSFORMERS.name:
        from dis_derivations.engines.transformers import settings

        yield from settings.refused_settings(document, declared)
        return
    from dis_derivations.engines.vllm.settings import refused_settings

    on_cpu = engine.platform_of(document) == "cpu"
    yield from refused_settings(document, declared, on_cpu=on_cpu)


def _server_refusals(capture: Mapping[str, Any]) -> Iterator[str]:
    logits = capture.get("logits", {})
    if logits.get("enabled") and logits.get("capture_prefill"):
        yield "capture.logits.capture_prefill: a server does not tell the logits of prompts"
    if capture.get("engine_trace", {}).get("enabled"):
        yield "capture.engine_trace: a server does not tell what is in its batches"


def check_target(request: TargetRequest) -> None:
    """Refuse a target that no manifest has, and one that cannot be had as it is asked for.

    Raises:
        InvalidInputError: Lists the targets that there can be.
    """
    target = request.target
    if target not in TARGETS:
        from difflib import get_close_matches

        close = get_close_matches(target, TARGETS, n=1)
        raise InvalidInputError(
            f"no manifest has a target {target!r}",
            cause=f"targets are {', '.join(TARGETS)}",
            hint=f"did you mean {close[0]}?" if close else None,
        )
    if not request.verify_digests and target != "run":
        raise InvalidInputError(
            f"{FLAG} is for runs, and the target is {target!r}",
            cause="only the bundle of a run says that digests were not verified",
            hint=f"leave out #{target}, or {FLAG}",
        )


def check_plannable(request: TargetRequest) -> None:
    """Refuse to plan what is not known before it is read.

    Raises:
        InvalidInputError: The digests of the lock are not to be verified.
    """
    if not request.verify_digests:
        raise InvalidInputError(
            f"what would be built with {FLAG} is not known beforehand",
            cause="it depends on the files as they are at their sources, and a dry run reads none",
            hint=f"leave out --dry-run, or {FLAG}",
        )


def check_model(loaded: LoadedManifest, *, ask_hub: bool = False) -> bool:
    """Refuse a model that no engine here supports, from its configuration alone, before its weights are read.

    A configuration that is not at hand, or cannot be read, is left to the lock to refuse.

    Args:
        loaded: The manifest.
        ask_hub: Whether a hub may be asked for the configuration as it is now, because nothing is locked yet.

    Returns:
        Whether a configuration was looked at, or need not be.

    Raises:
        UnfitEnvironmentError: Names what is not supported.
        InvalidInputError: The configuration is malformed.
    """
    from dis_derivations.engines.reference.families import check_supported

    if loaded.document["runtime"]["execution"]["backend"] != REFERENCE.name:
        return True  # what another engine supports, only that engine knows
    looked_at = False
    for group in artifact_groups(loaded):
        # Where neither is said, the configuration is not looked for in a directory.
        if group.name != CONFIG or not (group.files or group.found):
            continue
        if group.source.location is not None:
            config = _configuration(group.source.location)
        else:
            config = _published_configuration(group) if ask_hub else None
        if config:
            check_supported(config)
            looked_at = True
    return looked_at


def check_stored_model(store: Store, config: Digest, document: Mapping[str, Any]) -> None:
    """Refuse a model that no engine here supports, from the configuration in the store.

    Args:
        store: Where it is.
        config: The object of the configuration; without a `config.json` nothing is refused.
        document: The manifest, for its engine.

    Raises:
        UnfitEnvironmentError: Names what is not supported.
        InvalidInputError: The configuration is malformed.
    """
    from dis_derivations.engines.reference.families import check_supported

    if document["runtime"]["execution"]["backend"] != REFERENCE.name:
        return  # what another engine supports, only that engine knows
    for file in store.files(config):
        if file.path == "config.json" and (found := _configuration(file.real.parent)):
            check_supported(found)


def _published_configuration(group: ArtifactGroup) -> Mapping[str, Any] | None:
    """Return the configuration that a hub has; None where it does not give it."""
    from dis_derivations.sources.hugging_face import HuggingFaceSource
    from dis_derivations.sources.published_model import published_document
    from dis_derivations.sources.registry import open_source

    source = open_source(group)
    if not isinstance(source, HuggingFaceSource):
        return None
    try:
        return published_document(source, "config.json")
    except DisError:
        return None


def _configuration(directory: Path) -> Mapping[str, Any] | None:
    """Return the configuration in a directory; None where it is not there or cannot be read."""
    path = directory / "config.json"
    try:
        status = path.stat()
        # A named pipe would never end, a device neither.
        readable = stat.S_ISREG(status.st_mode) and status.st_size <= _CONFIG_BYTES
        data = path.read_bytes() if readable else None
    except (OSError, ValueError):
        return None
    if data is None:
        return None
    config = strict_json.decode(data, name=str(path))
    if not isinstance(config, dict):
        raise InvalidInputError(f"{path} is not a JSON object")
    return config


def generates(target: str) -> bool:
    """Tell whether realising a target from nothing runs the model."""
    return target in _GENERATING


def check_docker() -> None:
    """Refuse a machine without Docker for an engine that is to run in an image.

    Raises:
        UnfitEnvironmentError: None answers.
    """
    from dis_derivations.images.docker_engine import DockerEngine

    try:
        DockerEngine.connect().client.close()
    except UnfitEnvironmentError as error:
        raise UnfitEnvironmentError(
            "the engine is to run in the image of the manifest, and no Docker engine answers",
            cause=error.cause,
            hint="start Docker, or let DOCKER_HOST name an engine; or run it outside: --in environment",
        ) from error


def check_room(store: Store, arriving: int, *, files: int, builds: int = 0) -> None:
    """Refuse when the disk of the store cannot hold what comes.

    Args:
        store: Where it goes.
        arriving: The bytes that are to be read or fetched.
        files: How many files have these bytes.
        builds: How many builds there are to do; each leaves a few small files at least.

    Raises:
        UnfitEnvironmentError: Says how much is needed and how much there is.
    """
    needed = _WORKING_BYTES + arriving
    free = shutil.disk_usage(store.path).free
    if free < needed:
        # What has come of downloads has its room already.
        needed -= min(arriving, store.unfinished_bytes())
    if free < needed:
        raise DiskFullError(
            f"the disk of the store is too full: {_mib(needed)} needed, {_mib(free)} free",
            cause=f"the store is {store.path}",
            hint=store.advice_for_room(needed - free),
        )
    store.check_inodes(files + _FILES_OF_A_BUILD * builds)


def check_memory(weights: int, document: Mapping[str, Any]) -> None:
    """Refuse when a model cannot be loaded.

    Args:
        weights: The bytes of its weights as they are stored.
        document: The manifest, for its engine.

    Raises:
        UnfitEnvironmentError: Says how much is needed and how much there is.
    """
    backend = document["runtime"]["execution"]["backend"]
    if backend not in _WEIGHT_EXPANSION or engine_kind(backend).platform_of(document) == "cuda":
        return  # what an accelerator has, the engine itself looks at
    needed = int(weights * _WEIGHT_EXPANSION[backend])
    memory = available_memory()
    if memory is not None and memory < needed:
        raise LittleMemoryError(
            f"the model does not fit in memory: about {_mib(needed)} needed, {_mib(memory)} available",
            hint="use a smaller model, or a machine with more memory",
        )


def _mib(size: int) -> str:
    return f"{size / 2**20:,.0f} MiB"
