"""Gathering the validation record of a run from its bundle and from what the store remembers."""

from collections.abc import Callable, Iterator, Mapping
from typing import TYPE_CHECKING, Any

from dis_derivations.runs.bundle_documents import Bundle, load_bundle
from dis_derivations.runs.bundle_reader import MEMBERS
from dis_derivations.validation.record import Build, Command, Evidence, Part, ValidationRecord
from dis_derivations.validation.signatures import Signatories, Signature, judge
from dis_store.digest import Digest

if TYPE_CHECKING:
    from dis_derivations.runs.reference import Resolved
    from dis_store import Store

_CHUNK_BYTES = 1 << 20


def validation_record(
    store: "Store", thing: "Resolved", signatories: Callable[[], Signatories]
) -> ValidationRecord:
    """Return what there is to know about a run.

    Args:
        store: Where its objects and the records of its builds may be.
        thing: The run, in the store or not.
        signatories: Tells who is believed, where somebody signed something about it.

    Raises:
        InvalidInputError: It is no run, or its files contradict each other.
        IntegrityError: It is damaged.
    """
    bundle = load_bundle(thing.bundle(store))
    document = bundle.document
    key = _generation_key(store, bundle)
    return ValidationRecord(
        name=document.name,
        description=_description(bundle.manifest),
        facts=_facts(bundle),
        engine=dict(bundle.engine),
        platform={"class": document.platform_class, "facts": dict(document.platform_facts)},
        hardware=document.reasons,
        capture=dict(document.capture),
        parts=tuple(_parts(store, bundle)),
        evidence=tuple(_evidence(bundle)),
        key=key,
        builds=() if key is None else tuple(_builds(store, key, document.results)),
        signatures=() if key is None else _signatures(store, key, document.results, signatories),
        commands=tuple(_commands(bundle, thing.ref)),
    )


def _description(manifest: Mapping[str, Any]) -> str:
    metadata = manifest.get("metadata")
    said = metadata.get("description") if isinstance(metadata, dict) else None
    return said if isinstance(said, str) else ""


def _facts(bundle: Bundle) -> dict[str, Any]:
    document, digest = bundle.document, bundle.reader.digest()
    return {
        "bundle": None if digest is None else str(digest),
        "run_id": str(document.run_id),
        "manifest_id": str(document.manifest_id),
        "lock_id": str(document.lock_id),
        "results": str(document.results),
        "requests_digest": str(document.requests_digest),
        "grade": document.grade,
        "artifact_digests_verified": document.unverified is None,
        "sequences": len(bundle.sequences),
        "output_tokens": sum(len(each.output_token_ids) for each in bundle.sequences),
    }


def _parts(store: "Store", bundle: Bundle) -> Iterator[Part]:
    for name, digest in bundle.document.inputs.items():
        size = store.closure_size(digest) if store.is_valid(digest) else None
        yield Part(name, digest, size)


def _evidence(bundle: Bundle) -> Iterator[Evidence]:
    names = set(bundle.reader.names())
    for path in MEMBERS:
        if path in names:
            size, digest = _measured(bundle, path)
            yield Evidence(path, size, digest)
        elif (entry := bundle.reader.left_out().get(path)) is not None:
            yield Evidence(path, entry.size, entry.blake3, left_out=True)


def _measured(bundle: Bundle, path: str) -> tuple[int, Digest]:
    """Return size and digest of a file, both from the bytes that were read."""
    from blake3 import blake3

    size, hasher = 0, blake3()
    with bundle.reader.open(path) as stream:
        while chunk := stream.read(_CHUNK_BYTES):
            size += len(chunk)
            hasher.update(chunk)
    return size, Digest(hasher.hexdigest())


def _generation_key(store: "Store", bundle: Bundle) -> Digest | None:
    """Return the key of the build that made the results; None where the store does not remember it."""
    builds = (
        store.builds_of(bundle.document.results) if store.is_valid(bundle.document.results) else []
    )
    return next((build.key for build in builds if build.builder == "generation"), None)


def _builds(store: "Store", key: Digest, results: Digest) -> Iterator[Build]:
    for build in store.realisations(key):
        yield Build(
            host=build.host,
            user=build.user,
            finished_at=build.finished_at,
            origin=build.origin,
            identical=build.outputs.get("results") == results,
        )


def _signatures(
    store: "Store", key: Digest, results: Digest, signatories: Callable[[], Signatories]
) -> tuple[Signature, ...]:
    documents = store.signatures(key)
    # Who is believed is not looked up for nothing: that may read keys.
    return judge(documents, key, results, signatories()) if documents else ()


def _commands(bundle: Bundle, ref: str) -> Iterator[Command]:
    digest = bundle.reader.digest()
    name = ref if digest is None else digest[:12]
    if digest is not None:
        yield Command(
            f"dis store verify {name}", "every byte of it is the one that its digest names"
        )
    yield Command(f"dis show {name}", "the prompts and the answers")
    if digest is not None:
        yield Command(
            f"dis cat {name} manifest.used.json", "the manifest that it was made of, without places"
        )
    yield Command(
        "dis realize CONFIG --rebuild", "the same results again, on this machine or on another one"
    )
    yield Command(f"dis diff {name} OTHER", "whether another run has the same results, bit for bit")
    yield Command(f"dis bundle {name}", "the run as one file, to be kept or handed on")
