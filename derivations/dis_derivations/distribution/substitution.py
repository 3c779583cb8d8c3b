"""Taking from repositories what would have to be built: a registry as a cache of builds.

What builds gave is learned first, and only then fetched. A repository that cannot be asked, or has something that is
not believed, costs a note: what it could have given is built here.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from dis_derivations.distribution.arrival import receive
from dis_derivations.distribution.build_records import proves_itself
from dis_derivations.distribution.object_documents import RemoteObject
from dis_derivations.distribution.offers import Facts, Offers
from dis_derivations.distribution.pulling import AcceptClaim, distrust, note_build, refuse_unsigned
from dis_derivations.distribution.workers import Stop
from dis_derivations.graph.derivation import Derivation
from dis_derivations.graph.graph import Graph
from dis_derivations.realisation.events import Event, Measure, Reporter
from dis_derivations.realisation.gauge import measured
from dis_derivations.registry.client import RegistryClient
from dis_derivations.registry.reference import RegistryReference
from dis_store import Store
from dis_store.digest import Digest, Sha256
from dis_store.errors import DisError, DiskFullError, InterruptedBuildError

if TYPE_CHECKING:
    from dis_derivations.realisation.dry_run import PlannedSubstitutions

_SUBJECT = "substitution"


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

        def note(text: str) -> None:
            reporter(Event("note", _SUBJECT, text))

        def refuse(digest: Digest, _: RegistryReference, reason: str) -> None:
            note(f"a build of {graph.derivations[digest].name} is not taken: {reason}")

        offers = Offers(self, store, graph, facts, note, refuse, Stop())
        try:
            return _Supply(offers, reporter).run(target)
        except KeyboardInterrupt:
            offers.stop.set()
            raise

    def plan(
        self, store: Store, graph: Graph, target: Digest, facts: Facts
    ) -> "PlannedSubstitutions":
        """Return what `supply` would bring. No content of a file is fetched, and nothing is changed.

        Args:
            store: As for `supply`.
            graph: As for `supply`.
            target: As for `supply`.
            facts: As for `supply`.
        """
        from dis_derivations.distribution.substitution_plan import plan_substitutions

        return plan_substitutions(self, store, graph, target, facts)


@dataclass(frozen=True)
class _Supply:
    """One use of a substituter."""

    offers: Offers
    reporter: Reporter

    def run(self, target: Digest) -> int:
        order = self.offers.learn(target)
        count = sum(self._take(digest) for digest in order if digest in self.offers.found)
        if count:
            self.offers.note(f"{count} of {len(order)} builds came from a registry")
        return count

    def _take(self, digest: Digest) -> int:
        offers, offer = self.offers, self.offers.found[digest]
        derivation, store = offers.graph.derivations[digest], offers.store
        if offers.rests_on_nothing(digest):
            offers.withdraw(digest)
            return 0
        try:
            missing = offers.described(offer, {})
            if missing:
                self._receive(offer.repository, derivation, missing)
            reason = (
                None
                if proves_itself(store, derivation, offer.build.realisation)
                else distrust(store, derivation, offer.build, offers.substituter.accept)
            )
        except (InterruptedBuildError, DiskFullError):
            raise
        except DisError as error:
            reason = str(error)
        if reason is not None:
            offers.refuse(digest, offer.repository, reason)
            offers.withdraw(digest)
            return 0
        store.add_derivation(derivation.encode())
        note_build(store, derivation, offer.build)
        return 1

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
                self.offers.store,
                self.offers.substituter.client,
                repository,
                missing,
                progress=progress,
                stop=self.offers.stop,
            )


def repositories(references: Sequence[RegistryReference]) -> tuple[RegistryReference, ...]:
    """Return repositories without tags, each once."""
    return tuple(dict.fromkeys(replace(each, tag=None, digest=None) for each in references))
