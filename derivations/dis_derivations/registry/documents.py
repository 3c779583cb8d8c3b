"""Manifests and indexes of registries: read strictly, within bounds, and written the same way every time."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from types import MappingProxyType
from typing import Any

from dis_derivations.registry.errors import RegistryMismatchError
from dis_store import canonical_json, strict_json
from dis_store.digest import Sha256
from dis_store.errors import InvalidInputError

INDEX = "application/vnd.oci.image.index.v1+json"
MANIFEST = "application/vnd.oci.image.manifest.v1+json"
DOCKER_INDEX = "application/vnd.docker.distribution.manifest.list.v2+json"
DOCKER_MANIFEST = "application/vnd.docker.distribution.manifest.v2+json"
ACCEPTED = (INDEX, MANIFEST, DOCKER_INDEX, DOCKER_MANIFEST)
EMPTY_CONFIG = "application/vnd.oci.empty.v1+json"
EMPTY = b"{}"
MAX_MANIFEST_BYTES = 4 << 20
"""What every registry takes, and the longest that is read."""
# 4 MiB of empty lists would take a hundred of memory. A manifest of 15,900 layers has 32,000.
_MOST_BRACKETS = 200_000
_NO_ANNOTATIONS: Mapping[str, str] = MappingProxyType({})


@dataclass(frozen=True)
class Descriptor:
    """What names a blob or a manifest.

    Attributes:
        media_type: What it is.
        digest: Of its bytes.
        size: Its bytes.
        annotations: What else is said of it.
        artifact_type: What kind of artifact a manifest is; empty where that is not said.
        platform: Of an image: `os`, `architecture`, perhaps `variant`; empty where that is not said.
    """

    media_type: str
    digest: Sha256
    size: int
    annotations: Mapping[str, str] = field(default_factory=lambda: _NO_ANNOTATIONS)
    artifact_type: str = ""
    platform: Mapping[str, str] = field(default_factory=lambda: _NO_ANNOTATIONS)

    def to_json(self) -> dict[str, Any]:
        """Return it as documents hold it."""
        document: dict[str, Any] = {
            "mediaType": self.media_type,
            "digest": self.digest,
            "size": self.size,
        }
        if self.artifact_type:
            document["artifactType"] = self.artifact_type
        if self.platform:
            document["platform"] = dict(self.platform)
        if self.annotations:
            document["annotations"] = dict(self.annotations)
        return document


@dataclass(frozen=True)
class ImageManifest:
    """A manifest with a config and layers.

    Attributes:
        subject: What it says something about, where it does.
    """

    config: Descriptor
    layers: tuple[Descriptor, ...]
    artifact_type: str = ""
    annotations: Mapping[str, str] = field(default_factory=lambda: _NO_ANNOTATIONS)
    subject: Descriptor | None = None

    def encode(self) -> bytes:
        """Return the document: canonical JSON."""
        return _encoded(
            MANIFEST,
            self.artifact_type,
            self.annotations,
            self.subject,
            {
                "config": self.config.to_json(),
                "layers": [each.to_json() for each in self.layers],
            },
        )

    @property
    def kind(self) -> str:
        """The kind of artifact: what it says, or else the media type of its config."""
        return self.artifact_type or self.config.media_type


@dataclass(frozen=True)
class ImageIndex:
    """A list of manifests."""

    manifests: tuple[Descriptor, ...]
    artifact_type: str = ""
    annotations: Mapping[str, str] = field(default_factory=lambda: _NO_ANNOTATIONS)
    subject: Descriptor | None = None

    def encode(self) -> bytes:
        """Return the document: canonical JSON."""
        return _encoded(
            INDEX,
            self.artifact_type,
            self.annotations,
            self.subject,
            {"manifests": [each.to_json() for each in self.manifests]},
        )


@dataclass(frozen=True)
class FetchedManifest:
    """A manifest or an index as a registry has it.

    Attributes:
        data: Its bytes.
        media_type: What it says that it is.
        digest: Of its bytes, as they came.
    """

    data: bytes
    media_type: str
    digest: Sha256

    @property
    def is_index(self) -> bool:
        """Whether it is a list of manifests."""
        return self.media_type in (INDEX, DOCKER_INDEX)

    @property
    def descriptor(self) -> Descriptor:
        """What names it."""
        return Descriptor(self.media_type, self.digest, len(self.data))

    def manifest(self) -> ImageManifest:
        """Return it as a manifest with a config and layers.

        Raises:
            RegistryMismatchError: It is none, or malformed.
        """
        if self.is_index:
            raise malformed("it is a list of manifests, and a manifest is wanted")
        return read_manifest(self.data)

    def index(self) -> ImageIndex:
        """Return it as a list of manifests.

        Raises:
            RegistryMismatchError: It is none, or malformed.
        """
        if not self.is_index:
            raise malformed("it is a manifest, and a list of manifests is wanted")
        return read_index(self.data)


def read_document(data: bytes, *, limit: int = MAX_MANIFEST_BYTES) -> dict[str, Any]:
    """Return a JSON object of a registry.

    Raises:
        RegistryMismatchError: It is none, or would take too much memory.
    """
    if len(data) > limit or data.count(b"{") + data.count(b"[") > _MOST_BRACKETS:
        raise malformed("it is too large")
    try:
        document = strict_json.decode(data, name="a document of a registry")
    except InvalidInputError as error:
        raise malformed(error.cause or error.what) from error
    if not isinstance(document, dict):
        raise malformed("it is no JSON object")
    return document


def media_type_of(data: bytes, told: str) -> str:
    """Return what a manifest is: as it says itself, else as its server says.

    Args:
        data: The manifest.
        told: The `Content-Type` of the answer.

    Raises:
        RegistryMismatchError: The two contradict each other, or it is nothing known.
    """
    document = read_document(data)
    said = document.get("mediaType", "")
    served = told.partition(";")[0].strip().lower()
    named = said or served
    if named not in ACCEPTED:
        raise malformed("its media type is none that dis knows")
    if said and served in ACCEPTED and served != said:
        raise malformed("it says one media type, and its server another")
    if ("manifests" in document) != (named in (INDEX, DOCKER_INDEX)):
        raise malformed("it is not what its media type says")
    return str(named)


def read_manifest(data: bytes) -> ImageManifest:
    """Return a manifest.

    Raises:
        RegistryMismatchError: It is malformed.
    """
    document = read_document(data)
    try:
        return ImageManifest(
            config=_descriptor(document["config"]),
            layers=tuple(map(_descriptor, document["layers"])),
            **_common(document),
        )
    except (KeyError, TypeError, ValueError, InvalidInputError) as error:
        raise malformed(_short(error)) from error


def read_index(data: bytes) -> ImageIndex:
    """Return a list of manifests.

    Raises:
        RegistryMismatchError: It is malformed.
    """
    document = read_document(data)
    try:
        return ImageIndex(
            manifests=tuple(map(_descriptor, document["manifests"])), **_common(document)
        )
    except (KeyError, TypeError, ValueError, InvalidInputError) as error:
        raise malformed(_short(error)) from error


def malformed(cause: str) -> RegistryMismatchError:
    """Return the error for a document of a registry that is not what it must be."""
    return RegistryMismatchError("a document of the registry is refused", cause=cause)


def _encoded(
    media_type: str,
    artifact_type: str,
    annotations: Mapping[str, str],
    subject: Descriptor | None,
    fields: Mapping[str, Any],
) -> bytes:
    document: dict[str, Any] = {"schemaVersion": 2, "mediaType": media_type, **fields}
    if artifact_type:
        document["artifactType"] = artifact_type
    if annotations:
        document["annotations"] = dict(annotations)
    if subject is not None:
        document["subject"] = subject.to_json()
    return canonical_json.encode(document)


def _common(document: Mapping[str, Any]) -> dict[str, Any]:
    if document.get("schemaVersion") != 2:  # noqa: PLR2004 - the version of the specification
        raise ValueError("its schema version is not 2")
    subject = document.get("subject")
    return {
        "artifact_type": _text(document.get("artifactType", "")),
        "annotations": _texts(document.get("annotations")),
        "subject": None if subject is None else _descriptor(subject),
    }


def _descriptor(document: Mapping[str, Any]) -> Descriptor:
    size = document["size"]
    if type(size) is not int or size < 0:
        raise ValueError("a size is no number of bytes")
    platform = document.get("platform") or {}
    return Descriptor(
        media_type=_text(document["mediaType"]),
        digest=Sha256(_text(document["digest"])),
        size=size,
        annotations=_texts(document.get("annotations")),
        artifact_type=_text(document.get("artifactType", "")),
        platform={
            name: _text(platform[name])
            for name in ("os", "architecture", "variant")
            if name in platform
        },
    )


def _texts(document: Any) -> Mapping[str, str]:
    if document is None:
        return _NO_ANNOTATIONS
    if not isinstance(document, dict):
        raise TypeError("its annotations are no object")
    return {_text(name): _text(value) for name, value in document.items()}


def _text(value: Any) -> str:
    if not isinstance(value, str):
        raise TypeError("something is no text")
    return value


def _short(error: Exception) -> str:
    if isinstance(error, KeyError):
        return f"it has no {error.args[0]!r}"
    if isinstance(error, InvalidInputError):
        return error.cause or error.what
    return str(error)[:200]
