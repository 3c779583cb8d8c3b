"""Making the runs of a probe: ordinary ones of varied manifests, and repetitions of the first one."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import TYPE_CHECKING, Any, Self

from dis_derivations.builders import standard_builders
from dis_derivations.builders.requests import REQUESTS_DOCUMENT
from dis_derivations.confinement.policy import builders_for, confinement_for
from dis_derivations.engines.protocol import Request
from dis_derivations.engines.registry import engine_kind
from dis_derivations.graph.compilation import compile_graph
from dis_derivations.graph.engine_process import engine_variables
from dis_derivations.graph.graph import Graph
from dis_derivations.lock.document import Lock
from dis_derivations.manifest.loading import LoadedManifest
from dis_derivations.probing.experiment import Experiment, Repetition, Variation, WarmCache
from dis_derivations.probing.manifests import varied
from dis_derivations.probing.repetition import PROBE, repeated
from dis_derivations.probing.warm_cache import FIRST_RUN, WarmRuns, cache_settings, warmed
from dis_derivations.realisation import preflight
from dis_derivations.realisation.engine_environment import (
    FoundEnvironment,
    find_engine_environment,
)
from dis_derivations.realisation.events import Event, Reporter
from dis_derivations.realisation.manifest_build import (
    generation_hints,
    interpreter_of,
    observed_documents,
)
from dis_derivations.realisation.realiser import Realiser, Surroundings
from dis_derivations.realisation.silence import silent
from dis_derivations.realisation.target import TargetRequest
from dis_derivations.realisation.weights_size import loaded_size
from dis_derivations.runs.bundle import EXPERIMENT
from dis_derivations.runs.bundle_documents import load_bundle
from dis_derivations.runs.bundle_reader import StoredBundle
from dis_derivations.sources.manifest_sources import ManifestSources
from dis_derivations.tokenization.requests_document import parse_requests
from dis_store.digest import Digest
from dis_store.errors import BuildError, DisError, InterruptedBuildError

if TYPE_CHECKING:
    from dis_derivations.confinement.confined_process import ConfinedProcess
    from dis_store import Store

_RUN, _GENERATION = "run", "generation"


@dataclass(frozen=True)
class Made:
    """A run of a probe.

    Attributes:
        bundle: Its bundle.
        cached: Whether nothing was generated for it.
        warm: What a warm cache is compared with; None for any other experiment.
    """

    bundle: Digest
    cached: bool
    warm: WarmRuns | None = None


@dataclass(frozen=True)
class _Compiled:
    """A manifest on its way to a run."""

    loaded: LoadedManifest
    lock: Lock
    graph: Graph
    realiser: Realiser

    @property
    def document(self) -> Mapping[str, Any]:
        return self.loaded.document

    @property
    def is_known(self) -> bool:
        """Whether the store has the results of its generation."""
        missing = self.realiser.missing(self.graph.target(_RUN))
        return self.graph.target(_GENERATION) not in missing


@dataclass
class Laboratory:
    """Makes runs that differ from one manifest's in one thing; a context manager.

    Attributes:
        loaded: The manifest of the run that the others are compared with.
        lock: Its lock.
        request: How many builds at a time, and the interpreters of engines that are no part of dis.
        builds: Whether anything may be built; otherwise it is only asked what is known.
    """

    store: "Store"
    loaded: LoadedManifest
    lock: Lock
    request: TargetRequest
    reporter: Reporter = silent
    builds: bool = True
    built: int = 0
    _confinement: "ConfinedProcess | None" = None
    _environments: dict[str, FoundEnvironment | None] = field(default_factory=dict)

    def __enter__(self) -> Self:
        if self.builds:
            self._confinement = confinement_for(self.loaded.document, _RUN)
        return self

    def __exit__(self, *_: object) -> None:
        if self._confinement is not None:
            self._confinement.close()

    def baseline(self) -> Made:
        """Return the run that the others are compared with.

        Raises:
            DisError: It cannot be made here.
        """
        return self._made(self._baseline)

    def make(self, experiment: Experiment) -> Made:
        """Return the run of an experiment.

        Raises:
            DisError: It cannot be made here.
        """
        if isinstance(experiment, WarmCache):
            return self._made_warm(experiment)
        return self._made(self._compiled(experiment))

    def is_known(self, experiment: Experiment | None) -> bool | None:
        """Return whether the store has the results of an experiment, or of the baseline; None where that is not known.

        Nothing is built.
        """
        try:
            return (self._baseline if experiment is None else self._compiled(experiment)).is_known
        except DisError:
            return None

    def server_settings(self) -> Mapping[str, Any] | None:
        """Return what the server of the manifest tells of its settings; None where it tells nothing, or there is none.

        Raises:
            DisError: It cannot be reached.
        """
        found = self._environment(self.loaded.document)
        if found is None or found.environment is None:
            return None
        return found.environment.identity.get("settings")

    def _compiled(self, experiment: Experiment) -> "_Compiled":
        if isinstance(experiment, Repetition):
            return self._realisable(
                self.loaded, self.lock, repeated(self._baseline.graph, experiment)
            )
        if isinstance(experiment, WarmCache):
            return self._warmed(experiment, self._uncached(experiment))
        return self._compile(*self._varied(experiment))

    def _uncached(self, experiment: WarmCache) -> "_Compiled":
        """Return the ordinary run that a warm cache is compared with."""
        return self._compiled(Variation(experiment.fields)) if experiment.fields else self._baseline

    def _warmed(self, experiment: WarmCache, uncached: "_Compiled") -> "_Compiled":
        """Return the experiment of a warm cache; what of its settings only the engine knows, the first run tells."""
        used = {**self._engine(self._baseline)["settings"]}
        engine_args = uncached.document["vllm"].get("engine_args") or {}
        used["block_size"] = engine_args.get("block_size") or used["block_size"]
        settings = cache_settings(used, self._requests)
        graph = warmed(uncached.graph, experiment, settings)
        return self._realisable(uncached.loaded, uncached.lock, graph)

    def _made_warm(self, experiment: WarmCache) -> Made:
        uncached = self._uncached(experiment)
        compiled = self._warmed(experiment, uncached)
        ordinary, made = self._made(uncached), self._made(compiled)
        first = compiled.realiser.realise(compiled.graph.target(FIRST_RUN)).outputs["bundle"]
        taken = [self._experiment_of(bundle)["cached_tokens"] for bundle in (first, made.bundle)]
        return replace(made, warm=WarmRuns(ordinary.bundle, first, *taken))

    def _engine(self, compiled: "_Compiled") -> Mapping[str, Any]:
        """Return what the engine of a run says of itself."""
        target = compiled.graph.target(_RUN)
        if not self.builds and compiled.realiser.missing(target):
            raise BuildError("the run is not known yet")
        bundle = compiled.realiser.realise(target).outputs["bundle"]
        return load_bundle(StoredBundle(self.store, bundle)).engine

    def _experiment_of(self, bundle: Digest) -> Mapping[str, Any]:
        found: Mapping[str, Any] = load_bundle(StoredBundle(self.store, bundle)).engine[EXPERIMENT]
        return found

    @cached_property
    def _baseline(self) -> "_Compiled":
        return self._compile(self.loaded, self.lock)

    @cached_property
    def _requests(self) -> Sequence[Request]:
        realiser = self._baseline.realiser
        target = self._baseline.graph.target("requests")
        if not self.builds and realiser.missing(target):
            raise BuildError("the requests are not known yet")
        digest = realiser.realise(target).outputs["out"]
        return parse_requests(self.store.read_bytes(digest, REQUESTS_DOCUMENT))

    def _varied(self, variation: Variation) -> tuple[LoadedManifest, Lock]:
        requests = self._requests if variation.reordered else ()
        changed, lock = varied(self.loaded, self.lock, variation, requests)
        preflight.check_manifest(changed.document)
        return changed, lock

    def _compile(self, loaded: LoadedManifest, lock: Lock) -> "_Compiled":
        found = self._environment(loaded.document)
        graph = compile_graph(loaded, lock, None, None if found is None else found.environment)
        return self._realisable(loaded, lock, graph)

    def _environment(self, document: Any) -> FoundEnvironment | None:
        """Return what an engine is made of; looked at once, since all its files are read for it."""
        backend = document["runtime"]["execution"]["backend"]
        if backend not in self._environments:
            interpreter = interpreter_of(document, self.request)
            found = find_engine_environment(document, self.lock, interpreter, self.request.place)
            if found is not None and (warning := found.warning()) is not None:
                self.reporter(Event("note", "unpinned", warning))
            self._environments[backend] = found
        return self._environments[backend]

    def _realisable(self, loaded: LoadedManifest, lock: Lock, graph: Graph) -> "_Compiled":
        document = loaded.document
        hints = generation_hints(document, self._environment(document))
        surroundings = Surroundings(
            sources=ManifestSources(loaded, lock.sources),
            hints={_GENERATION: hints, PROBE: hints},
            observed={_RUN: observed_documents(loaded)},
            variables=engine_variables(
                engine_kind(document["runtime"]["execution"]["backend"]), document
            ),
        )
        builders = builders_for(
            standard_builders(), self._confinement, contained=hints.get("in_image", False)
        )
        realiser = Realiser(
            self.store,
            graph,
            builders,
            surroundings,
            jobs=self.request.jobs,
            reporter=self.reporter,
        )
        return _Compiled(loaded, lock, graph, realiser)

    def _made(self, compiled: "_Compiled") -> Made:
        cached = compiled.is_known
        if not cached:
            weights = compiled.graph.derivations[compiled.graph.target("weights")]
            preflight.check_memory(loaded_size(self.store, weights), compiled.document)
        try:
            made = compiled.realiser.realise(compiled.graph.target(_RUN))
        except KeyboardInterrupt:
            raise InterruptedBuildError(
                "interrupted", hint="run the same command again: it goes on from what is finished"
            ) from None
        self.built += not cached
        return Made(made.outputs["bundle"], cached)
