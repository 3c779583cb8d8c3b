"""What a substituter would bring, and how many bytes that is: documents are read, and no content of any file."""

from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from dis_derivations.distribution.build_records import TravellingBuild
from dis_derivations.distribution.hearing import Shelf
from dis_derivations.distribution.object_documents import RemoteObject
from dis_derivations.distribution.offers import Facts, Offer, Offers, fits
from dis_derivations.distribution.workers import Stop
from dis_derivations.graph.derivation import Derivation
from dis_derivations.graph.graph import Graph
from dis_derivations.graph.keys import build_key
from dis_derivations.realisation.dry_run import (
    PlannedSubstitution,
    PlannedSubstitutions,
    Proof,
    RefusedSubstitution,
)
from dis_derivations.registry.reference import RegistryReference
from dis_store import Store
from dis_store.digest import Digest, Sha256
from dis_store.errors import DisError, DiskFullError, InterruptedBuildError

if TYPE_CHECKING:
    from dis_derivations.distribution.substitution import Substituter

_STRANGERS = "no trusted key has signed it"


def plan_substitutions(
    substituter: "Substituter", store: Store, graph: Graph, target: Digest, facts: Facts
) -> PlannedSubstitutions:
    """Return what a substituter would bring for a target, and what is there for it and not believed.

    Args:
        substituter: Who is asked, and whom to believe.
        store: What it has does not come.
        graph: What there is to build.
        target: What is wanted.
        facts: Gives the facts of this machine that are in the key of a derivation.

    Raises:
        InterruptedBuildError: The user interrupted.
    """
    notes: list[str] = []
    refused: dict[Digest, RefusedSubstitution] = {}

    def refuse(digest: Digest, repository: RegistryReference, reason: str) -> None:
        name = graph.derivations[digest].name
        refused.setdefault(digest, RefusedSubstitution(name, digest, str(repository), reason))

    offers = Offers(substituter, store, graph, facts, notes.append, refuse, Stop())
    try:
        taken = _Plan(offers).made(target, refused)
    except KeyboardInterrupt:
        offers.stop.set()
        raise
    return PlannedSubstitutions(tuple(taken), tuple(refused.values()), tuple(notes))


@dataclass
class _Plan:
    """A plan that is being made.

    Attributes:
        offers: What repositories offer.
        coming: Objects that come with builds which are planned already.
        blobs: Those that are counted.
        shelves: What is in the repositories.
    """

    offers: Offers
    coming: dict[Digest, RemoteObject] = field(default_factory=dict)
    blobs: set[Sha256] = field(default_factory=set)
    shelves: dict[RegistryReference, Shelf] = field(default_factory=dict)

    def made(self, target: Digest, refused: Collection[Digest]) -> list[PlannedSubstitution]:
        order = self.offers.learn(target)
        planned = [self._planned(digest) for digest in order if digest in self.offers.found]
        for digest in self.offers.unknown:
            if digest not in refused:
                self._look_for_others(digest)
        return [each for each in planned if each is not None]

    def _planned(self, digest: Digest) -> PlannedSubstitution | None:
        offers, offer = self.offers, self.offers.found[digest]
        derivation = offers.graph.derivations[digest]
        if offers.rests_on_nothing(digest):
            offers.withdraw(digest)
            return None
        try:
            missing = offers.described(offer, self.coming)
            reason = _contradiction(derivation, offer.build, {**self.coming, **missing})
        except (InterruptedBuildError, DiskFullError):
            raise
        except DisError as error:
            reason = str(error)
        if reason is not None:
            offers.refuse(digest, offer.repository, reason)
            offers.withdraw(digest)
            return None
        self.coming.update(missing)
        return PlannedSubstitution(
            derivation.name,
            derivation.builder,
            digest,
            sum(self._arriving_bytes(each) for each in missing.values()),
            str(offer.repository),
            _proof(offer),
        )

    def _arriving_bytes(self, remote: RemoteObject) -> int:
        """Return the bytes of the blobs of an object that the store does not have under any name; each counts once."""
        store, total = self.offers.store, 0
        wanted = [] if remote.archive is None else [remote.archive]
        wanted += remote.contents.values()
        for blake3, parts in remote.parts.items():
            if not store.has_file(blake3):
                wanted += parts
        for blob in wanted:
            if blob.digest not in self.blobs and not store.has_content(blob.digest, blob.size):
                self.blobs.add(blob.digest)
                total += blob.size
        return total

    def _look_for_others(self, digest: Digest) -> None:
        """Note a build that is there, though in nobody's name who is believed: its user may want to know."""
        offers, derivation = self.offers, self.offers.graph.derivations[digest]
        key, inputs = offers.unknown[digest]
        free = build_key(derivation, inputs, {})
        for repository in offers.asked():

            def ask(repository: RegistryReference = repository) -> Iterator[TravellingBuild]:
                return self._shelf(repository).builds(offers.substituter.client, free)

            for build in offers.answer(repository, ask):
                if fits(derivation, build, inputs, key):
                    decision = offers.decision(derivation, build)
                    # What would be believed, and was not found before, is under keys that nobody looks for.
                    refused = decision is not None and not decision.accepted
                    reason = decision.cause if decision is not None and refused else _STRANGERS
                    offers.refuse(digest, repository, reason)
                    return

    def _shelf(self, repository: RegistryReference) -> Shelf:
        if repository not in self.shelves:
            substituter = self.offers.substituter
            self.shelves[repository] = Shelf.of(substituter.client, repository, substituter.signers)
        return self.shelves[repository]


def _proof(offer: Offer) -> Proof:
    if offer.decision is None:
        return "content"
    return "signature" if offer.decision.vouched else "none"


def _contradiction(
    derivation: Derivation, build: TravellingBuild, described: Mapping[Digest, RemoteObject]
) -> str | None:
    """Return why a build would be refused once its outputs are here, as far as their trees tell."""
    if derivation.fixed_files is not None:
        return None
    for name, output in build.claim(derivation).outputs.items():
        remote = described.get(output.object)
        if remote is not None and Sha256.of(remote.tree.encode()) != output.sha256:
            return f"the SHA-256 that it tells of its output {name!r} is another one"
    return None
