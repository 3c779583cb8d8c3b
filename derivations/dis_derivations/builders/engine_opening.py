"""The engine of a generation, opened for one build: which one, from where, and what its log keeps."""

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

from dis_derivations.builders.closure import ENVIRONMENT_DIRECTORY
from dis_derivations.engines.protocol import Batching, Engine
from dis_derivations.engines.registry import (
    MOCK,
    REFERENCE,
    SERVER,
    TRANSFORMERS,
    VLLM,
    engine_kind,
)
from dis_derivations.environments.document import DOCUMENT
from dis_derivations.realisation.building import BuildContext
from dis_store.digest import Digest
from dis_store.errors import UnfitEnvironmentError

if TYPE_CHECKING:
    from dis_derivations.engines.child.launching import Surroundings

ENGINE_LOG = "engine.log"


@contextmanager
def opened_engine(
    context: BuildContext,
    document: Mapping[str, Any],
    files: Mapping[str, Path],
    batching: Batching,
) -> Iterator[Engine]:
    """Load a model into the engine that a closure names; what runs for it ends with the block.

    Args:
        context: The build.
        document: `closure.json`.
        files: The files of the model, by their names inside the model directory.
        batching: How many sequences share a step.

    Raises:
        UnfitEnvironmentError: The engine cannot be had here, or cannot run this model.
        InvalidInputError: A file of the model is malformed.
        BuildError: The engine failed.
    """
    spec = document["engine"]
    kind = engine_kind(spec["name"])  # refuses an engine that this version does not have
    length = spec["settings"].get("max_model_len")
    if kind.name != REFERENCE.name and spec["numerics"] != kind.numerics:
        raise UnfitEnvironmentError(
            f"the closure is for version {spec['numerics']} of the engine {kind.name}",
            cause=f"this version of dis has version {kind.numerics}",
        )
    if kind.name == MOCK.name:
        from dis_derivations.engines.mock.engine import open_mock_engine

        yield open_mock_engine(files, max_model_len=length)
    elif kind.name == SERVER.name:
        yield _server(context, document, files)
    elif kind.name == TRANSFORMERS.name:
        from dis_derivations.engines.transformers.opening import open_transformers

        with open_transformers(spec, files, _surroundings(context)) as transformers:
            yield transformers
    elif kind.name == VLLM.name:
        from dis_derivations.engines.vllm.opening import open_vllm

        with open_vllm(spec, files, batching, _surroundings(context)) as vllm:
            yield vllm
    else:
        from dis_derivations.engines.reference.engine import open_reference_engine

        yield open_reference_engine(files, max_model_len=length)


def _surroundings(context: BuildContext) -> "Surroundings":
    """Return where the worker of a build runs."""
    from dis_derivations.engines.child.launching import DEFAULT_PATIENCE, Surroundings

    def keep_output(output: bytes) -> None:
        context.log_files[ENGINE_LOG] = output

    return Surroundings(
        interpreter=Path(context.hints["engine_python"]),
        environment=_environment(context, context.inputs["closure"].object),
        platform={"class": context.derivation.platform, "facts": dict(context.platform_facts)},
        patience=float(context.hints.get("patience") or DEFAULT_PATIENCE),
        check=context.check_interrupted,
        note=context.log.write,
        keep_output=keep_output,
    )


def _server(
    context: BuildContext, document: Mapping[str, Any], files: Mapping[str, Path]
) -> Engine:
    from dis_derivations.engines.openai_compatible.asking import Server
    from dis_derivations.engines.openai_compatible.engine import DEFAULT_PATIENCE, open_server

    patience = float(context.hints.get("patience") or DEFAULT_PATIENCE)
    server = Server.at(context.hints["base_url"], patience, context.check_interrupted)
    return open_server(document["engine"], files, document["environment"], server)


def _environment(context: BuildContext, closure: Digest) -> Path | None:
    """Return where the environment of the closure lies; None for a closure without one.

    Raises:
        UnfitEnvironmentError: It is not for the interpreter.
    """
    from dis_derivations.environments.document import read_environment
    from dis_derivations.environments.fit import check_fit
    from dis_derivations.environments.interpreter import probe_interpreter

    owners = [
        file.owner
        for file in context.store.files(closure)
        if file.path == f"{ENVIRONMENT_DIRECTORY}/{DOCUMENT}"
    ]
    if not owners:
        return None
    path = context.store.object_path(owners[0])
    check_fit(read_environment(path), probe_interpreter(Path(context.hints["engine_python"])))
    return path
