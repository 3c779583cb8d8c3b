"""Taking from repositories what would have to be built: a registry as a cache of builds.

What builds gave is learned first, from documents of a few kilobytes, and only then fetched. A repository that cannot
be asked, or has something that is not believed, costs a note: what it could have given is built here.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace

from dis_derivations.distribution import layout
from dis_derivations.distribution.arrival import receive
from dis_derivations.distribution.build_records import (
    TravellingBuild,
    is_build_of,
    may_be_of,
    proves_itself,
)
from dis_derivations.distribution.claim_tags import claims_of
from dis_derivations.distribution.object_documents import RemoteObject
from dis_derivations.distribution.pulling import AcceptClaim, distrust, note_build, refuse_unsigned
from dis_derivations.distribution.remote_closure import fetch_object
from dis_derivations.distribution.workers import Stop, work_on
from dis_derivations.graph.derivation import Derivation
from dis_derivations.graph.graph import Graph
from dis_derivations.graph.keys import build_key
from dis_derivations.realisation.events import Event, Measure, Reporter
from dis_derivations.realisation.gauge import measured
from dis_derivations.registry.client import BLOBS_AT_ONCE, RegistryClient
from dis_derivations.registry.reference import RegistryReference
from dis_store import Store
from dis_store.digest import Digest, Sha256
from dis_store.errors import DisError, DiskFullError, InterruptedBuildError

Facts = Callable[[Derivation], Mapping[str, object]]
_SUBJECT = "substitution"
_MOST_OBJECTS = 10_000


@dataclass(frozen=True)
class Substituter:
    """Repositories that are asked before something is built.

    Attributes:
        client: Who asks.
        repositories: In the order in which they are asked.
        signers: The keys whose claims are looked for.
        unsigned: Whether claims that nobody signed are looked for, too.
        accept: Decides whether a claim is believed.
    """

    client: RegistryClient
    repositories: tuple[RegistryReference, ...]
    signers: tuple[Sha256, ...] = ()
    unsigned: bool = False
    accept: AcceptClaim = refuse_unsigned

    def supply(
        self, store: Store, graph: Graph, target: Digest, facts: Facts, reporter: Reporter
    ) -> int:
        """Bring what repositories know of a target, and of what it is made of, into the store; return how many builds.

        Args:
            store: The store; it is asked before any repository.
            graph: What there is to build.
            target: What is wanted.
            facts: Gives the facts of this machine that are in the key of a derivation.
            reporter: Told of it.

        Raises:
            InterruptedBuildError: The user interrupted.
            DiskFullError: There is no room.
        """
        supply = _Supply(self, store, graph, facts, reporter, Stop())
        try:
            return supply.run(target)
        except KeyboardInterrupt:
            supply.stop.set()
            raise


@dataclass
class _Supply:
    """One use of a substituter."""

    substituter: Substituter
    store: Store
    graph: Graph
    facts: Facts
    reporter: Reporter
    stop: Stop
    outputs: dict[Digest, Mapping[str, Digest]] = field(default_factory=dict)
    offers: dict[Digest, tuple[RegistryReference, TravellingBuild]] = field(default_factory=dict)
    given_up: set[RegistryReference] = field(default_factory=set)

    def run(self, target: Digest) -> int:
        order = self.graph.closure_of(target)
        for digest in order:
            self._learn(digest)
        count = 0
        for digest in order:
            if digest in self.offers:
                count += self._take(digest)
        if count:
            self._note(f"{count} of {len(order)} builds came from a registry")
        return count

    def _learn(self, digest: Digest) -> None:
        """Find out what a derivation gives, from the store or from a repository; nothing is fetched."""
        derivation = self.graph.derivations[digest]
        inputs = {}
        for name, source in derivation.inputs.items():
            known = self.outputs.get(source.derivation, {})
            if source.output not in known:
                return
            inputs[name] = known[source.output]
        key = build_key(derivation, inputs, self.facts(derivation))
        if (chosen := self.store.chosen(key)) is not None:
            self.outputs[digest] = chosen.outputs
            return
        for repository in self.substituter.repositories:
            offer = self._offer(repository, derivation, inputs, key)
            if offer is not None:
                self.offers[digest] = (repository, offer)
                self.outputs[digest] = offer.realisation.outputs
                return

    def _offer(
        self,
        repository: RegistryReference,
        derivation: Derivation,
        inputs: Mapping[str, Digest],
        key: Digest,
    ) -> TravellingBuild | None:
        if repository in self.given_up:
            return None
        # What proves itself is never signed.
        unsigned = self.substituter.unsigned or derivation.fixed_files is not None
        signers: list[Sha256 | None] = [*self.substituter.signers, *([None] if unsigned else [])]
        try:
            free = build_key(derivation, inputs, {})
            claims = claims_of(self.substituter.client, repository, free, signers)
        except (InterruptedBuildError, DiskFullError):
            raise
        except DisError as error:
            self.given_up.add(repository)
            self._note(f"{repository} is not asked any more: {error}")
            return None
        for build in claims:
            record = build.realisation
            if record.key != key or not may_be_of(derivation, record):
                continue
            if not is_build_of(derivation, record) or not self._is_promising(derivation, build):
                continue
            if all(record.inputs[name].object == each for name, each in inputs.items()):
                return build
        return None

    def _is_promising(self, derivation: Derivation, build: TravellingBuild) -> bool:
        """Tell whether a build is going to be believed once its outputs are here, which may be gigabytes."""
        if derivation.fixed_files is not None:
            return True
        try:
            decision = self.substituter.accept(build.claim(derivation), build.envelopes)
        except DisError:
            return False
        if not decision.accepted:
            self._note(f"a build of {derivation.name} is not taken: {decision.cause}")
        return decision.accepted

    def _take(self, digest: Digest) -> int:
        repository, build = self.offers[digest]
        derivation = self.graph.derivations[digest]
        sources = [source.derivation for source in derivation.inputs.values()]
        if any(each in self.offers and each not in self.outputs for each in sources):
            del self.outputs[digest]
            return 0
        try:
            self._fetch(repository, derivation, build)
            reason = (
                None
                if proves_itself(self.store, derivation, build.realisation)
                else distrust(self.store, derivation, build, self.substituter.accept)
            )
        except (InterruptedBuildError, DiskFullError):
            raise
        except DisError as error:
            reason = str(error)
        if reason is not None:
            self._note(f"a build of {derivation.name} is not taken: {reason}")
            del self.outputs[digest]
            return 0
        self.store.add_derivation(derivation.encode())
        note_build(self.store, derivation, build)
        return 1

    def _fetch(
        self, repository: RegistryReference, derivation: Derivation, build: TravellingBuild
    ) -> None:
        """Bring the outputs of a build into the store, with all that they refer to."""
        missing: dict[Digest, RemoteObject] = {}
        pending = set(build.realisation.outputs.values())
        seen: set[Digest] = set()

        def look(digest: Digest) -> RemoteObject | None:
            if self.store.protect(digest):
                return None
            place = repository.with_tag(layout.object_tag(digest))
            return fetch_object(self.substituter.client, place, digest, self.stop.check)

        while pending and len(seen) < _MOST_OBJECTS:
            found = work_on(sorted(pending), look, self.stop, jobs=BLOBS_AT_ONCE)
            seen |= pending
            new = {each.digest: each for each in found if each is not None}
            missing.update(new)
            named = {entry.object for each in new.values() for entry in each.tree.references}
            pending = named - seen
        if missing:
            self._receive(repository, derivation, missing)

    def _receive(
        self,
        repository: RegistryReference,
        derivation: Derivation,
        missing: Mapping[Digest, RemoteObject],
    ) -> None:
        came = 0
        with measured(
            self.reporter,
            derivation.name,
            "fetching",
            Measure("bytes", 0),
            finished=f"came from {repository}",
        ) as gauge:

            def progress(amount: int, total: int) -> None:
                nonlocal came
                came += amount
                gauge.show(Measure("bytes", came, total))

            receive(
                self.store,
                self.substituter.client,
                repository,
                missing,
                progress=progress,
                stop=self.stop,
            )

    def _note(self, text: str) -> None:
        self.reporter(Event("note", _SUBJECT, text))


def repositories(references: Sequence[RegistryReference]) -> tuple[RegistryReference, ...]:
    """Return repositories without tags, each once."""
    return tuple(dict.fromkeys(replace(each, tag=None, digest=None) for each in references))
