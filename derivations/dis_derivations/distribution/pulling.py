"""Fetching a closure: what the store lacks of it, and of its builds those that somebody trusted vouches for."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace

from dis_derivations.distribution.arrival import receive
from dis_derivations.distribution.build_records import (
    BuildRecords,
    TravellingBuild,
    fitting,
    proves_itself,
)
from dis_derivations.distribution.object_documents import RemoteObject
from dis_derivations.distribution.remote_closure import (
    RemoteClosure,
    fetch_closure,
    fetch_object,
    fetch_records,
)
from dis_derivations.distribution.workers import Stop, work_on
from dis_derivations.graph.derivation import Derivation
from dis_derivations.images.image_layout import blob_path
from dis_derivations.registry.client import BLOBS_AT_ONCE, RegistryClient
from dis_derivations.registry.errors import RegistryMismatchError
from dis_derivations.registry.reference import RegistryReference
from dis_derivations.trust.claim import Claim
from dis_derivations.trust.policy import Decision
from dis_derivations.trust.signed_document import SignedDocument
from dis_store import Root, Store
from dis_store.digest import Digest, Sha256
from dis_store.errors import DisError, InvalidInputError
from dis_store.tree import Tree
from dis_store.work_progress import Progress

AcceptClaim = Callable[[Claim, Sequence[bytes]], Decision]
"""Decides whether a claim is believed, given the signed documents that came with it."""


def refuse_unsigned(claim: Claim, envelopes: Sequence[bytes]) -> Decision:
    """Believe nobody: the policy where no key is trusted."""
    del claim
    return Decision(
        accepted=False,
        vouched=False,
        signers=(),
        reasons=("no key is trusted" if envelopes else "nobody has signed it",),
    )


def accept_all(claim: Claim, envelopes: Sequence[bytes]) -> Decision:
    """Believe everybody: the policy where trust is turned off."""
    del claim, envelopes
    return Decision(
        accepted=True, vouched=False, signers=(), reasons=("signatures are not looked at",)
    )


@dataclass(frozen=True)
class PullPlan:
    """What a pull would fetch.

    Attributes:
        closure: What the registry has.
        root: The object that is wanted.
        objects: How many objects that is with all it refers to, as far as builds are not counted.
        missing: Those that the store lacks.
        trees: The trees of all objects that are wanted.
        records: What is known of builds; None where a single part is wanted.
    """

    closure: RemoteClosure
    root: Digest
    objects: int
    missing: Mapping[Digest, RemoteObject]
    trees: Mapping[Digest, Tree]
    records: BuildRecords | None

    @property
    def size(self) -> int:
        """The bytes of the blobs that would be fetched, if the store has none of their contents under other names."""
        blobs = {}
        for each in self.missing.values():
            found = list(each.contents.values())
            found += [part for parts in each.parts.values() for part in parts]
            if each.archive is not None:
                found.append(each.archive)
            blobs.update({blob.digest: blob.size for blob in found})
        return sum(blobs.values())


@dataclass(frozen=True)
class Pulled:
    """What a pull brought.

    Attributes:
        reference: Where from, with the digest of the index.
        root: The object.
        objects: How many objects there are with all that they refer to.
        new: Those that were not in the store before.
        size: The bytes that their blobs have.
        builds: How many builds are known now, because they prove themselves or because somebody vouches for them.
        refused: Those that are not believed, by the name of what they built, and why.
    """

    reference: RegistryReference
    root: Digest
    objects: int
    new: tuple[Digest, ...]
    size: int
    builds: int
    refused: tuple[tuple[str, str], ...]


def plan_pull(
    store: Store,
    client: RegistryClient,
    reference: RegistryReference,
    *,
    only: str | None = None,
    stop: Stop | None = None,
) -> PullPlan:
    """Return what a pull would fetch; documents are fetched, and nothing is changed.

    What is in the store already is protected from collection.

    Args:
        store: The store.
        client: Who asks.
        reference: The closure.
        only: The name of the one part that is wanted, with all that it refers to.
        stop: Set when the user asks to stop.

    Raises:
        InvalidInputError: There is no such part.
        IntegrityError: The closure is malformed, or not whole.
        RegistryRefusedError, TransferError: It cannot be had.
    """
    stop = stop or Stop()
    found = fetch_closure(client, reference)
    children = found.objects
    root = found.root
    if only is not None:
        root = found.named(only).object or root
    base = reference.base
    trees: dict[Digest, Tree] = {}
    missing: dict[Digest, RemoteObject] = {}

    def look(digest: Digest) -> tuple[Digest, Tree, RemoteObject | None]:
        stop.check()
        if store.protect(digest):
            return digest, store.tree(digest), None
        child = children.get(digest)
        if child is None:
            raise RegistryMismatchError(
                f"{reference} is not whole", cause=f"it lacks the object {digest}"
            )
        remote = fetch_object(client, base.with_digest(child.descriptor.digest), digest, stop.check)
        return digest, remote.tree, remote

    pending = {root} if only is not None else {root, *children}
    while pending:
        for digest, tree, remote in work_on(sorted(pending), look, stop, jobs=BLOBS_AT_ONCE):
            trees[digest] = tree
            if remote is not None:
                missing[digest] = remote
        named = {entry.object for tree in trees.values() for entry in tree.references}
        pending = named - trees.keys()
    _check_subpaths(reference, trees)
    _check_images(store, found, trees, missing)
    records = None if only is not None else fetch_records(client, found, stop.check)
    return PullPlan(found, root, len(trees), missing, trees, records)


def _check_subpaths(reference: RegistryReference, trees: Mapping[Digest, Tree]) -> None:
    for tree in trees.values():
        for entry in tree.references:
            if entry.subpath is not None and not trees[entry.object].shows(entry.subpath):
                raise RegistryMismatchError(
                    f"{reference} is not whole", cause=f"a reference of {tree.digest} leads nowhere"
                )


def _check_images(
    store: Store,
    found: RemoteClosure,
    trees: Mapping[Digest, Tree],
    missing: Mapping[Digest, RemoteObject],
) -> None:
    """Refuse a closure under whose tag other programs would run another image than the one that is in it."""
    for digest, image in found.images:
        if digest not in trees:
            continue
        path = blob_path(image.digest)
        own = next((each for each in trees[digest].files if each.path == path), None)
        sha256 = None
        if own is not None and digest in missing:
            content = missing[digest].contents.get(own.blake3)
            sha256 = None if content is None else content.digest
        elif own is not None:
            sha256 = store.sha256_of(own.blake3)
        if own is None or (sha256, own.size) != (image.digest, image.size):
            raise RegistryMismatchError(
                f"{found.reference} is refused",
                cause=f"the image that it offers is not the one in its object {digest}",
            )


def pull(
    store: Store,
    client: RegistryClient,
    plan: PullPlan,
    *,
    accept: AcceptClaim = refuse_unsigned,
    progress: Progress | None = None,
    stop: Stop | None = None,
) -> Pulled:
    """Bring what a plan lacks into the store, and the builds that are believed.

    Args:
        store: The store; what is brought is protected until it is closed.
        client: Who fetches.
        plan: What is wanted.
        accept: Decides whether a build is believed that does not prove itself.
        progress: Told of the bytes that came.
        stop: Set when the user asks to stop.

    Raises:
        IntegrityError: Something is not what its digest says; none of it is registered.
        RegistryRefusedError, TransferError: Something cannot be had.
    """
    reference = plan.closure.reference
    new = receive(store, client, reference, plan.missing, progress=progress, stop=stop)
    builds, refused = 0, list[tuple[str, str]]()
    if plan.records is not None:
        builds, refused = take_builds(store, plan.records, accept)
    return Pulled(
        replace(reference, digest=plan.closure.digest),
        plan.root,
        plan.objects,
        tuple(new),
        plan.size,
        builds,
        tuple(refused),
    )


def take_builds(
    store: Store, records: BuildRecords, accept: AcceptClaim
) -> tuple[int, list[tuple[str, str]]]:
    """Note the builds that are believed; return how many, and those that are not, with the reason.

    A build is noted only after those of its inputs, so that nothing rests on what is not believed.
    """
    count, refused = 0, list[tuple[str, str]]()
    believed: set[Digest] = set()
    for derivation, build in fitting(records):
        sources = {source.derivation for source in derivation.inputs.values()}
        if not sources <= believed:
            refused.append((derivation.name, "a build that it rests on is not believed"))
            continue
        reason = _disbelief(store, derivation, build, accept)
        if reason is not None:
            refused.append((derivation.name, reason))
            continue
        store.add_derivation(derivation.encode())
        try:
            note_build(store, derivation, build)
        except InvalidInputError as error:
            refused.append((derivation.name, str(error)))
            continue
        believed.add(derivation.digest)
        count += 1
    return count, refused


def _disbelief(
    store: Store, derivation: Derivation, build: TravellingBuild, accept: AcceptClaim
) -> str | None:
    record = build.realisation
    if not store.protect_all(record.outputs.values()):
        return "what it gave did not come with it"
    if proves_itself(store, derivation, record):
        return None
    return distrust(store, derivation, build, accept)


def distrust(
    store: Store, derivation: Derivation, build: TravellingBuild, accept: AcceptClaim
) -> str | None:
    """Return why a build whose outputs are in the store is not believed; None if it is."""
    try:
        claim = build.claim(derivation)
    except DisError as error:
        return error.cause or error.what
    for name, output in claim.outputs.items():
        if Sha256.of(store.tree(output.object).encode()) != output.sha256:
            return f"the SHA-256 that it tells of its output {name!r} is another one"
    decision = accept(claim, build.envelopes)
    return None if decision.accepted else decision.cause


def note_build(store: Store, derivation: Derivation, build: TravellingBuild) -> None:
    """Record a build that is believed, unless the store knows it, or knows these outputs of its key already.

    Of what came with it as signatures, what is no signed document at all is left behind.
    """
    record = build.realisation
    known = store.realisations(record.key)
    if not any(each.build == record.build or each.outputs == record.outputs for each in known):
        store.add_realisation(record)
    for envelope in build.envelopes:
        if _is_signed_document(envelope):
            store.add_signature(record.key, envelope)
    if (chosen := store.chosen(record.key)) is not None:
        store.remember_outputs({derivation.digest: chosen.outputs})


def _is_signed_document(data: bytes) -> bool:
    try:
        SignedDocument.decode(data).envelope.statement_payload()
    except DisError:
        return False
    return True


def root_of(plan: PullPlan, store: Store, label: str) -> Root:
    """Return the root that keeps what was pulled, with its builds as far as they are believed."""
    records = plan.records
    if records is None or records.root != plan.root:
        return Root(plan.root, label=label)
    key, derivation = records.key, records.derivation
    chosen = None if key is None else store.chosen(key)
    if chosen is None or plan.root not in chosen.outputs.values():
        return Root(plan.root, label=label)
    there = derivation is not None and not store.protect_derivations([derivation])
    return Root(plan.root, derivation if there else None, key, label=label)
