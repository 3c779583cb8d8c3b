"""Realise a derivation: recall what the store knows, build the rest in parallel, remember every build."""

import threading
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from typing import TYPE_CHECKING, Any

from dis_derivations.graph.derivation import Derivation
from dis_derivations.graph.graph import Graph
from dis_derivations.graph.keys import build_key
from dis_derivations.realisation import platform_facts
from dis_derivations.realisation.build_logs import keep_log_of_failure, register_log
from dis_derivations.realisation.build_record import build_record
from dis_derivations.realisation.building import BuildContext, Builder, BuildLog, RealisedInput
from dis_derivations.realisation.events import Event, EventKind, Measure, Reporter
from dis_derivations.realisation.key_lock import sole_builder
from dis_derivations.realisation.schedule import Schedule
from dis_derivations.realisation.silence import silent
from dis_store import Realisation, Store
from dis_store.digest import Digest
from dis_store.errors import DisError, UnfitEnvironmentError

if TYPE_CHECKING:
    from dis_derivations.sources.source import SourceSet
    from dis_store.lock_holder import LockHolder


@dataclass(frozen=True)
class Realised:
    """A derivation whose outputs are known.

    Attributes:
        cached: Nothing was built for it: the store knew the answer.
    """

    derivation: Digest
    realisation: Realisation
    cached: bool

    @property
    def key(self) -> Digest:
        """What the result is remembered by."""
        return self.realisation.key

    @property
    def outputs(self) -> Mapping[str, Digest]:
        """The trees, by output name."""
        return self.realisation.outputs

    def as_input(self, output: str) -> RealisedInput:
        """Return one output as the input of another build."""
        return RealisedInput(
            object=self.outputs[output],
            key=self.key,
            log=self.outputs.get("log"),
            platform=self.realisation.platform,
        )


@dataclass(frozen=True)
class Surroundings:
    """What a realisation needs beside the graph, none of which can change a compared byte.

    Attributes:
        sources: Where fixed outputs come from.
        hints: Settings for builders, by builder name.
        observed: Documents for the logs, by path in the log output, by builder name.
        variables: Those of the engine's process, with which the facts of the platform are measured. They are in the
            graph as well.
    """

    sources: "SourceSet"
    hints: Mapping[str, Mapping[str, Any]]
    observed: Mapping[str, Mapping[str, bytes]]
    variables: Mapping[str, str] = field(default_factory=dict)


class Realiser:
    """Realises derivations of one graph in one store.

    Several realisers, in this and in other processes, may share a store: one of them builds a key,
    the others wait for it and take its result. A worker never waits for a second key while it holds
    one.
    """

    def __init__(
        self,
        store: Store,
        graph: Graph,
        builders: Mapping[str, Builder],
        surroundings: Surroundings,
        *,
        jobs: int = 1,
        keep_going: bool = False,
        reporter: Reporter = silent,
    ) -> None:
        self._store = store
        self._graph = graph
        self._builders = builders
        self._surroundings = surroundings
        self._jobs = max(1, jobs)
        self._keep_going = keep_going
        self._reporter = reporter
        self._report_lock = threading.Lock()
        self._stop = threading.Event()
        self._facts: dict[str, Mapping[str, Any]] = {}
        self._results: dict[Digest, Realised] = {}
        # Whether some results are given, and may not be what the store would answer.
        self._assumes = False
        # What was found derivation by derivation, because the short way did not answer.
        self._looked_up: Mapping[Digest, Realisation] = {}
        self._built = False

    @property
    def has_built(self) -> bool:
        """Whether this realiser built anything, and did not find all of it in the store."""
        return self._built

    def missing(self, target: Digest) -> list[Digest]:
        """Return what must be built to realise `target`, inputs first, without building it.

        What is found in the store on the way is protected from collection and remembered for
        `realise`.
        """
        if target not in self._results and (answer := self._answer(target)) is not None:
            self._results[target] = Realised(target, answer, cached=True)
        if target in self._results:
            return []
        order = self._graph.closure_of(target)
        known = self._known(order)
        required = {target}
        missing: list[Digest] = []
        for digest in reversed(order):
            if digest not in required or digest in self._results:
                continue
            realisation = known.get(digest)
            if realisation is not None and self._present(realisation):
                self._results[digest] = Realised(digest, realisation, cached=True)
                continue
            missing.append(digest)
            required.update(
                source.derivation for source in self._derivation(digest).inputs.values()
            )
        self._looked_up = known
        return missing[::-1]

    def realise(self, target: Digest) -> Realised:
        """Return `target`, building what is missing.

        Raises:
            DisError: A build failed (the first failure; several in one error that lists them). Its log is
                kept until the next collection, and the error says where.
            InterruptedBuildError: The user interrupted; what was finished stays in the store.
        """
        missing = self.missing(target)
        unrecorded = self._store.protect_derivations(self._graph.closure_of(target))
        self._store.add_derivations([self._derivation(each).encode() for each in unrecorded])
        if missing:
            self._run(missing, self._build_and_keep)
        elif self._looked_up and not self._assumes:
            self._remember_inputs(target)
        return self._results[target]

    def rebuild(self, target: Digest) -> Realised:
        """Build `target` again although its result is known, from the inputs at hand, and record the build.

        Inputs that are not known any more are built, those that are known are not built again. The
        chosen result of the key stays what it was.

        Raises:
            DisError: The build failed.
            InterruptedBuildError: The user interrupted.
        """
        for source in self._derivation(target).inputs.values():
            self.realised(source.derivation)
        return self._run([target], lambda digest: self._build(digest, force=True))[target]

    def realised(self, digest: Digest) -> Realised:
        """Return a derivation that `realise` has passed through."""
        if digest not in self._results:
            self.realise(digest)
        return self._results[digest]

    def assuming(self, digest: Digest, result: Realised) -> "Realiser":
        """Return a realiser of the same graph for which `digest` has come out as `result`."""
        other = Realiser(
            self._store,
            self._graph,
            self._builders,
            self._surroundings,
            jobs=self._jobs,
            reporter=self._reporter,
        )
        other._results = {digest: result}
        other._assumes = True
        return other

    # What the store knows

    def _derivation(self, digest: Digest) -> Derivation:
        return self._graph.derivations[digest]

    def _name(self, digest: Digest) -> str:
        return self._derivation(digest).name

    def _answer(self, target: Digest) -> Realisation | None:
        """Return the realisation that answers for `target`, if the store remembers what its inputs evaluated to.

        This spares a look at everything below the inputs.
        """
        if self._assumes:
            return None
        derivation = self._derivation(target)
        inputs = derivation.inputs.values()
        outputs = self._store.outputs_of({source.derivation for source in inputs}) if inputs else {}
        if any(source.output not in outputs.get(source.derivation, {}) for source in inputs):
            return None
        objects = {
            name: outputs[source.derivation][source.output]
            for name, source in derivation.inputs.items()
        }
        return self._store.chosen(self._key(derivation, objects))

    def _known(self, order: Sequence[Digest]) -> dict[Digest, Realisation]:
        """Return the chosen realisation of each derivation whose inputs are known, its trees there or not."""
        known: dict[Digest, Realisation] = {}
        for digest in order:
            if digest in self._results:
                known[digest] = self._results[digest].realisation
                continue
            derivation = self._derivation(digest)
            if any(source.derivation not in known for source in derivation.inputs.values()):
                continue
            inputs = {
                name: known[source.derivation].outputs[source.output]
                for name, source in derivation.inputs.items()
            }
            builds = self._store.realisations(self._key(derivation, inputs))
            if builds:
                known[digest] = builds[0]
        return known

    def _remember_inputs(self, target: Digest) -> None:
        """Note what the inputs of `target` evaluated to, which a new index does not know, for `_answer`."""
        sources = {source.derivation for source in self._derivation(target).inputs.values()}
        found = {each: self._looked_up[each] for each in sources & self._looked_up.keys()}
        there = {each: known.outputs for each, known in found.items() if self._present(known)}
        self._store.remember_outputs(there)

    def _present(self, realisation: Realisation) -> bool:
        protected = [self._store.protect(output) for output in realisation.outputs.values()]
        return all(protected)

    def _key(self, derivation: Derivation, inputs: Mapping[str, Digest]) -> Digest:
        return build_key(derivation, inputs, self._platform_facts(derivation))

    def facts_of(self, derivation: Derivation) -> Mapping[str, Any]:
        """Return the facts of this machine that are in the key of a derivation."""
        return self._platform_facts(derivation)

    def _platform_facts(self, derivation: Derivation) -> Mapping[str, Any]:
        if derivation.platform not in self._facts:
            self._facts[derivation.platform] = platform_facts.measure(
                derivation.platform, self._surroundings.variables
            )
        return self._facts[derivation.platform]

    # Building

    def _run(
        self, missing: Sequence[Digest], build: Callable[[Digest], Realised]
    ) -> dict[Digest, Realised]:
        """Build `missing` in an order that respects inputs, `jobs` at a time."""
        self._stop = threading.Event()
        self._report_plan(missing)
        waiting = {
            digest: {
                source.derivation
                for source in self._derivation(digest).inputs.values()
                if source.derivation in missing
            }
            for digest in missing
        }
        return Schedule(
            waiting,
            build,
            jobs=self._jobs,
            keep_going=self._keep_going,
            stop=self._stop,
            on_skip=self._report_skipped,
            on_interrupt=self._report_interrupted,
        ).run(self._name)

    def _build_and_keep(self, digest: Digest) -> Realised:
        self._results[digest] = self._build(digest)
        return self._results[digest]

    def _build(self, digest: Digest, *, force: bool = False) -> Realised:
        """Take the known result of one derivation whose inputs are realised, or build it under its key's lock."""
        derivation = self._derivation(digest)
        inputs = {
            name: self._results[source.derivation].as_input(source.output)
            for name, source in derivation.inputs.items()
        }
        key = self._key(derivation, {name: source.object for name, source in inputs.items()})
        if not force and (known := self._store.chosen(key)) is not None:
            return self._take(digest, known)
        with sole_builder(
            self._store, key, self._stop, lambda holder: self._report_waiting(derivation, holder)
        ):
            if not force and (known := self._store.chosen(key)) is not None:
                return self._take(digest, known)
            self._built = True
            return Realised(
                digest,
                self._run_builder(derivation, key, inputs, is_rebuild=force),
                cached=False,
            )

    def _take(self, digest: Digest, known: Realisation) -> Realised:
        self._report("cached", self._name(digest))
        if not self._assumes:
            self._store.remember_outputs({digest: known.outputs})
        return Realised(digest, known, cached=True)

    def _run_builder(
        self,
        derivation: Derivation,
        key: Digest,
        inputs: Mapping[str, RealisedInput],
        *,
        is_rebuild: bool,
    ) -> Realisation:
        builder = self._builder(derivation)
        log = BuildLog(lambda line: self._report("progress", derivation.name, line))
        context = BuildContext(
            store=self._store,
            derivation=derivation,
            inputs=inputs,
            platform_facts=self._platform_facts(derivation),
            sources=self._surroundings.sources,
            hints=self._surroundings.hints.get(derivation.builder, {}),
            observed=self._surroundings.observed.get(derivation.builder, {}),
            log=log,
            log_files={},
            cancelled=self._stop.is_set,
            report=partial(self._report_measures, derivation.name),
            is_rebuild=is_rebuild,
        )
        self._report("start", derivation.name)
        try:
            context.check_interrupted()
            outputs = dict(builder.build(context))
            log.write("done")
            if "log" in derivation.outputs:
                outputs["log"] = register_log(context)
        except DisError as failure:
            self._report("failed", derivation.name, failure.what, seconds=log.seconds())
            keep_log_of_failure(context, failure)
            raise
        realisation = self._store.add_realisation(build_record(context, key, outputs))
        self._report("done", derivation.name, seconds=log.seconds())
        return realisation

    def _builder(self, derivation: Derivation) -> Builder:
        builder = self._builders.get(derivation.builder)
        if builder is None or builder.version != derivation.builder_version:
            raise UnfitEnvironmentError(
                f"{derivation.name} cannot be built by this version of dis",
                cause=f"it needs version {derivation.builder_version} of the builder {derivation.builder!r}",
                hint="update dis",
            )
        return builder

    # Reporting

    def _report_plan(self, missing: Sequence[Digest]) -> None:
        builds = Measure("builds", 0, len(missing))
        with self._report_lock:
            self._reporter(Event("plan", self._name(missing[-1]), measures=(builds,)))

    def _report_measures(self, subject: str, text: str, measures: tuple[Measure, ...]) -> None:
        with self._report_lock:
            self._reporter(Event("progress", subject, text, measures=measures))

    def _report_waiting(self, derivation: Derivation, holder: "LockHolder") -> None:
        text = f"process {holder.pid} on {holder.host} has been building it since {holder.since}"
        self._report("waiting", derivation.name, text)

    def _report_skipped(self, digest: Digest, failed: Digest) -> None:
        self._report("skipped", self._name(digest), f"needs {self._name(failed)}, which failed")

    def _report_interrupted(self) -> None:
        text = "stopping after the current step; what is finished is kept"
        self._report("note", "interrupted", text)

    def _report(
        self, kind: EventKind, subject: str, text: str = "", *, seconds: float | None = None
    ) -> None:
        with self._report_lock:
            self._reporter(Event(kind, subject, text, seconds))
