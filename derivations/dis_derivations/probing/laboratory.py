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
from dis_derivations.graph.derivation import OutputReference
from dis_derivations.graph.engine_process import engine_variables
from dis_derivations.graph.graph import Graph, graph_of
from dis_derivations.lock.document import Lock
from dis_derivations.manifest.loading import LoadedManifest
from dis_derivations.probing.builder import ProbeBuilder
from dis_derivations.probing.experiment import Experiment, Repetition, Variation
from dis_derivations.probing.manifests import varied
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
from dis_derivations.sources.manifest_sources import ManifestSources
from dis_derivations.tokenization.requests_document import parse_requests
from dis_store.digest import Digest
from dis_store.errors import BuildError, DisError, InterruptedBuildError

if TYPE_CHECKING:
    from dis_derivations.confinement.confined_process import ConfinedProcess
    from dis_store import Store

_PROBE, _RUN, _GENERATION = "probe", "run", "generation"


@dataclass(frozen=True)
class Made:
    """A run of a probe.

    Attributes:
        bundle: Its bundle.
        cached: Whether nothing was generated for it.
    """

    bundle: Digest
    cached: bool


@dataclass(frozen=True)
class _Compiled:
    """A manifest on its way to a run."""

    document: Mapping[str, Any]
    graph: Graph
    realiser: Realiser

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
        return self._made(self._compiled(experiment))

    def is_known(self, experiment: Experiment | None) -> bool | None:
        """Return whether the store has the results of an experiment, or of the baseline; None where that is not known.

        Nothing is built.
        """
        try:
            return (self._baseline if experiment is None else self._compiled(experiment)).is_known
        except DisError:
            return None

    def _compiled(self, experiment: Experiment) -> "_Compiled":
        if isinstance(experiment, Repetition):
            return self._realisable(
                self.loaded, self.lock, repeated(self._baseline.graph, experiment)
            )
        return self._compile(*self._varied(experiment))

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
            found = find_engine_environment(document, self.lock, interpreter)
            if found is not None and (warning := found.warning()) is not None:
                self.reporter(Event("note", "unpinned", warning))
            self._environments[backend] = found
        return self._environments[backend]

    def _realisable(self, loaded: LoadedManifest, lock: Lock, graph: Graph) -> "_Compiled":
        document = loaded.document
        hints = generation_hints(document, self._environment(document))
        surroundings = Surroundings(
            sources=ManifestSources(loaded, lock.sources),
            hints={_GENERATION: hints, _PROBE: hints},
            observed={_RUN: observed_documents(loaded)},
            variables=engine_variables(
                engine_kind(document["runtime"]["execution"]["backend"]), document
            ),
        )
        builders = builders_for(standard_builders(), self._confinement)
        realiser = Realiser(
            self.store,
            graph,
            builders,
            surroundings,
            jobs=self.request.jobs,
            reporter=self.reporter,
        )
        return _Compiled(document, graph, realiser)

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


def repeated(graph: Graph, repetition: Repetition) -> Graph:
    """Return the graph of a run whose results come from a repetition of its generation."""
    generation = graph.derivations[graph.target(_GENERATION)]
    probe = replace(
        generation,
        name=f"{generation.name}-again",
        builder=_PROBE,
        builder_version=ProbeBuilder.version,
        args={
            "generation": dict(generation.args),
            "generation_version": generation.builder_version,
            "experiment": repetition.to_json(),
        },
    )
    run = graph.derivations[graph.target(_RUN)]
    run = replace(run, inputs={**run.inputs, "results": OutputReference(probe.digest, "results")})
    others = [each for digest, each in graph if digest != graph.target(_RUN)]
    targets = {**graph.targets, _GENERATION: probe.digest, _RUN: run.digest}
    return graph_of([*others, probe, run], targets)
