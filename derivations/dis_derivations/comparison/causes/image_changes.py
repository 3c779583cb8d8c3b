"""What differs between two container images: their layers by place, and how they are run."""

from collections.abc import Collection, Mapping
from typing import Any

from dis_derivations.comparison.causes.json_changes import Change, json_changes
from dis_derivations.images.image_documents import (
    MAX_CONFIG_BYTES,
    MAX_DOCUMENT_BYTES,
    parse_config,
    parse_index,
    parse_manifest,
    read_document,
)
from dis_derivations.images.image_layout import INDEX_FILE, LAYOUT_FILE, blob_path
from dis_derivations.runs.bundle_reader import ObjectFiles
from dis_store.digest import Digest
from dis_store.errors import InvalidInputError, UnsupportedError


def is_image(paths: Collection[str]) -> bool:
    """Tell whether files are the layout of an image, by their names."""
    return LAYOUT_FILE in paths and INDEX_FILE in paths


def image_changes(
    stores: tuple[ObjectFiles, ObjectFiles], a: Digest, b: Digest
) -> tuple[Change, ...]:
    """Return what differs between two images; nothing where one is no image as dis keeps them.

    Only documents are read, no layer: layers are the same where their digests are.
    """
    old, new = (_account(store, each) for store, each in zip(stores, (a, b), strict=True))
    return () if old is None or new is None else json_changes("image", old, new)


def _account(store: ObjectFiles, digest: Digest) -> dict[str, Any] | None:
    """Return an image as a document: its layers from the lowest, and what a process in it finds."""
    try:
        index = parse_index(_read(store, digest, INDEX_FILE, MAX_DOCUMENT_BYTES), INDEX_FILE)
        if len(index.manifests) != 1:
            return None
        path = blob_path(index.manifests[0].digest)
        manifest = parse_manifest(_read(store, digest, path, MAX_DOCUMENT_BYTES), path)
        path = blob_path(manifest.config.digest)
        data = _read(store, digest, path, MAX_CONFIG_BYTES)
        config = parse_config(data, path, manifest)
        makers = _makers(read_document(data, path, MAX_CONFIG_BYTES), len(manifest.layers))
    except (InvalidInputError, UnsupportedError):
        return None
    layers = zip(config.diff_ids, makers, strict=True)
    return {
        "platform": str(config.platform),
        "layers": {
            # Two digits, so that layers are in their order in a list that is sorted by name.
            f"{place:02d}": {"content": str(content), "made_by": maker}
            for place, (content, maker) in enumerate(layers, 1)
        },
        "variables": dict(each.partition("=")[::2] for each in config.environment),
        "entrypoint": list(config.entrypoint),
        "command": list(config.command),
        "user": config.user,
        "working_directory": config.working_directory,
        "labels": dict(config.labels),
    }


def _makers(config: Mapping[str, Any], layers: int) -> list[str | None]:
    """Return the command that made each layer; None for all where the history is not one of these layers."""
    history = config.get("history")
    steps = [
        step for step in (history if isinstance(history, list) else ()) if isinstance(step, dict)
    ]
    made = [step.get("created_by") for step in steps if not step.get("empty_layer")]
    if len(made) != layers:
        return [None] * layers
    return [each if isinstance(each, str) else None for each in made]


def _read(store: ObjectFiles, digest: Digest, path: str, limit: int) -> bytes:
    """Return a document of an image.

    Raises:
        InvalidInputError: It is not there, or too large for one.
    """
    file = next((each for each in store.files(digest) if each.path == path), None)
    if file is None or file.size > limit:
        raise InvalidInputError(f"{path} is no document of an image")
    return store.read_bytes(digest, path)
