"""The parts of a closure: what each object, image and record is in a registry, with the blobs that it is made of."""

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from functools import partial
from itertools import chain

from dis_derivations.distribution import layout
from dis_derivations.distribution.build_records import BuildRecords
from dis_derivations.distribution.file_parts import FilePart, parts_of_files
from dis_derivations.distribution.files_archive import FilesArchive
from dis_derivations.distribution.kept import NamedObject
from dis_derivations.distribution.object_documents import encode_object, needs_archive
from dis_derivations.images.stored_image import StoredImage, is_image, read_stored
from dis_derivations.registry.documents import (
    EMPTY,
    EMPTY_CONFIG,
    MANIFEST,
    Descriptor,
    ImageManifest,
)
from dis_derivations.registry.uploads import Blob, blob_of_bytes, blob_of_file
from dis_store import Store
from dis_store.digest import Digest, Sha256
from dis_store.errors import IntegrityError, InvalidInputError

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


def distinct(parts: Iterable[Part]) -> list[Blob]:
    """Return the different blobs of parts, the largest first, so that no large one is begun last."""
    blobs = {blob.digest: blob for blob in chain.from_iterable(part.blobs for part in parts)}
    return sorted(blobs.values(), key=lambda blob: (-blob.size, blob.digest))


def object_part(
    store: Store, named: NamedObject, check: Callable[[], None], *, in_parts: bool
) -> Part:
    """Return an object of the store as a part.

    Args:
        store: The store.
        named: The object.
        check: Raises when the user asked to stop.
        in_parts: Whether all large files travel in parts, and not only the largest.

    Raises:
        IntegrityError: It is not in the store, not whole, or has too many files.
    """
    check()
    digest = named.digest
    tree = store.tree(digest)
    sha256_of = partial(_sha256, store, check)
    blobs: list[Blob] = []
    described = None
    parts: Mapping[Digest, tuple[FilePart, ...]] = {}
    if needs_archive(tree, named.kind):
        archive = FilesArchive(store, digest)
        described = archive.descriptor(check)
        blobs.append(archive.blob(described))
    else:
        # The layers of an image are those of its own manifest as well, which knows no parts.
        if not is_image(store, digest):
            parts = parts_of_files(store, tree, check, wanted=in_parts)
        blobs += _blobs_of_files(store, digest, parts, sha256_of)
    encoded = encode_object(tree, named.kind, sha256_of, described, parts)
    blobs += map(blob_of_bytes, encoded.small)
    annotations = _annotations(named.name, named.kind, digest)
    tags = (layout.object_tag(digest),)
    return _part(named.name, tags, encoded.manifest.encode(), annotations, blobs)


def _blobs_of_files(
    store: Store,
    digest: Digest,
    parts: Mapping[Digest, tuple[FilePart, ...]],
    sha256_of: Callable[[Digest], Sha256],
) -> Iterable[Blob]:
    for entry in store.tree(digest).files:
        path = store.object_path(digest) / entry.path
        if entry.blake3 in parts:
            for part in parts[entry.blake3]:
                yield blob_of_file(path, part.sha256, part.size, part.offset)
        else:
            yield blob_of_file(path, sha256_of(entry.blake3), entry.size)


def image_part(store: Store, named: NamedObject, name: str) -> Part | None:
    """Return the image that an object of a closure is, under its own digest; None where the object is no image.

    Its blobs are files of the object, so that it adds nothing to what is sent but its manifest.

    Args:
        store: The store.
        named: The object.
        name: What the image is called in the closure.

    Raises:
        IntegrityError: A document of the image is not what it must be.
    """
    if not is_image(store, named.digest):
        return None
    if needs_archive(store.tree(named.digest), named.kind):
        return None  # nobody could compare it with its object before all of that has come
    try:
        stored = read_stored(store, named.digest)
    except InvalidInputError:
        return None  # a layout that is not as dis keeps images is an object like any other
    manifest = stored.image.manifest
    descriptor = Descriptor(
        manifest.media_type,
        manifest.digest,
        manifest.size,
        _annotations(name, layout.IMAGE_KIND, named.digest),
        platform=platform_of(stored),
    )
    return Part(name, (), stored.image.manifest_bytes, descriptor, blobs_of_image(stored))


def platform_of(stored: StoredImage) -> Mapping[str, str]:
    """Return what an image runs on, as a descriptor says it."""
    platform = stored.image.config.platform
    found = {"os": platform.os, "architecture": platform.architecture}
    return found if platform.variant is None else {**found, "variant": platform.variant}


def blobs_of_image(stored: StoredImage) -> tuple[Blob, ...]:
    """Return configuration and layers of an image, each blob once."""
    return tuple(
        blob_of_file(stored.blobs[blob.digest], blob.digest, blob.size)
        for blob in stored.image.content.blobs
    )


def records_part(records: BuildRecords) -> Part:
    """Return what is known of the builds of a closure as a part."""
    data = records.encode()
    config = Descriptor(EMPTY_CONFIG, Sha256.of(EMPTY), len(EMPTY))
    layer = Descriptor(layout.RECORDS_LAYER, Sha256.of(data), len(data))
    manifest = ImageManifest(config, (layer,), layout.RECORDS, {layout.FORMAT_NAME: layout.FORMAT})
    blobs = [blob_of_bytes(EMPTY), blob_of_bytes(data)]
    annotations = _annotations(layout.RECORDS_CHILD, layout.RECORDS_CHILD, None)
    return _part(layout.RECORDS_CHILD, (), manifest.encode(), annotations, blobs)


def _sha256(store: Store, check: Callable[[], None], blake3: Digest) -> Sha256:
    found = store.sha256_of(blake3, lambda _: check())
    if found is None:
        raise IntegrityError(
            f"the SHA-256 of the file {blake3} is not known",
            cause="the index of the store has lost it",
            hint="rebuild it: dis store reindex",
        )
    return found


def _annotations(name: str, kind: str, digest: Digest | None) -> Mapping[str, str]:
    annotations = {layout.CHILD_NAME: name, layout.KIND_NAME: kind}
    return annotations if digest is None else {**annotations, layout.OBJECT_NAME: digest}


def _part(
    name: str,
    tags: tuple[str, ...],
    manifest: bytes,
    annotations: Mapping[str, str],
    blobs: Iterable[Blob],
) -> Part:
    if len(manifest) > _LONGEST_MANIFEST:
        raise IntegrityError(
            f"the part {name} cannot be sent", cause="its manifest is longer than registries take"
        )
    # No artifact type: skopeo drops it on the way, and the digest of the index would be another one.
    descriptor = Descriptor(
        MANIFEST, Sha256.of(manifest), len(manifest), annotations, platform=layout.NO_PLATFORM
    )
    unique = {blob.digest: blob for blob in blobs}
    return Part(name, tags, manifest, descriptor, tuple(unique.values()))
