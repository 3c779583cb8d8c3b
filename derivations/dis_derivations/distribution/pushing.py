"""Sending a closure to a repository: first what nobody points to yet, last the tag.

Whoever pulls at the same time sees the closure that was there before, or the whole new one.
"""

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from itertools import chain
from typing import TypeVar

from dis_derivations.distribution import layout
from dis_derivations.distribution.build_records import BuildRecords
from dis_derivations.distribution.claim_tags import push_claims
from dis_derivations.distribution.file_parts import FilePart, parts_of_files
from dis_derivations.distribution.files_archive import FilesArchive
from dis_derivations.distribution.kept import Kept, NamedObject
from dis_derivations.distribution.object_documents import encode_object, needs_archive
from dis_derivations.distribution.workers import Stop, work_on
from dis_derivations.registry.client import BLOBS_AT_ONCE, RegistryClient
from dis_derivations.registry.documents import (
    EMPTY,
    EMPTY_CONFIG,
    INDEX,
    MANIFEST,
    Descriptor,
    ImageIndex,
    ImageManifest,
)
from dis_derivations.registry.reference import RegistryReference
from dis_derivations.registry.uploads import Blob, blob_of_bytes, blob_of_file
from dis_store import Store
from dis_store.digest import Digest, Sha256
from dis_store.errors import IntegrityError
from dis_store.work_progress import Progress, counter

_Item = TypeVar("_Item")
_Result = TypeVar("_Result")
_LONGEST_MANIFEST = 4 << 20


@dataclass(frozen=True)
class Part:
    """A part of a closure: one manifest with its blobs.

    Attributes:
        name: In the closure.
        tags: Beside the one of the closure.
        manifest: The document.
        descriptor: What the index says of it.
        blobs: What it is made of, each once.
    """

    name: str
    tags: tuple[str, ...]
    manifest: bytes
    descriptor: Descriptor
    blobs: tuple[Blob, ...]


@dataclass(frozen=True)
class PushPlan:
    """What a closure is in a registry.

    Attributes:
        reference: Where it goes, with a tag.
        parts: Its parts; each is tagged as well, because collections of registries delete what has no tag.
        index: The document that names all parts.
        records: The builds of the closure.
    """

    reference: RegistryReference
    parts: tuple[Part, ...]
    index: bytes
    records: BuildRecords

    @property
    def digest(self) -> Sha256:
        """What the closure is called in the registry."""
        return Sha256.of(self.index)

    @property
    def size(self) -> int:
        """The bytes of all different blobs."""
        return sum(blob.size for blob in distinct(self.parts))

    def tags(self, part: Part) -> list[str]:
        """Return all tags of a part."""
        return [layout.child_tag(str(self.reference.tag), part.name), *part.tags]


@dataclass(frozen=True)
class Pushed:
    """What a push did.

    Attributes:
        reference: Where it is, with tag and digest.
        objects: How many objects the closure has.
        size: The bytes of all its blobs.
        sent: The bytes of blobs that were sent; for a plan, that would be sent.
        mounted: The bytes that the registry took from another of its repositories.
    """

    reference: RegistryReference
    objects: int
    size: int
    sent: int
    mounted: int = 0


def plan_push(
    store: Store,
    kept: Kept,
    reference: RegistryReference,
    stop: Stop | None = None,
    *,
    in_parts: bool = False,
) -> PushPlan:
    """Return what a closure is in a registry; nothing is asked of one.

    Args:
        store: The store.
        kept: What is sent.
        reference: Where it goes, with a tag.
        stop: Set when the user asks to stop.
        in_parts: Whether all large files travel in parts, and not only the largest.

    Raises:
        RegistryReferenceError: The tag leaves no room for those of the parts.
        IntegrityError: Something is not in the store, or not whole.
    """
    check = (stop or Stop()).check
    parts = [_object_part(store, each, check, in_parts=in_parts) for each in kept.objects]
    parts.append(_records_part(kept.records))
    for part in parts:
        layout_tag = layout.child_tag(str(reference.tag), part.name)
        reference.with_tag(layout_tag)
    index = ImageIndex(
        tuple(part.descriptor for part in parts),
        layout.CLOSURE,
        {layout.ROOT_NAME: kept.root, layout.FORMAT_NAME: layout.FORMAT},
    )
    return PushPlan(reference, tuple(parts), index.encode(), kept.records)


def _object_part(
    store: Store, named: NamedObject, check: Callable[[], None], *, in_parts: bool
) -> Part:
    check()
    digest = named.digest
    tree = store.tree(digest)
    blobs: list[Blob] = []
    described = None
    parts: dict[Digest, tuple[FilePart, ...]] = {}
    if needs_archive(tree, named.kind):
        archive = FilesArchive(store, digest)
        described = archive.descriptor(check)
        blobs.append(archive.blob(described))
    else:
        parts = parts_of_files(store, tree, check, wanted=in_parts)
        for entry in tree.files:
            path = store.object_path(digest) / entry.path
            if entry.blake3 in parts:
                blobs += [
                    blob_of_file(path, part.sha256, part.size, part.offset)
                    for part in parts[entry.blake3]
                ]
            else:
                blobs.append(blob_of_file(path, _sha256(store, entry.blake3), entry.size))
    encoded = encode_object(tree, named.kind, partial(_sha256, store), described, parts)
    blobs += map(blob_of_bytes, encoded.small)
    return _part(
        named.name, named.kind, (layout.object_tag(digest),), encoded.manifest, blobs, digest
    )


def _sha256(store: Store, blake3: Digest) -> Sha256:
    found = store.sha256_of(blake3)
    if found is None:
        raise IntegrityError(
            f"the SHA-256 of the file {blake3} is not known",
            cause="the index of the store has lost it",
            hint="rebuild it: dis store reindex",
        )
    return found


def _records_part(records: BuildRecords) -> Part:
    data = records.encode()
    config = Descriptor(EMPTY_CONFIG, Sha256.of(EMPTY), len(EMPTY))
    layer = Descriptor(layout.RECORDS_LAYER, Sha256.of(data), len(data))
    manifest = ImageManifest(config, (layer,), layout.RECORDS, {layout.FORMAT_NAME: layout.FORMAT})
    blobs = [blob_of_bytes(EMPTY), blob_of_bytes(data)]
    return _part(layout.RECORDS_CHILD, layout.RECORDS_CHILD, (), manifest, blobs, None)


def _part(
    name: str,
    kind: str,
    tags: tuple[str, ...],
    manifest: ImageManifest,
    blobs: Iterable[Blob],
    digest: Digest | None,
) -> Part:
    data = manifest.encode()
    if len(data) > _LONGEST_MANIFEST:
        raise IntegrityError(
            f"the part {name} cannot be sent", cause="its manifest is longer than registries take"
        )
    annotations = {layout.CHILD_NAME: name, layout.KIND_NAME: kind}
    if digest is not None:
        annotations[layout.OBJECT_NAME] = digest
    # No artifact type: skopeo drops it on the way, and the digest of the index would be another one.
    descriptor = Descriptor(
        MANIFEST, Sha256.of(data), len(data), annotations, platform=layout.NO_PLATFORM
    )
    unique = {blob.digest: blob for blob in blobs}
    return Part(name, tags, data, descriptor, tuple(unique.values()))


def distinct(parts: Iterable[Part]) -> list[Blob]:
    """Return the different blobs of parts, the largest first, so that no large one is begun last."""
    blobs = {blob.digest: blob for blob in chain.from_iterable(part.blobs for part in parts)}
    return sorted(blobs.values(), key=lambda blob: (-blob.size, blob.digest))


class Push:
    """Sends a closure.

    Args:
        client: Who sends.
        plan: What.
        mount_from: Other repositories of the same registry that may have some of it.
        progress: Told of the bytes of blobs.
        stop: Set when the user asks to stop.
    """

    def __init__(
        self,
        client: RegistryClient,
        plan: PushPlan,
        *,
        mount_from: Sequence[str] = (),
        progress: Progress | None = None,
        stop: Stop | None = None,
    ) -> None:
        self._client = client
        self._plan = plan
        self._mount_from = mount_from
        self._progress = progress
        self._stop = stop or Stop()

    def look(self) -> Pushed:
        """Return what would be sent; the registry is asked, and nothing is changed.

        Raises:
            RegistryRefusedError, TransferError: The registry refuses, or cannot be reached.
        """
        blobs = distinct(self._missing_parts())
        there = self._each(blobs, lambda blob: self._client.has_blob(self._reference, blob.digest))
        sent = sum(blob.size for blob, known in zip(blobs, there, strict=True) if not known)
        return self._result(sent, 0)

    def run(self) -> Pushed:
        """Send what the registry lacks, and tag it.

        Raises:
            RegistryRefusedError, TransferError: The registry refuses, or cannot be reached.
            IntegrityError: A file of the store is not what its digest says.
        """
        missing = self._missing_parts()
        sent, mounted = self._send_blobs(distinct(missing))
        self._each(missing, self._send_manifest)
        # The builds can be asked for one by one from here on: all that they gave is there.
        push_claims(self._client, self._reference, self._plan.records, self._stop)
        if self._client.find(self._reference) != self._plan.digest:
            self._client.push_manifest(self._reference, self._plan.index, INDEX, self._stop.check)
        return self._result(sent, mounted)

    @property
    def _reference(self) -> RegistryReference:
        return replace(self._plan.reference, digest=None)

    def _result(self, sent: int, mounted: int) -> Pushed:
        reference = replace(self._reference, digest=self._plan.digest)
        return Pushed(reference, len(self._plan.parts) - 1, self._plan.size, sent, mounted)

    def _missing_parts(self) -> list[Part]:
        """Return the parts that lack one of their tags: what has all of them is there whole."""

        def is_there(part: Part) -> bool:
            return all(
                self._client.find(self._reference.with_tag(tag)) == part.descriptor.digest
                for tag in self._plan.tags(part)
            )

        # Who may not do this learns it of what they named themselves.
        self._client.find(self._reference)
        there = self._each(self._plan.parts, is_there)
        return [part for part, known in zip(self._plan.parts, there, strict=True) if not known]

    def _send_blobs(self, blobs: Sequence[Blob]) -> tuple[int, int]:
        count = counter(self._progress, sum(blob.size for blob in blobs))
        amounts: Mapping[str, list[int]] = {"present": [], "mounted": [], "sent": []}

        def send(blob: Blob) -> None:
            outcome = self._client.push_blob(
                self._reference,
                blob,
                mount_from=next(iter(self._mount_from), None),
                on_bytes=count,
                check_interrupted=self._stop.check,
            )
            amounts[outcome].append(blob.size)
            if outcome != "sent":
                count(blob.size)

        self._each(blobs, send)
        return sum(amounts["sent"]), sum(amounts["mounted"])

    def _send_manifest(self, part: Part) -> None:
        for tag in self._plan.tags(part):
            self._client.push_manifest(
                self._reference.with_tag(tag), part.manifest, MANIFEST, self._stop.check
            )

    def _each(self, items: Sequence[_Item], work: Callable[[_Item], _Result]) -> list[_Result]:
        def checked(item: _Item) -> _Result:
            self._stop.check()
            return work(item)

        return work_on(items, checked, self._stop, jobs=BLOBS_AT_ONCE)
