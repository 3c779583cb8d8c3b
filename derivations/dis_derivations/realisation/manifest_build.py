"""One manifest on its way from files to outputs: checked, locked, compiled, built."""

from collections.abc import Collection, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

from dis_derivations.builders import standard_builders
from dis_derivations.confinement.policy import (
    builders_for,
    confinement_for,
    forbids_network,
)
from dis_derivations.engines.registry import TRANSFORMERS, engine_kind
from dis_derivations.graph.compilation import batching, compile_graph
from dis_derivations.graph.derivation import Derivation
from dis_derivations.graph.engine_process import engine_variables
from dis_derivations.graph.graph import Graph
from dis_derivations.lock.ingestion import GroupPlan
from dis_derivations.lock.location import LockLocation
from dis_derivations.lock.making import plan_new_lock
from dis_derivations.manifest.loading import LoadedManifest, validate
from dis_derivations.manifest.reading import RawManifest
from dis_derivations.realisation import preflight
from dis_derivations.realisation.dry_run import (
    DryRun,
    PlannedBuild,
    PlannedDownload,
    PlannedSubstitutions,
)
from dis_derivations.realisation.engine_environment import (
    FoundEnvironment,
    find_engine_environment,
)
from dis_derivations.realisation.events import Event, Reporter
from dis_derivations.realisation.hardware_check import check_hardware
from dis_derivations.realisation.locking import UsedLock, ensure_lock, lock_state
from dis_derivations.realisation.realiser import Realised, Realiser, Surroundings
from dis_derivations.realisation.rebuild import Rebuild
from dis_derivations.realisation.silence import silent
from dis_derivations.realisation.target import RealisedTarget, TargetRequest
from dis_derivations.realisation.weights_size import loaded_size
from dis_derivations.sources.manifest_sources import ManifestSources
from dis_store import Store
from dis_store.digest import Digest, Sha256

if TYPE_CHECKING:
    from dis_derivations.confinement.confined_process import ConfinedProcess

# A run is cheap to assemble; what a user wants to see built again is the generation inside it.
_REBUILT_FOR = {"run": "generation"}
_LONGEST_BASE_NAME = 100


def _is_generation(derivation: Derivation) -> bool:
    return derivation.builder == "generation"


@dataclass(frozen=True)
class ManifestBuild:
    """A locked and compiled manifest, ready to be realised in one store; `close` it.

    Attributes:
        confinement: Where builds are made that may not use the network; None where they may.
        in_image: Whether the engine runs in a container.
        interpreter: The Python of an engine that runs in a process of its own outside of one.
    """

    store: Store
    loaded: LoadedManifest
    used_lock: UsedLock
    graph: Graph
    request: TargetRequest
    realiser: Realiser = field(repr=False)
    confinement: "ConfinedProcess | None" = field(default=None, repr=False)
    in_image: bool = False
    interpreter: Path | None = None

    @classmethod
    def prepare(
        cls,
        store: Store,
        raw: RawManifest,
        location: LockLocation,
        request: TargetRequest,
        reporter: Reporter,
    ) -> "ManifestBuild":
        """Check the manifest, lock it where needed, and compile it.

        Raises:
            InvalidInputError, UnfitEnvironmentError: Before a byte is fetched.
            LockRefusedError: Something cannot be pinned.
        """
        loaded = _checked(raw, request)
        with ExitStack() as stack:
            confinement = confinement_for(loaded.document, request.target)
            if confinement is not None:
                stack.callback(confinement.close)
            used_lock = ensure_lock(store, loaded, location, request, reporter)
            build = cls.compiled(store, loaded, used_lock, request, reporter, confinement)
            if request.substituter is not None:
                target, facts = build.graph.target(request.target), build.realiser.facts_of
                request.substituter().supply(store, build.graph, target, facts, reporter)
            stack.pop_all()
            return build

    def close(self) -> None:
        """End what was started for the builds."""
        if self.confinement is not None:
            self.confinement.close()

    @classmethod
    def compiled(
        cls,
        store: Store,
        loaded: LoadedManifest,
        used_lock: UsedLock,
        request: TargetRequest,
        reporter: Reporter,
        confinement: "ConfinedProcess | None" = None,
    ) -> "ManifestBuild":
        """Compile a manifest with a lock that is known to fit."""
        found = find_engine_environment(
            loaded.document,
            used_lock.lock,
            interpreter_of(loaded.document, request),
            request.place,
        )
        if found is not None and (warning := found.warning()) is not None:
            reporter(Event("note", "unpinned", warning))
        graph = compile_graph(
            loaded,
            used_lock.lock,
            used_lock.present,
            None if found is None else found.environment,
        )
        sources = ManifestSources(
            loaded,
            used_lock.lock.sources,
            note=lambda kind, text: reporter(Event("note", kind, text)),
        )
        surroundings = Surroundings(
            sources=sources,
            hints={"generation": generation_hints(loaded.document, found)},
            observed={"run": observed_documents(loaded)},
            variables=engine_variables(
                engine_kind(loaded.document["runtime"]["execution"]["backend"]), loaded.document
            ),
        )
        in_image = found is not None and found.in_image
        realiser = Realiser(
            store,
            graph,
            builders_for(standard_builders(), confinement, contained=in_image),
            surroundings,
            jobs=request.jobs,
            keep_going=request.keep_going,
            reporter=reporter,
        )
        interpreter = None if found is None else found.interpreter
        return cls(
            store, loaded, used_lock, graph, request, realiser, confinement, in_image, interpreter
        )

    def realise(self) -> RealisedTarget:
        """Build what is missing of the target.

        Raises:
            UnfitEnvironmentError: This machine cannot; nothing was built.
            DisError: A build failed or was interrupted.
        """
        self._check_coming_model(self._missing())
        return self._as_target(self.realiser)

    def finished(self) -> RealisedTarget | None:
        """Return the target if all that is expensive about it is done, as after an interruption; else None.

        A run whose results are there is assembled: only as a run can they be rooted.
        """
        missing = self.realiser.missing(self._target)
        if any(self.graph.derivations[digest].builder != "run" for digest in missing):
            return None
        return self._as_target(self.realiser)

    def rebuild(self) -> Rebuild:
        """Build the target again, a run's generation in its place, and compare.

        Raises:
            DisError: The build failed or was interrupted.
        """
        subject = self._subject
        digest = self.graph.target(self._subject_name)
        chosen = self.realiser.realised(digest)
        again = self.realiser.rebuild(digest)
        differing = tuple(
            name for name in subject.compared if again.outputs[name] != chosen.outputs[name]
        )
        diverging = (
            self._as_target(self.realiser.assuming(digest, again))
            if differing and self.request.target == "run"
            else None
        )
        return Rebuild(subject.name, again.key, dict(again.outputs), differing, diverging)

    def planned(self) -> DryRun:
        """Return what would be built, the builds that are asked for again last.

        Raises:
            UnfitEnvironmentError: As `realise`.
        """
        coming = self._substitutions()
        given = frozenset(each.derivation for each in coming.taken)
        builds = [self._planned(digest) for digest in self._missing(given)]
        again = self._planned(self.graph.target(self._subject_name))
        return DryRun(
            self.request.target,
            locks=False,
            builds=(*builds, *[again] * self.request.rebuilds),
            substitutions=coming,
        )

    def _substitutions(self) -> PlannedSubstitutions:
        """Return what registries would give; where nothing is missing they are not asked."""
        if self.request.substituter is None or not self.realiser.missing(self._target):
            return PlannedSubstitutions()
        return self.request.substituter().plan(
            self.store, self.graph, self._target, self.realiser.facts_of
        )

    @property
    def _target(self) -> Digest:
        return self.graph.target(self.request.target)

    @property
    def _subject_name(self) -> str:
        return _REBUILT_FOR.get(self.request.target, self.request.target)

    @property
    def _subject(self) -> Derivation:
        return self.graph.derivations[self.graph.target(self._subject_name)]

    def _missing(self, given: Collection[Digest] = ()) -> list[Digest]:
        """Return what must be built, but for what comes from elsewhere, after checking that this machine can."""
        missing = [each for each in self.realiser.missing(self._target) if each not in given]
        builds = [self.graph.derivations[digest] for digest in missing]
        builds += [self._subject] * self.request.rebuilds
        preflight.check_room(
            self.store,
            sum(map(self._arriving_bytes, builds)),
            files=sum(len(self._arriving(build)) for build in builds),
            builds=len(builds),
        )
        if any(map(_is_generation, builds)):
            if self.in_image:
                preflight.check_docker()
            preflight.check_memory(
                loaded_size(self.store, self._derivation("weights")), self.loaded.document
            )
        config = self._config
        if config in missing:
            preflight.check_model(self.loaded)
        elif config is not None and config not in given and any(map(_is_generation, builds)):
            self._check_known_model(config)
        return missing

    @property
    def _config(self) -> Digest | None:
        """The derivation of the configuration where it is files; what a GGUF file is, its header tells."""
        config = self.graph.targets.get("config")
        return config if config is not None and self.graph.derivations[config].fixed_files else None

    def _check_coming_model(self, missing: Collection[Digest]) -> None:
        """Fetch the configuration before all else: it may save the fetching of weights that nothing here can load."""
        config = self._config
        if config is None or config not in missing or preflight.check_model(self.loaded):
            return
        if any(_is_generation(self.graph.derivations[digest]) for digest in missing):
            self._check_stored_model(config)

    def _check_known_model(self, config: Digest) -> None:
        if not self.realiser.missing(config):
            self._check_stored_model(config)

    def _check_stored_model(self, config: Digest) -> None:
        stored = self.realiser.realised(config).outputs["out"]
        preflight.check_stored_model(self.store, stored, self.loaded.document)

    def _derivation(self, name: str) -> Derivation:
        return self.graph.derivations[self.graph.target(name)]

    def _planned(self, digest: Digest) -> PlannedBuild:
        derivation = self.graph.derivations[digest]
        arriving = self._arriving_bytes(derivation)
        origin = ManifestSources(self.loaded).origin(derivation.args["kind"]) if arriving else ""
        return PlannedBuild(derivation.name, derivation.builder, digest, arriving, origin)

    def _arriving_bytes(self, derivation: Derivation) -> int:
        return sum(file["size"] for file in self._arriving(derivation))

    def _arriving(self, derivation: Derivation) -> list[Mapping[str, Any]]:
        """Return the files that the store does not have yet under any name."""
        return [
            file
            for file in derivation.fixed_files or ()
            if not self.store.has_content(Sha256(file["sha256"]), file["size"])
        ]

    def _as_target(self, realiser: Realiser) -> RealisedTarget:
        realised: Realised = realiser.realise(self._target)
        return RealisedTarget(
            target=self.request.target,
            name=str(self.loaded.document["metadata"]["name"]),
            derivation=self._target,
            key=realised.key,
            outputs=dict(realised.outputs),
            cached=not realiser.has_built,
            unverified=self.used_lock.unverified,
        )


def plan_build(
    store: Store, raw: RawManifest, location: LockLocation, request: TargetRequest
) -> DryRun:
    """Return what realising the request would do, without locking or building.

    Raises:
        InvalidInputError, UnfitEnvironmentError: As the realisation would, before any work.
    """
    preflight.check_plannable(request)
    loaded = _checked(raw, request)
    if (confinement := confinement_for(loaded.document, request.target)) is not None:
        confinement.close()  # it was to be seen whether there can be one
    state = lock_state(loaded, location, request)
    if state.lock is None:
        preflight.check_model(loaded, ask_hub=True)
        reads = plan_new_lock(store, loaded, location).reads
        return DryRun(request.target, locks=True, builds=(), downloads=_downloads(reads))
    used_lock = UsedLock(state.lock, state.data)
    return ManifestBuild.compiled(store, loaded, used_lock, request, silent).planned()


def _downloads(reads: Sequence[GroupPlan]) -> tuple[PlannedDownload, ...]:
    return tuple(
        PlannedDownload(
            read.group.name, file.path, read.source.size(file.path), read.source.describe()
        )
        for read in reads
        if read.group.source.location is None and read.group.source.type != "store"
        for file in read.files
    )


def _checked(raw: RawManifest, request: TargetRequest) -> LoadedManifest:
    loaded = validate(raw)
    preflight.check_target(request)
    preflight.check_manifest(loaded.document)
    if preflight.generates(request.target):
        check_hardware(loaded.document)
    return loaded


def generation_hints(document: Mapping[str, Any], found: FoundEnvironment | None) -> dict[str, Any]:
    """Return what the builder of a generation is told that is no part of its key, as plain JSON."""
    hints: dict[str, Any] = {"batching": batching(document)}
    if found is not None:
        execution = document["runtime"]["execution"]
        hints["patience"] = execution.get("timeout_seconds")
        if found.in_image:
            hints["in_image"] = True
            hints["forbids_network"] = forbids_network(document)
        elif found.interpreter is None:
            hints["base_url"] = execution["base_url"]
        else:
            hints["engine_python"] = str(found.interpreter)
    return hints


def interpreter_of(document: Mapping[str, Any], request: TargetRequest) -> Path | None:
    """Return the interpreter that was named for the engine of a manifest; None where none was."""
    if document["runtime"]["execution"]["backend"] == TRANSFORMERS.name:
        return request.transformers_python
    return request.engine_python


def _fetched_bytes(derivation: Derivation) -> int:
    return sum(file["size"] for file in derivation.fixed_files or ())


def observed_documents(loaded: LoadedManifest) -> Mapping[str, bytes]:
    """Return the manifest's files as they are on disk, for the log of the run: evidence, never part of a digest."""
    first, *bases = loaded.files
    documents = {"manifest.original.json": first.data}
    for number, base in enumerate(bases, 1):
        documents[f"bases/{number:02d}-{_portable_name(base.path)}"] = base.data
    return documents


def _portable_name(path: Path) -> str:
    """Return the end of a file's name in letters that every object may have."""
    name = "".join(
        character if (character.isascii() and character.isalnum()) or character in "._-" else "-"
        for character in path.name
    )
    return name[-_LONGEST_BASE_NAME:].rstrip(".")
