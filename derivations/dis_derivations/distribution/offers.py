"""What repositories offer of the builds of a target: learned from documents of a few kilobytes, and nothing fetched."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from dis_derivations.distribution import layout
from dis_derivations.distribution.build_records import TravellingBuild, is_build_of, may_be_of
from dis_derivations.distribution.claim_tags import claims_of
from dis_derivations.distribution.object_documents import RemoteObject
from dis_derivations.distribution.remote_closure import fetch_object
from dis_derivations.distribution.workers import Stop, work_on
from dis_derivations.graph.derivation import Derivation
from dis_derivations.graph.graph import Graph
from dis_derivations.graph.keys import build_key
from dis_derivations.registry.client import BLOBS_AT_ONCE
from dis_derivations.registry.reference import RegistryReference
from dis_derivations.trust.policy import Decision
from dis_store import Store
from dis_store.digest import Digest, Sha256
from dis_store.errors import DisError, DiskFullError, InterruptedBuildError

if TYPE_CHECKING:
    from dis_derivations.distribution.substitution import Substituter

Facts = Callable[[Derivation], Mapping[str, object]]
_MOST_OBJECTS = 10_000


@dataclass(frozen=True)
class Offer:
    """A build that a repository could give.

    Attributes:
        repository: Which one.
        build: Its record, and who vouches for it.
        decision: Whether its claim is believed, as far as that can be told before its outputs are here; None where the
            files themselves are going to prove it.
    """

    repository: RegistryReference
    build: TravellingBuild
    decision: Decision | None


@dataclass
class Offers:
    """What is found out about the builds of one target.

    Attributes:
        substituter: Who is asked, and whom to believe.
        store: It is asked before any repository.
        graph: What there is to build.
        facts: Gives the facts of this machine that are in the key of a derivation.
        note: Told what its user should know.
        refuse: Told of a build that is there and not believed: its derivation, where it is, and why.
        stop: Set when the user asks to stop.
        outputs: What derivations give, according to the store or to an offer.
        found: The offers, by derivation.
        unknown: Keys of builds whose inputs are known and which nobody offers, with those inputs, by derivation.
    """

    substituter: "Substituter"
    store: Store
    graph: Graph
    facts: Facts
    note: Callable[[str], None]
    refuse: Callable[[Digest, RegistryReference, str], None]
    stop: Stop
    outputs: dict[Digest, Mapping[str, Digest]] = field(default_factory=dict)
    found: dict[Digest, Offer] = field(default_factory=dict)
    unknown: dict[Digest, tuple[Digest, Mapping[str, Digest]]] = field(default_factory=dict)
    _given_up: set[RegistryReference] = field(default_factory=set)

    def learn(self, target: Digest) -> Sequence[Digest]:
        """Find out about a target and all that it is made of; return their derivations, inputs first."""
        order = self.graph.closure_of(target)
        for digest in order:
            self._learn(digest)
        return order

    def withdraw(self, digest: Digest) -> None:
        """Note that an offer came to nothing."""
        del self.outputs[digest]

    def rests_on_nothing(self, digest: Digest) -> bool:
        """Tell whether an offer is of a build from something that was withdrawn."""
        inputs = self.graph.derivations[digest].inputs.values()
        sources = [source.derivation for source in inputs]
        return any(each in self.found and each not in self.outputs for each in sources)

    def asked(self) -> Iterator[RegistryReference]:
        """Yield the repositories that answer."""
        for repository in self.substituter.repositories:
            if repository not in self._given_up:
                yield repository

    def answer(
        self, repository: RegistryReference, ask: Callable[[], Iterator[TravellingBuild]]
    ) -> list[TravellingBuild]:
        """Return what a repository says; one that cannot be asked is not asked again, which costs a note."""
        try:
            return list(ask())
        except (InterruptedBuildError, DiskFullError):
            raise
        except DisError as error:
            self._given_up.add(repository)
            self.note(f"{repository} is not asked any more: {error}")
            return []

    def described(
        self, offer: Offer, known: Mapping[Digest, RemoteObject]
    ) -> Mapping[Digest, RemoteObject]:
        """Return the outputs of a build that the store lacks, with all that they refer to, as the repository tells.

        Args:
            offer: The build.
            known: Objects that need not be asked for.

        Raises:
            RegistryMismatchError: One is another object, or malformed.
            RegistryRefusedError, TransferError: One cannot be had.
        """
        missing: dict[Digest, RemoteObject] = {}
        pending = set(offer.build.realisation.outputs.values()) - known.keys()
        seen: set[Digest] = set(known)

        def look(digest: Digest) -> RemoteObject | None:
            if self.store.protect(digest):
                return None
            place = offer.repository.with_tag(layout.object_tag(digest))
            return fetch_object(self.substituter.client, place, digest, self.stop.check)

        while pending and len(seen) < _MOST_OBJECTS:
            found = work_on(sorted(pending), look, self.stop, jobs=BLOBS_AT_ONCE)
            seen |= pending
            new = {each.digest: each for each in found if each is not None}
            missing.update(new)
            named = {entry.object for each in new.values() for entry in each.tree.references}
            pending = named - seen
        return missing

    def _learn(self, digest: Digest) -> None:
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
        for repository in self.asked():
            offer = self._offer(repository, derivation, inputs, key)
            if offer is not None:
                self.found[digest] = offer
                self.outputs[digest] = offer.build.realisation.outputs
                return
        self.unknown[digest] = (key, inputs)

    def _offer(
        self,
        repository: RegistryReference,
        derivation: Derivation,
        inputs: Mapping[str, Digest],
        key: Digest,
    ) -> Offer | None:
        # What proves itself is never signed.
        unsigned = self.substituter.unsigned or derivation.fixed_files is not None
        signers: list[Sha256 | None] = [*self.substituter.signers, *([None] if unsigned else [])]

        def ask() -> Iterator[TravellingBuild]:
            free = build_key(derivation, inputs, {})
            yield from claims_of(self.substituter.client, repository, free, signers)

        for build in self.answer(repository, ask):
            if not fits(derivation, build, inputs, key):
                continue
            if derivation.fixed_files is not None:
                return Offer(repository, build, None)
            decision = self.decision(derivation, build)
            if decision is not None and decision.accepted:
                return Offer(repository, build, decision)
            if decision is not None:
                self.refuse(derivation.digest, repository, decision.cause)
        return None

    def decision(self, derivation: Derivation, build: TravellingBuild) -> Decision | None:
        """Tell whether a build is going to be believed once its outputs are here, which may be gigabytes.

        None stands for one whose record contradicts itself.
        """
        try:
            return self.substituter.accept(build.claim(derivation), build.envelopes)
        except DisError:
            return None


def fits(
    derivation: Derivation, build: TravellingBuild, inputs: Mapping[str, Digest], key: Digest
) -> bool:
    """Tell whether a build is, as its record says, one of a derivation from these inputs on a machine like this."""
    record = build.realisation
    return (
        record.key == key
        and may_be_of(derivation, record)
        and is_build_of(derivation, record)
        and all(record.inputs[name].object == each for name, each in inputs.items())
    )
