"""The engine of a generation, opened for one build: which one, from where, and what its log keeps."""

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

from dis_derivations.builders.closure import ENVIRONMENT_DIRECTORY, MODEL_DIRECTORY
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
from dis_store import canonical_json
from dis_store.digest import Digest
from dis_store.errors import IntegrityError, UnfitEnvironmentError

if TYPE_CHECKING:
    from dis_derivations.engines.child.launching import ContainerSource, Surroundings
    from dis_derivations.images.stored_image import StoredImage
    from dis_store import Store

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
        IntegrityError: Docker has another image than the one of the closure. Nothing was run.
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
    if kind.name == MOCK.name and context.hints.get("in_image"):
        from dis_derivations.engines.mock.opening import open_mock_worker

        with open_mock_worker(spec, files, batching, _surroundings(context, document)) as mock:
            yield mock
    elif kind.name == MOCK.name:
        from dis_derivations.engines.mock.engine import open_mock_engine

        yield open_mock_engine(files, max_model_len=length)
    elif kind.name == SERVER.name:
        yield _server(context, document, files)
    elif kind.name == TRANSFORMERS.name:
        from dis_derivations.engines.transformers.opening import open_transformers

        with open_transformers(spec, files, _surroundings(context, document)) as transformers:
            yield transformers
    elif kind.name == VLLM.name:
        from dis_derivations.engines.vllm.opening import open_vllm

        with open_vllm(spec, files, batching, _surroundings(context, document)) as vllm:
            yield vllm
    else:
        from dis_derivations.engines.reference.engine import open_reference_engine

        yield open_reference_engine(files, max_model_len=length)


def _surroundings(context: BuildContext, document: Mapping[str, Any]) -> "Surroundings":
    """Return where the worker of a build runs."""
    from dis_derivations.engines.child.launching import DEFAULT_PATIENCE, Surroundings

    def keep_output(output: bytes) -> None:
        context.log_files[ENGINE_LOG] = output

    identity = document.get("environment") or {}
    facts = identity.get("interpreter")
    environment = (
        environment_of(context.store, context.inputs["closure"].object) if identity else None
    )
    if context.hints.get("in_image"):
        interpreter = None
        closure = context.inputs["closure"].object
        container = container_source(context.store, closure, environment, identity)
    else:
        interpreter, container = _interpreter(context), None
        if environment is not None:
            _check_fit(context, environment, interpreter)
    return Surroundings(
        interpreter=interpreter,
        environment=None if environment is None else context.store.object_path(environment),
        platform={"class": context.derivation.platform, "facts": dict(context.platform_facts)},
        patience=float(context.hints.get("patience") or DEFAULT_PATIENCE),
        check=context.check_interrupted,
        note=context.log.write,
        keep_output=keep_output,
        facts=facts,
        container=container,
        tell_attempts=partial(_tell_attempts, context)
        if context.hints.get("forbids_network")
        else None,
    )


def _tell_attempts(context: BuildContext, count: int) -> None:
    """Record that the engine's container was never left, as it is recorded of builds without network.

    Raises:
        NetworkAttemptError: Something in it tried to.
    """
    from dis_derivations.confinement.confined_builder import NETWORK_DOCUMENT, with_network
    from dis_derivations.confinement.counters import KIND
    from dis_derivations.confinement.errors import NetworkAttemptError
    from dis_derivations.runs.run_directory import RUN_LOG

    means = "a container that has none"
    if count:
        context.log.write(f"network: {count} packets had no way out of the container")
        raise NetworkAttemptError(
            f"the engine of {context.derivation.name} tried to use the network, which the manifest forbids",
            cause=f"denied by {means}: {count} packets, by {KIND}",
            hint="if it is meant to use the network, say so: --set runtime.network_policy=online_allowed",
        )
    context.log.write(f"network: no attempt, recorded by {KIND}")
    record = {
        "policy": "offline_required",
        "enforced_by": means,
        "recorded_by": KIND,
        "attempts": 0,
    }
    context.log_files[NETWORK_DOCUMENT] = canonical_json.encode({"format": 1, **record})
    if isinstance(log := context.log_files.get(RUN_LOG), bytes):
        context.log_files[RUN_LOG] = with_network(log, record)


def _interpreter(context: BuildContext) -> Path:
    """Return the Python that was found for the engine.

    Raises:
        UnfitEnvironmentError: None was looked for: the build is made from what the store remembers of it.
    """
    named = context.hints.get("engine_python")
    if named is None:
        raise UnfitEnvironmentError(
            f"it is not known where the engine of {context.derivation.name} is installed",
            hint="make it again from its manifest: dis realize CONFIG",
        )
    return Path(named)


def container_source(
    store: "Store", closure: Digest, environment: Digest | None, identity: Mapping[str, Any]
) -> "ContainerSource":
    """Return what the container of an engine is made of.

    Args:
        store: Has the closure.
        closure: What the engine is opened for.
        environment: The environment in it; None where the image brings its own.
        identity: The `environment` of the closure: what it says of image and interpreter.

    Raises:
        InvalidInputError: The closure has no image.
        IntegrityError: The image is another one than the closure says, or has another interpreter.
        UnfitEnvironmentError: The environment is for another Python than that of the image.
    """
    from dis_derivations.engines.child.launching import ContainerSource
    from dis_derivations.images.stored_image import read_stored

    image = read_stored(store, closure)
    named, facts = identity.get("image"), identity.get("interpreter")
    if named not in {None, str(image.id)}:
        raise IntegrityError(
            "the image of the closure is another one than the lock says",
            cause=f"it is {image.id}, and the result would be remembered as that of {named}",
            hint="lock the image again: dis lock CONFIG --update runtime.image",
        )
    if facts is not None:
        _check_interpreter(store, image, environment, facts)
    return ContainerSource(store, image, closure, MODEL_DIRECTORY, environment)


def _check_interpreter(
    store: "Store",
    image: "StoredImage",
    environment: Digest | None,
    facts: Mapping[str, str],
) -> None:
    from dis_derivations.environments.document import read_environment
    from dis_derivations.environments.interpreter import fits_version
    from dis_derivations.images.interpreter_label import INTERPRETER, interpreter_facts

    found = interpreter_facts(image.image.config.labels.get(INTERPRETER))
    if found != dict(facts):
        raise IntegrityError(
            f"the image {image.id} has another interpreter than the lock says",
            cause=f"it has {found}, and the closure was made for {dict(facts)}",
            hint="lock the image again: dis lock CONFIG --update runtime.image",
        )
    if environment is None:
        return
    document = read_environment(store.object_path(environment))
    version = facts["python"].rpartition(" ")[2]
    if not fits_version(document.python, version):
        raise UnfitEnvironmentError(
            f"the environment is not for the Python of the image, which is {facts['python']}",
            cause=f"it was made for Python {document.python}",
            hint="name an image with that Python, or run it outside: --in environment",
        )


def _server(
    context: BuildContext, document: Mapping[str, Any], files: Mapping[str, Path]
) -> Engine:
    from dis_derivations.engines.openai_compatible.asking import Server
    from dis_derivations.engines.openai_compatible.engine import DEFAULT_PATIENCE, open_server

    patience = float(context.hints.get("patience") or DEFAULT_PATIENCE)
    server = Server.at(context.hints["base_url"], patience, context.check_interrupted)
    return open_server(document["engine"], files, document["environment"], server)


def environment_of(store: "Store", closure: Digest) -> Digest | None:
    """Return the environment of a closure; None for a closure without one."""
    return next(
        (
            file.owner
            for file in store.files(closure)
            if file.path == f"{ENVIRONMENT_DIRECTORY}/{DOCUMENT}"
        ),
        None,
    )


def _check_fit(context: BuildContext, environment: Digest, interpreter: Path) -> None:
    """Refuse an interpreter that an environment is not for.

    Raises:
        UnfitEnvironmentError: It is not.
    """
    from dis_derivations.environments.document import read_environment
    from dis_derivations.environments.fit import check_fit
    from dis_derivations.environments.interpreter import probe_interpreter

    check_fit(
        read_environment(context.store.object_path(environment)), probe_interpreter(interpreter)
    )
