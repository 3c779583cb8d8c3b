"""What a push sends: the objects that a root keeps, each with a name, together with the records of their builds."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from dis_derivations.distribution import layout
from dis_derivations.distribution.build_records import (
    BuildRecords,
    TravellingBuild,
    may_be_of,
    travelling_build,
)
from dis_derivations.graph.derivation import Derivation
from dis_derivations.images.stored_image import is_image
from dis_store import Realisation, Root, Store
from dis_store.digest import Digest
from dis_store.errors import DisError, MissingObjectError

_MAIN_OUTPUTS = frozenset({"out", "bundle", "results"})


@dataclass(frozen=True)
class NamedObject:
    """An object of a closure.

    Attributes:
        digest: The object.
        name: Unique in the closure, and fit for a tag.
        kind: What it is: `weights`, `tokenizer`, …, the name of the builder that made it, or `object`.
    """

    digest: Digest
    name: str
    kind: str


@dataclass(frozen=True)
class Kept:
    """What is sent.

    Attributes:
        root: The object that was asked for.
        objects: With all that they refer to, references first.
        records: What is known of builds whose outputs are all among the objects.
    """

    root: Digest
    objects: tuple[NamedObject, ...]
    records: BuildRecords


def kept_by(store: Store, root: Root, *, outputs_only: bool) -> Kept:
    """Return what a root keeps, of each build that led to it the chosen one; protected from collection.

    Args:
        store: The store.
        root: What is sent.
        outputs_only: Whether only the object itself with its closure is sent.

    Raises:
        MissingObjectError: An object is not in the store any more.
    """
    realisations = [] if outputs_only else _builds(store, root.key)
    wanted = [root.object, *(each for build in realisations for each in build.outputs.values())]
    members = store.closure(dict.fromkeys(wanted))
    if not store.protect_all(members):
        raise MissingObjectError(f"not all of {root.object} is in the store any more")
    there = set(members)
    builds = [travelling_build(store, each) for each in realisations]
    if outputs_only:
        builds = [
            travelling_build(store, each)
            for each in _builds(store, root.key)
            if there.issuperset(each.outputs.values())
        ]
    derivations = _derivations(store, builds, root.derivation)
    return Kept(
        root.object,
        tuple(_named(store, members, builds, derivations)),
        BuildRecords(
            root.object,
            root.derivation,
            root.key,
            tuple(each.encode() for each in derivations),
            tuple(sorted(builds, key=lambda each: (each.realisation.key, each.realisation.build))),
        ),
    )


def model_of(kept: Kept) -> Digest:
    """Return the model in what is kept: of a run, the closure that it ran; else the object that was asked for."""
    closures = [
        each.realisation.outputs.get("out")
        for each in kept.records.builds
        if each.realisation.builder == "closure"
    ]
    # What came before a closure was built, as its weights, has none among its inputs.
    return next((each for each in closures if each is not None), kept.root)


def _builds(store: Store, key: Digest | None) -> list[Realisation]:
    """Return the chosen build of a key, and those of its inputs; what is gone is left out."""
    found: dict[Digest, Realisation] = {}
    pending = [] if key is None else [key]
    while pending:
        current = pending.pop()
        if current in found or (chosen := store.chosen(current)) is None:
            continue
        found[current] = chosen
        pending += [each.key for each in chosen.inputs.values() if each.key is not None]
    return list(found.values())


def _derivations(
    store: Store, builds: Iterable[TravellingBuild], root: Digest | None
) -> list[Derivation]:
    """Return the derivations of builds and those that they name, inputs first; damaged ones are left out."""
    ordered: dict[Digest, Derivation] = {}

    def visit(digest: Digest) -> None:
        if digest in ordered:
            return
        try:
            derivation = Derivation.decode(store.derivation(digest))
        except DisError:
            return
        for source in derivation.inputs.values():
            visit(source.derivation)
        ordered[digest] = derivation

    named = {each.realisation.derivation for each in builds} | {root}
    for digest in sorted(each for each in named if each is not None):
        visit(digest)
    return list(ordered.values())


def _named(
    store: Store,
    members: Iterable[Digest],
    builds: Iterable[TravellingBuild],
    derivations: Sequence[Derivation],
) -> Iterable[NamedObject]:
    known: dict[Digest, tuple[str, str]] = {}
    for build in sorted(builds, key=lambda each: each.realisation.key):
        record = build.realisation
        found = next((each for each in derivations if may_be_of(each, record)), None)
        kind = record.builder if found is None else _kind(found)
        for output, digest in sorted(record.outputs.items()):
            is_log = output == "log"
            plain = output in _MAIN_OUTPUTS
            label = kind if plain else f"{kind}-{output}"
            known.setdefault(digest, (label, "log" if is_log else kind))
    ordered = list(members)
    labels = [known.get(digest, (f"object-{digest[:8]}", "object")) for digest in ordered]
    # The name `image` is that of the image itself.
    labels = [
        (layout.IMAGE_FILES_CHILD, kind) if is_image(store, digest) else (label, kind)
        for digest, (label, kind) in zip(ordered, labels, strict=True)
    ]
    reserved = (layout.RECORDS_CHILD, layout.IMAGE_CHILD)
    names = layout.unique_names((label for label, _ in labels), reserved)
    for digest, name, (_, kind) in zip(ordered, names, labels, strict=True):
        yield NamedObject(digest, name, kind)


def _kind(derivation: Derivation) -> str:
    kind = derivation.args.get("kind")
    return kind if derivation.builder == "files" and isinstance(kind, str) else derivation.builder
