"""One manifest on its way from files to outputs: checked, locked, compiled, built."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path

from dis_derivations.builders import standard_builders
from dis_derivations.graph.compilation import batching, compile_graph
from dis_derivations.graph.graph import Graph
from dis_derivations.lock.document import Lock
from dis_derivations.lock.location import LockLocation
from dis_derivations.lock.resolution import resolve_lock
from dis_derivations.lock.staleness import stale_artifacts
from dis_derivations.manifest.loading import LoadedManifest, validate
from dis_derivations.manifest.reading import RawManifest
from dis_derivations.realisation import preflight
from dis_derivations.realisation.events import Event, Reporter, silent
from dis_derivations.realisation.realiser import Realised, Realiser, Surroundings
from dis_derivations.realisation.target import (
    DryRun,
    PlannedBuild,
    RealisedTarget,
    Rebuild,
    TargetRequest,
)
from dis_derivations.sources.manifest_sources import ManifestSources
from dis_store import Store
from dis_store.digest import Digest
from dis_store.errors import InvalidInputError

# A run is cheap to assemble; what a user wants to see built again is the generation inside it.
_REBUILT_FOR = {"run": "generation"}


@dataclass(frozen=True)
class ManifestBuild:
    """A locked and compiled manifest, ready to be realised in one store."""

    store: Store
    loaded: LoadedManifest
    lock: Lock
    graph: Graph
    request: TargetRequest
    realiser: Realiser
    reporter: Reporter = field(repr=False)

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
        loaded = validate(raw)
        preflight.check_manifest(loaded.document)
        preflight.check_model(loaded)
        lock = ensure_lock(store, loaded, location, locked=request.locked, reporter=reporter)
        return cls.compiled(store, loaded, lock, request, reporter)

    @classmethod
    def compiled(
        cls,
        store: Store,
        loaded: LoadedManifest,
        lock: Lock,
        request: TargetRequest,
        reporter: Reporter,
    ) -> "ManifestBuild":
        """Compile a manifest with a lock that is known to fit."""
        graph = compile_graph(loaded, lock)
        surroundings = Surroundings(
            sources=ManifestSources(loaded),
            hints={"generation": {"batching": batching(loaded.document)}},
            observed={"run": observed_documents(loaded)},
        )
        realiser = Realiser(
            store,
            graph,
            standard_builders(),
            surroundings,
            jobs=request.jobs,
            keep_going=request.keep_going,
            reporter=reporter,
        )
        return cls(store, loaded, lock, graph, request, realiser, reporter)

    def realise(self) -> RealisedTarget:
        """Build what is missing of the target, and build it again as often as the request asks."""
        target = self.graph.target(self.request.target)
        self._check_machine(self.realiser.missing(target))
        realised = self.realiser.realise(target)
        rebuilds = tuple(self._rebuild() for _ in range(self.request.rebuilds))
        return RealisedTarget(
            target=self.request.target,
            name=str(self.loaded.document["metadata"]["name"]),
            derivation=target,
            key=realised.key,
            outputs=dict(realised.outputs),
            cached=realised.cached,
            rebuilds=rebuilds,
        )

    def planned(self) -> DryRun:
        """Return what `realise` would build."""
        target = self.graph.target(self.request.target)
        builds = []
        for digest in self.realiser.missing(target):
            derivation = self.graph.derivations[digest]
            fetched = sum(file["size"] for file in derivation.fixed_files or ())
            builds.append(PlannedBuild(derivation.name, derivation.builder, digest, fetched))
        return DryRun(self.request.target, locks=False, builds=tuple(builds))

    def _check_machine(self, missing: list[Digest]) -> None:
        builders = {self.graph.derivations[digest].builder for digest in missing}
        generating = "generation" in builders or bool(self.request.rebuilds)
        preflight.check_machine(
            self.store, self.lock, fetching="files" in builders, generating=generating
        )

    def _rebuild(self) -> Rebuild:
        subject = self.graph.target(_REBUILT_FOR.get(self.request.target, self.request.target))
        derivation = self.graph.derivations[subject]
        chosen = self.realiser.realised(subject)
        again = self.realiser.rebuild(subject)
        differing = tuple(
            name for name in derivation.compared if again.outputs[name] != chosen.outputs[name]
        )
        bundle = (
            self._bundle_of(subject, again) if differing and self.request.target == "run" else None
        )
        return Rebuild(derivation.name, dict(again.outputs), differing, bundle)

    def _bundle_of(self, generation: Digest, diverging: Realised) -> Digest:
        """Assemble the bundle of results that are not the chosen ones, so that they can be compared."""
        return (
            self.realiser.assuming(generation, diverging)
            .realise(self.graph.target("run"))
            .outputs["bundle"]
        )


def plan_build(
    store: Store, raw: RawManifest, location: LockLocation, request: TargetRequest
) -> DryRun:
    """Return what realising the request would do, without locking or building.

    Raises:
        InvalidInputError, UnfitEnvironmentError: As the realisation would, before any work.
    """
    loaded = validate(raw)
    preflight.check_manifest(loaded.document)
    data = location.read()
    known = (
        None if data is None else Lock.decode(data, name=str(location.path or "the embedded lock"))
    )
    if known is None or stale_artifacts(loaded, known):
        return DryRun(request.target, locks=True, builds=())
    return ManifestBuild.compiled(store, loaded, known, request, silent).planned()


def ensure_lock(
    store: Store,
    loaded: LoadedManifest,
    location: LockLocation,
    *,
    locked: bool,
    reporter: Reporter,
) -> Lock:
    """Return the lock of a manifest, making or renewing it first unless `locked` forbids that.

    Raises:
        InvalidInputError: The lock is missing or stale, and `locked` is set.
        LockRefusedError: Something cannot be pinned.
    """
    data = location.read()
    known = (
        None if data is None else Lock.decode(data, name=str(location.path or "the embedded lock"))
    )
    stale = () if known is None else stale_artifacts(loaded, known)
    if known is not None and not stale:
        return known
    reason = (
        "there is no lock yet" if known is None else f"the lock is stale for {', '.join(stale)}"
    )
    if locked:
        raise InvalidInputError(
            f"{loaded.path} cannot be realised with --locked: {reason}",
            hint=f"dis lock {loaded.path}",
        )
    lock = resolve_lock(loaded, store, previous=known)
    path = location.write(lock.encode())
    reporter(
        Event("note", str(loaded.path), f"{reason}: locked {len(lock.artifacts)} files in {path}")
    )
    return lock


def observed_documents(loaded: LoadedManifest) -> Mapping[str, bytes]:
    """Return the manifest's files as they are on disk, for the log of the run: evidence, never part of a digest."""
    first, *bases = loaded.files
    documents = {"manifest.original.json": first.data}
    for number, base in enumerate(bases, 1):
        documents[f"bases/{number:02d}-{_portable_name(base.path)}"] = base.data
    return documents


def _portable_name(path: Path) -> str:
    return "".join(
        character if (character.isascii() and character.isalnum()) or character in "._-" else "-"
        for character in path.name
    )
