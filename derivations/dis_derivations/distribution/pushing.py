"""Sending a closure to a repository: first what nobody points to yet, last the tag.

Whoever pulls at the same time sees the closure that was there before, or the whole new one.
"""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from typing import TypeVar

from dis_derivations.distribution import layout
from dis_derivations.distribution.build_records import BuildRecords
from dis_derivations.distribution.claim_tags import push_claims
from dis_derivations.distribution.closure_parts import (
    Part,
    distinct,
    image_part,
    object_part,
    records_part,
)
from dis_derivations.distribution.kept import Kept
from dis_derivations.distribution.sending import Sending
from dis_derivations.distribution.workers import Stop, work_on
from dis_derivations.registry.client import BLOBS_AT_ONCE, RegistryClient
from dis_derivations.registry.documents import INDEX, ImageIndex
from dis_derivations.registry.reference import RegistryReference
from dis_store import Store
from dis_store.digest import Sha256
from dis_store.work_progress import Progress

_Item = TypeVar("_Item")
_Result = TypeVar("_Result")


@dataclass(frozen=True)
class PushPlan:
    """What a closure is in a registry.

    Attributes:
        reference: Where it goes, with a tag.
        objects: How many objects it has.
        parts: Its parts; each is tagged as well, because collections of registries delete what has no tag.
        index: The document that names all parts.
        records: The builds of the closure.
    """

    reference: RegistryReference
    objects: int
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
    parts = [object_part(store, each, check, in_parts=in_parts) for each in kept.objects]
    parts += _image_parts(store, kept)
    parts.append(records_part(kept.records))
    for part in parts:
        layout_tag = layout.child_tag(str(reference.tag), part.name)
        reference.with_tag(layout_tag)
    index = ImageIndex(
        tuple(part.descriptor for part in parts),
        layout.CLOSURE,
        {layout.ROOT_NAME: kept.root, layout.FORMAT_NAME: layout.FORMAT},
    )
    return PushPlan(reference, len(kept.objects), tuple(parts), index.encode(), kept.records)


def _image_parts(store: Store, kept: Kept) -> Iterator[Part]:
    taken = [layout.RECORDS_CHILD, *(each.name for each in kept.objects)]
    for each in kept.objects:
        (name,) = layout.unique_names([layout.IMAGE_CHILD], taken)
        if (part := image_part(store, each, name)) is not None:
            taken.append(name)
            yield part


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
        self._stop = stop or Stop()
        self._sending = Sending(client, self._reference, mount_from, progress, self._stop)

    def look(self) -> Pushed:
        """Return what would be sent; the registry is asked, and nothing is changed.

        Raises:
            RegistryRefusedError, TransferError: The registry refuses, or cannot be reached.
        """
        return self._result(self._sending.lacking(distinct(self._missing_parts())), 0)

    def run(self) -> Pushed:
        """Send what the registry lacks, and tag it.

        Raises:
            RegistryRefusedError, TransferError: The registry refuses, or cannot be reached.
            IntegrityError: A file of the store is not what its digest says.
        """
        missing = self._missing_parts()
        sent, mounted = self._sending.send(distinct(missing))
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
        return Pushed(reference, self._plan.objects, self._plan.size, sent, mounted)

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

    def _send_manifest(self, part: Part) -> None:
        for tag in self._plan.tags(part):
            self._client.push_manifest(
                self._reference.with_tag(tag),
                part.manifest,
                part.descriptor.media_type,
                self._stop.check,
            )

    def _each(self, items: Sequence[_Item], work: Callable[[_Item], _Result]) -> list[_Result]:
        def checked(item: _Item) -> _Result:
            self._stop.check()
            return work(item)

        return work_on(items, checked, self._stop, jobs=BLOBS_AT_ONCE)
