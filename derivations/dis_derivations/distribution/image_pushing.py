"""Sending an image of a model to a repository: its layers, then its configuration, last the tag."""

from dataclasses import dataclass, replace

from dis_derivations.distribution.model_image import ModelImage
from dis_derivations.distribution.sending import Sending
from dis_derivations.registry.documents import MANIFEST
from dis_derivations.registry.reference import RegistryReference


@dataclass(frozen=True)
class PushedImage:
    """What became of an image.

    Attributes:
        reference: Where it is, with tag and digest.
        image: The image.
        sent: The bytes of blobs that were sent; for a plan, that would be sent.
        mounted: The bytes that the registry took from another of its repositories.
    """

    reference: RegistryReference
    image: ModelImage
    sent: int
    mounted: int = 0


def look_at_image(sending: Sending, image: ModelImage) -> PushedImage:
    """Return what would be sent; the registry is asked, and nothing is changed.

    Args:
        sending: To the place of the image, which has a tag.
        image: The image.

    Raises:
        RegistryRefusedError, TransferError: The registry refuses, or cannot be reached.
    """
    # Who may not do this learns it of what they named themselves.
    sending.client.find(sending.reference)
    return _result(sending, image, sending.lacking(image.blobs), 0)


def push_image(sending: Sending, image: ModelImage) -> PushedImage:
    """Send what the registry lacks of an image, and tag it.

    Args:
        sending: To the place of the image, which has a tag.
        image: The image.

    Raises:
        RegistryRefusedError, TransferError: The registry refuses, or cannot be reached.
        IntegrityError: A file of the store is not what its digest says.
    """
    place, client = sending.reference, sending.client
    if client.find(place) == image.digest:
        return _result(sending, image, 0, 0)
    sent, mounted = sending.send(image.blobs)
    client.push_manifest(place, image.manifest, MANIFEST, sending.stop.check)
    return _result(sending, image, sent, mounted)


def _result(sending: Sending, image: ModelImage, sent: int, mounted: int) -> PushedImage:
    return PushedImage(replace(sending.reference, digest=image.digest), image, sent, mounted)
