"""The documents that an image is made of, read strictly: indexes, manifests, configurations.

Their bytes are kept as they are, and only what is said here is read of them: a field that this version does not know
means nothing to it.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from dis_derivations.images.descriptor import (
    Descriptor,
    parse_annotations,
    parse_descriptor,
    sha256_of,
)
from dis_derivations.images.media_types import CONFIGS, FOREIGN_LAYERS, INDEXES, LAYERS, MANIFESTS
from dis_derivations.images.platform import Platform, parse_platform
from dis_store import strict_json
from dis_store.digest import Sha256
from dis_store.errors import InvalidInputError, UnsupportedError

# What registries must take, and most take no more of.
MAX_DOCUMENT_BYTES = 4 << 20
MAX_CONFIG_BYTES = 8 << 20
_SCHEMA_VERSION = 2
# 4 MiB of empty lists would take a hundred of memory; a manifest of 15,900 layers has 32,000 brackets.
_MOST_BRACKETS = 200_000


@dataclass(frozen=True)
class ImageIndex:
    """A list of images, one for each platform, and of what belongs to them.

    Attributes:
        manifests: In the order of the document.
        annotations: What is said of all of it.
    """

    manifests: tuple[Descriptor, ...]
    annotations: Mapping[str, str]


@dataclass(frozen=True)
class ImageManifest:
    """One image.

    Attributes:
        config: Its configuration, whose digest Docker calls the image by.
        layers: From the lowest to the highest; one blob may be several of them.
        annotations: What is said of it.
    """

    config: Descriptor
    layers: tuple[Descriptor, ...]
    annotations: Mapping[str, str]

    @property
    def blobs(self) -> tuple[Descriptor, ...]:
        """Configuration and layers, each blob once."""
        return tuple({each.digest: each for each in (self.config, *self.layers)}.values())


@dataclass(frozen=True)
class ImageConfig:
    """How an image is run, and what its layers are when they are unpacked.

    Attributes:
        platform: What it runs on.
        diff_ids: SHA-256 of each layer's tar stream, lowest first.
        environment: Variables of the process, `NAME=value` each.
        entrypoint: What is started, before `command`.
        command: What is started, or its arguments.
        user: As whom; empty for root.
        working_directory: Where; empty for the top.
        labels: What its maker says of it.
        volumes: Where its maker wants data to be kept.
    """

    platform: Platform
    diff_ids: tuple[Sha256, ...]
    environment: tuple[str, ...]
    entrypoint: tuple[str, ...]
    command: tuple[str, ...]
    user: str
    working_directory: str
    labels: Mapping[str, str]
    volumes: tuple[str, ...]


def parse_index(data: bytes, name: str) -> ImageIndex:
    """Return an index of images.

    Raises:
        InvalidInputError: It is none.
    """
    document = read_document(data, name, MAX_DOCUMENT_BYTES)
    _check_version(document, name, INDEXES)
    entries = _list(document.get("manifests"), name, "manifests")
    return ImageIndex(
        tuple(parse_descriptor(each, f"entry {n} of {name}") for n, each in enumerate(entries, 1)),
        parse_annotations(document.get("annotations"), name),
    )


def parse_manifest(data: bytes, name: str) -> ImageManifest:
    """Return the manifest of one image.

    Raises:
        InvalidInputError: It is none, it contradicts itself, or it is that of something that is no image.
        UnsupportedError: Some of its layers are in no registry, or packed in a way that this version does not know.
    """
    document = read_document(data, name, MAX_DOCUMENT_BYTES)
    _check_version(document, name, MANIFESTS)
    config = parse_descriptor(document.get("config"), f"the configuration of {name}")
    if config.media_type not in CONFIGS:
        raise InvalidInputError(
            f"{name} is no image", cause=f"its configuration is {config.media_type}"
        )
    entries = _list(document.get("layers"), name, "layers")
    layers = tuple(
        parse_descriptor(each, f"layer {n} of {name}") for n, each in enumerate(entries, 1)
    )
    _check_layers(layers, name)
    _check_agreement((config, *layers), name)
    return ImageManifest(config, layers, parse_annotations(document.get("annotations"), name))


def parse_config(data: bytes, name: str, manifest: ImageManifest) -> ImageConfig:
    """Return the configuration of an image.

    Raises:
        InvalidInputError: It is malformed, or says of other layers than the manifest.
    """
    document = read_document(data, name, MAX_CONFIG_BYTES)
    root = document.get("rootfs")
    if not isinstance(root, dict) or root.get("type") != "layers":
        raise InvalidInputError(f"{name} is malformed", cause="its rootfs is not made of layers")
    diff_ids = _list(root.get("diff_ids"), name, "diff_ids")
    if len(diff_ids) != len(manifest.layers):
        raise InvalidInputError(
            f"{name} does not belong to its image",
            cause=f"it has {len(diff_ids)} layers, and the image has {len(manifest.layers)}",
        )
    run = document.get("config")
    run = {} if run is None else run
    if not isinstance(run, dict):
        raise InvalidInputError(f"{name} is malformed", cause="its config is no object")
    return ImageConfig(
        platform=parse_platform(document, name),
        diff_ids=tuple(sha256_of(each, f"a layer in {name}") for each in diff_ids),
        environment=_texts(run, "Env", name),
        entrypoint=_texts(run, "Entrypoint", name),
        command=_texts(run, "Cmd", name),
        user=_text(run, "User", name),
        working_directory=_text(run, "WorkingDir", name),
        labels=_labels(run, name),
        volumes=_volumes(run, name),
    )


def read_document(data: bytes, name: str, limit: int = MAX_DOCUMENT_BYTES) -> dict[str, Any]:
    """Return a JSON object of at most `limit` bytes.

    Raises:
        InvalidInputError: It is none.
    """
    if len(data) > limit:
        raise InvalidInputError(f"{name} is too large", cause=f"it has more than {limit} bytes")
    if data.count(b"{") + data.count(b"[") > _MOST_BRACKETS:
        raise InvalidInputError(f"{name} is too large", cause="it has too many objects and lists")
    document = strict_json.decode(data, name=name)
    if not isinstance(document, dict):
        raise InvalidInputError(f"{name} is malformed", cause="it is no JSON object")
    return document


def _check_version(document: Mapping[str, Any], name: str, types: frozenset[str]) -> None:
    version, media_type = document.get("schemaVersion"), document.get("mediaType")
    if version != _SCHEMA_VERSION or isinstance(version, bool):
        raise UnsupportedError(
            f"{name} is of a form that this version of dis does not read",
            cause=f"its schemaVersion is {version!r:.40}, not {_SCHEMA_VERSION}",
        )
    # A document that could be read as an index and as a manifest would be two images in one.
    if media_type is not None and media_type not in types:
        raise InvalidInputError(
            f"{name} is not what it was named as", cause=f"its mediaType is {media_type!r:.80}"
        )
    if "manifests" in document and ("layers" in document or "config" in document):
        raise InvalidInputError(
            f"{name} is ambiguous", cause="it is an index and a manifest in one document"
        )


def _check_layers(layers: tuple[Descriptor, ...], name: str) -> None:
    for number, layer in enumerate(layers, 1):
        if layer.media_type in FOREIGN_LAYERS:
            raise UnsupportedError(
                f"{name} has a layer that no registry holds",
                cause=f"layer {number} is {layer.media_type}",
            )
        if layer.media_type not in LAYERS:
            raise UnsupportedError(
                f"{name} has a layer of a kind that this version of dis does not know",
                cause=f"layer {number} is {layer.media_type!r:.100}",
            )


def _check_agreement(blobs: tuple[Descriptor, ...], name: str) -> None:
    """Refuse one blob of which two things are said."""
    seen: dict[Sha256, Descriptor] = {}
    for blob in blobs:
        other = seen.setdefault(blob.digest, blob)
        if (other.size, other.media_type) != (blob.size, blob.media_type):
            raise InvalidInputError(
                f"{name} contradicts itself",
                cause=f"{blob.digest} is {other.media_type} of {other.size} bytes, "
                f"and {blob.media_type} of {blob.size} bytes",
            )


def _list(value: Any, name: str, field: str) -> list[Any]:
    if not isinstance(value, list):
        raise InvalidInputError(f"{name} is malformed", cause=f"its {field} is no list")
    return value


def _texts(run: Mapping[str, Any], field: str, name: str) -> tuple[str, ...]:
    value = run.get(field)
    if value is None:
        return ()
    if not isinstance(value, list) or not all(isinstance(text, str) for text in value):
        raise InvalidInputError(f"{name} is malformed", cause=f"its {field} is no list of strings")
    return tuple(value)


def _text(run: Mapping[str, Any], field: str, name: str) -> str:
    value = run.get(field)
    if value is not None and not isinstance(value, str):
        raise InvalidInputError(f"{name} is malformed", cause=f"its {field} is no string")
    return value or ""


def _volumes(run: Mapping[str, Any], name: str) -> tuple[str, ...]:
    value = run.get("Volumes")
    if value is None:
        return ()
    if not isinstance(value, dict):
        raise InvalidInputError(f"{name} is malformed", cause="its Volumes are no object")
    return tuple(value)


def _labels(run: Mapping[str, Any], name: str) -> Mapping[str, str]:
    value = run.get("Labels")
    if value is None:
        return {}
    if not isinstance(value, dict) or not all(isinstance(text, str) for text in value.values()):
        raise InvalidInputError(f"{name} is malformed", cause="its Labels are no strings by name")
    return value
