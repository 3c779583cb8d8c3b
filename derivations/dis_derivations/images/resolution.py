"""From the name of an image to the one image that it means here: through indexes, by platform."""

from collections.abc import Mapping
from dataclasses import dataclass

from dis_derivations.images.descriptor import Descriptor
from dis_derivations.images.image_documents import (
    MAX_CONFIG_BYTES,
    MAX_DOCUMENT_BYTES,
    ImageConfig,
    ImageIndex,
    ImageManifest,
    parse_config,
    parse_index,
    parse_manifest,
    read_document,
)
from dis_derivations.images.image_layout import layout_files
from dis_derivations.images.image_place import ImagePlace
from dis_derivations.images.interpreter_label import INTERPRETER, interpreter_facts
from dis_derivations.images.media_types import INDEXES, MANIFESTS, OCI_MANIFEST
from dis_derivations.images.platform import Platform
from dis_store.digest import Sha256
from dis_store.errors import InvalidInputError, UnsupportedError

# An index may name indexes; whoever nests deeper, or names more, does not mean an image to be found.
_MAX_DEPTH = 4
_MAX_DOCUMENTS = 64


@dataclass(frozen=True)
class ResolvedImage:
    """One image, known to its last digest.

    Attributes:
        root: What the name of the image names: an index, or the manifest itself.
        manifest: The manifest.
        manifest_bytes: Its bytes.
        content: What is in it.
        config: How the image is run.
    """

    root: Sha256
    manifest: Descriptor
    manifest_bytes: bytes
    content: ImageManifest
    config: ImageConfig

    @property
    def files(self) -> Mapping[str, tuple[int, Sha256]]:
        """Every file of its layout: size and digest, by path."""
        return layout_files(self.manifest, self.content)

    def to_lock(self) -> dict[str, str]:
        """Return what a lock holds of it beside its files; of the interpreter in it, where it tells of one."""
        told = self.config.labels.get(INTERPRETER)
        known = {} if interpreter_facts(told) is None else {"interpreter": str(told)}
        return {
            "digest": str(self.root),
            "platform": str(self.config.platform),
            "manifest": str(self.manifest.digest),
            "config": str(self.content.config.digest),
            **known,
        }


def resolve_image(place: ImagePlace, platform: Platform) -> ResolvedImage:
    """Return the image that a place was opened for.

    An image that is named by its own digest is taken for whatever it runs on; of an index, the first that fits.

    Args:
        place: Where it is.
        platform: What it shall run on.

    Raises:
        InvalidInputError: There is none for this platform, or a document is malformed.
        DisError: A document cannot be had, or is not what it must be.
    """
    data = place.root()
    root = Sha256.of(data)
    chosen: Descriptor | None = None
    if is_index(data, place.describe()):
        chosen = _Search(place, platform).find(parse_index(data, place.describe()), depth=1)
        if chosen is None:
            raise _nothing_fits(place, platform, parse_index(data, place.describe()))
        data = place.document(chosen.digest, MAX_DOCUMENT_BYTES)
    return _image(place, root, data, chosen)


def _image(
    place: ImagePlace, root: Sha256, data: bytes, chosen: Descriptor | None
) -> ResolvedImage:
    name = f"the image in {place.describe()}"
    manifest = describe_manifest(data, name)
    if chosen is not None and chosen.size != manifest.size:
        raise InvalidInputError(
            f"{name} is not what its index says",
            cause=f"it has {manifest.size} bytes, and should have {chosen.size}",
        )
    content = parse_manifest(data, name)
    config = parse_config(
        place.config(content.config, MAX_CONFIG_BYTES), f"the configuration of {name}", content
    )
    said = None if chosen is None else chosen.platform
    if said is not None and not config.platform.fits(said):
        raise InvalidInputError(
            f"{name} is not what its index says",
            cause=f"the index says that it runs on {said}, and it says {config.platform}",
        )
    return ResolvedImage(root, manifest, data, content, config)


def is_index(data: bytes, name: str) -> bool:
    """Tell whether a document is an index, by what it says of itself, whatever a server says of it.

    Raises:
        InvalidInputError: It is no JSON object.
    """
    document = read_document(data, name)
    if document.get("schemaVersion") == 1:
        raise UnsupportedError(
            f"{name} is of a form that this version of dis does not read",
            cause="it is an image of Docker's first form, which has no verifiable configuration",
            hint="pull it with Docker, and push it again",
        )
    media_type = document.get("mediaType")
    return media_type in INDEXES or (media_type is None and "manifests" in document)


def describe_manifest(data: bytes, name: str) -> Descriptor:
    """Return the descriptor of a manifest, of its bytes alone, so that it is the same wherever they come from.

    Raises:
        InvalidInputError: It is no JSON object.
    """
    media_type = read_document(data, name).get("mediaType")
    known = media_type if media_type in MANIFESTS else OCI_MANIFEST
    return Descriptor(known, Sha256.of(data), len(data))


class _Search:
    """A look through an index, and the indexes in it, for the first image that fits."""

    def __init__(self, place: ImagePlace, platform: Platform) -> None:
        self._place = place
        self._platform = platform
        self._read = 0

    def find(self, index: ImageIndex, depth: int) -> Descriptor | None:
        """Return the descriptor of the image; None where there is none."""
        images = [each for each in index.manifests if _may_be_image(each)]
        for each in images:
            if (
                each.media_type in MANIFESTS
                and each.platform is not None
                and each.platform.fits(self._platform)
            ):
                return each
        unsaid = [each for each in images if each.platform is None]
        plain = [each for each in unsaid if each.media_type in MANIFESTS]
        # A layout on a disk often holds one image and does not say what it runs on.
        if len(plain) == 1 and len(images) == 1:
            return plain[0]
        for each in images:
            says_another = each.platform is not None and not each.platform.fits(self._platform)
            if each.media_type in INDEXES and not says_another:
                found = self.find(self._nested(each, depth), depth + 1)
                if found is not None:
                    return found
        return None

    def _nested(self, descriptor: Descriptor, depth: int) -> ImageIndex:
        self._read += 1
        if depth >= _MAX_DEPTH or self._read > _MAX_DOCUMENTS:
            raise UnsupportedError(
                f"{self._place.describe()} is an index of indexes that are nested too deep or too many",
                cause=f"{_MAX_DEPTH} levels and {_MAX_DOCUMENTS} documents are the limits",
            )
        name = f"the index {descriptor.digest} in {self._place.describe()}"
        return parse_index(self._place.document(descriptor.digest, MAX_DOCUMENT_BYTES), name)


def _may_be_image(descriptor: Descriptor) -> bool:
    known = descriptor.media_type in INDEXES | MANIFESTS
    unknown_platform = descriptor.platform is not None and descriptor.platform.is_unknown
    return known and not unknown_platform and not descriptor.is_attestation


def _nothing_fits(place: ImagePlace, platform: Platform, index: ImageIndex) -> InvalidInputError:
    there = dict.fromkeys(
        str(each.platform)
        for each in index.manifests
        if _may_be_image(each) and each.platform is not None
    )
    return InvalidInputError(
        f"{place.describe()} has no image for {platform}",
        cause=f"it has images for {', '.join(there) or 'no platform that it names'}",
        hint="name the image that is meant by its own digest",
    )
