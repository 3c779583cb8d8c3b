"""Descriptors: what a document says of a blob that it names."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from dis_derivations.images.platform import Platform, parse_platform
from dis_store.digest import Sha256
from dis_store.errors import InvalidInputError

MAX_BLOB_BYTES = 1 << 40
_MAX_TEXT = 255
_ATTESTATION = "vnd.docker.reference.type"


@dataclass(frozen=True)
class Descriptor:
    """A blob by what it is.

    Attributes:
        media_type: What its bytes are.
        digest: Of its bytes.
        size: In bytes.
        platform: What an index says it runs on; None where it does not say.
        annotations: What else is said of it.
    """

    media_type: str
    digest: Sha256
    size: int
    platform: Platform | None = None
    annotations: Mapping[str, str] = field(default_factory=dict)

    @property
    def is_attestation(self) -> bool:
        """Whether it stands in an index beside images, to say something of them, as `docker buildx` puts it there."""
        return _ATTESTATION in self.annotations

    def to_json(self) -> dict[str, Any]:
        """Return what must be said of a blob and no more."""
        return {"mediaType": self.media_type, "digest": str(self.digest), "size": self.size}


def parse_descriptor(value: Any, where: str) -> Descriptor:
    """Return a descriptor that stands in a document; fields that this version does not know mean nothing to it.

    Args:
        value: The JSON value.
        where: What it is, for messages: `layer 3 of the image`.

    Raises:
        InvalidInputError: It is no descriptor, or one of a digest that is not SHA-256.
    """
    if not isinstance(value, dict):
        raise _refusal(where, "it is no object")
    media_type, size = value.get("mediaType"), value.get("size")
    if not isinstance(media_type, str) or not 0 < len(media_type) <= _MAX_TEXT:
        raise _refusal(where, "it has no mediaType")
    if type(size) is not int or not 0 <= size <= MAX_BLOB_BYTES:
        raise _refusal(where, f"its size is {size!r:.40}")
    return Descriptor(
        media_type=media_type,
        digest=sha256_of(value.get("digest"), where),
        size=size,
        platform=None
        if value.get("platform") is None
        else parse_platform(value["platform"], where),
        annotations=parse_annotations(value.get("annotations"), where),
    )


def sha256_of(value: Any, where: str) -> Sha256:
    """Return a digest that stands in a document.

    Raises:
        InvalidInputError: It is no SHA-256; images may have others, which this version does not verify.
    """
    try:
        return Sha256(value if isinstance(value, str) else repr(value))
    except InvalidInputError as error:
        raise _refusal(where, str(error)) from error


def parse_annotations(value: Any, where: str) -> dict[str, str]:
    """Return the annotations of a document or a descriptor; none where there are none.

    Raises:
        InvalidInputError: They are no map of strings.
    """
    if value is None:
        return {}
    if not isinstance(value, dict) or not all(isinstance(text, str) for text in value.values()):
        raise _refusal(where, "its annotations are no map of strings")
    return value


def _refusal(where: str, cause: str) -> InvalidInputError:
    return InvalidInputError(f"{where} is malformed", cause=cause)
