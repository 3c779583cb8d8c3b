"""What must be there before a server is started: the closure of its manifest, checked, and where vLLM runs."""

from collections.abc import Mapping
from contextlib import closing
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from dis_derivations.builders.closure import CLOSURE_DOCUMENT
from dis_derivations.builders.engine_opening import environment_of
from dis_derivations.builders.loaded_engine import verified_model
from dis_derivations.engines.model_files import model_ends, read_config
from dis_derivations.engines.protocol import Batching
from dis_derivations.engines.registry import VLLM
from dis_derivations.graph.compilation import batching
from dis_derivations.graph.engine_process import engine_variables
from dis_derivations.lock.document import Lock
from dis_derivations.lock.location import LockLocation
from dis_derivations.lock.staleness import stale_artifacts
from dis_derivations.manifest.loading import LoadedManifest, validate
from dis_derivations.manifest.reading import read_manifest_files
from dis_derivations.realisation import platform_facts, preflight
from dis_derivations.realisation.gauge import measured
from dis_derivations.realisation.hardware_check import check_hardware
from dis_derivations.realisation.manifest_build import ManifestBuild
from dis_derivations.realisation.target import RealisedTarget, TargetRequest
from dis_derivations.realisation.weights_size import loaded_size
from dis_derivations.serving.arguments import server_arguments
from dis_derivations.serving.served import Served, what_is_served
from dis_store import strict_json
from dis_store.digest import Digest
from dis_store.errors import InterruptedBuildError, InvalidInputError

if TYPE_CHECKING:
    from dis_derivations.realisation.events import Measure, Reporter
    from dis_derivations.realisation.gauge import Gauge
    from dis_store import Store

_TARGET = "closure"


@dataclass(frozen=True)
class Prepared:
    """A closure that can be served.

    Attributes:
        served: What the manifest says of its server.
        realised: The closure, realised.
        spec: Its `engine`: settings and variables.
        identity: Its `environment`: what vLLM is made of.
        environment: The environment in it that vLLM runs from; None where it is elsewhere.
        options: What the server is told, but for where its model is and where it listens.
        interpreter: The Python that runs it; None in an image.
        platform: The class of this machine and its facts.
    """

    served: Served
    realised: RealisedTarget
    spec: Mapping[str, Any]
    identity: Mapping[str, Any]
    environment: Digest | None
    options: list[str]
    interpreter: Path | None
    platform: Mapping[str, Any]

    @property
    def closure(self) -> Digest:
        """What is served."""
        return self.realised.main_output


def look_at(request: TargetRequest) -> tuple[Served, TargetRequest]:
    """Return what a manifest says of its server, and the request for the closure that it is started on.

    Raises:
        InvalidInputError: The manifest is invalid, or there is no lock that pins all of it.
        UnfitEnvironmentError: It is not for vLLM, asks for what its server is not started with, or is for another
            machine.
    """
    served = what_is_served(
        validate(read_manifest_files(request.config, request.overrides)).document
    )
    inner = replace(
        request, target=_TARGET, overrides=(*request.overrides, *served.overrides), locked=True
    )
    loaded = validate(read_manifest_files(inner.config, inner.overrides))
    preflight.check_manifest(loaded.document)
    check_hardware(loaded.document)
    _check_lock(loaded)
    return served, inner


def prepare(
    store: "Store", served: Served, request: TargetRequest, reporter: "Reporter"
) -> Prepared:
    """Realise the closure of a manifest and check each byte of it that is going to be loaded.

    Args:
        store: Where the closure goes.
        served: As `look_at` returned it, with `request`.
        request: For the closure.
        reporter: Told of the builds.

    Raises:
        DisError: As `realise_target`; or a file of the closure is not what it must be.
        InterruptedBuildError: The user interrupted; what is finished is kept.
    """
    raw = read_manifest_files(request.config, request.overrides)
    try:
        with closing(
            ManifestBuild.prepare(store, raw, LockLocation.of(raw), request, reporter)
        ) as build:
            weights = build.graph.derivations[build.graph.target("weights")]
            preflight.check_memory(loaded_size(store, weights), build.loaded.document)
            return _checked(store, build, build.realise(), served, reporter)
    except KeyboardInterrupt:
        raise InterruptedBuildError(
            "interrupted", hint="run the same command again: it goes on from what is finished"
        ) from None


def _checked(
    store: "Store",
    build: ManifestBuild,
    realised: RealisedTarget,
    served: Served,
    reporter: "Reporter",
) -> Prepared:
    closure, document = realised.main_output, build.loaded.document
    said = strict_json.decode(store.read_bytes(closure, CLOSURE_DOCUMENT), name=CLOSURE_DOCUMENT)
    spec, identity = said["engine"], said["environment"] or {}
    files = _verified(store, closure, reporter)
    config = read_config(files)
    context = model_ends(files, config, spec["settings"].get("max_model_len")).context
    platform = VLLM.platform_of(document)
    facts = platform_facts.measure(platform, engine_variables(VLLM, document))
    return Prepared(
        served=served,
        realised=realised,
        spec=spec,
        identity=identity,
        environment=environment_of(store, closure),
        options=server_arguments(
            spec["settings"], Batching(**batching(document)), config, context, served
        ),
        interpreter=build.interpreter,
        platform={"class": platform, "facts": dict(facts)},
    )


def _verified(store: "Store", closure: Digest, reporter: "Reporter") -> Mapping[str, Path]:
    from dis_derivations.realisation.events import Measure

    with measured(
        reporter, "closure", "verifying the model", Measure("bytes", 0), finished="verified"
    ) as gauge:

        def gauge_of(text: str, measure: "Measure") -> "Gauge":
            del text
            gauge.show(measure)
            return gauge

        files, _ = verified_model(store, closure, gauge_of, lambda: None)
    return files


def _check_lock(loaded: LoadedManifest) -> None:
    """Refuse a manifest that is not locked as it is: a server is started on what was pinned before."""
    location = LockLocation.of(loaded.raw)
    data = location.read()
    if data is None:
        raise _unlocked(loaded, "there is no lock yet")
    stale = stale_artifacts(
        loaded, Lock.decode(data, name=str(location.path or "the embedded lock"))
    )
    if stale:
        raise _unlocked(loaded, f"the lock is stale for {', '.join(stale)}")


def _unlocked(loaded: LoadedManifest, cause: str) -> InvalidInputError:
    return InvalidInputError(
        f"{loaded.path} cannot be served before everything it names is pinned",
        cause=cause,
        hint=f"dis lock {loaded.path}, with the same --set; an --image is --set runtime.execution.vllm_image=NAME",
    )
