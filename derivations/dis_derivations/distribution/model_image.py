"""A model as a container image: its files below `/models`, on an image that may be given.

The same files on the same image make the same image, byte for byte. Layers are archives that are made while they are
sent.
"""

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import PurePosixPath
from typing import Any

from dis_derivations.builders.closure import CLOSURE_DOCUMENT, MODEL_DIRECTORY
from dis_derivations.distribution.closure_parts import blobs_of_image
from dis_derivations.distribution.segments import Segment, Segments
from dis_derivations.images.descriptor import Descriptor
from dis_derivations.images.image_documents import MAX_CONFIG_BYTES, read_document
from dis_derivations.images.media_types import (
    LAYERS,
    OCI_CONFIG,
    OCI_LAYER,
    OCI_LAYER_GZIP,
    OCI_LAYER_ZSTD,
    OCI_MANIFEST,
)
from dis_derivations.images.platform import Platform, machine_platform
from dis_derivations.images.stored_image import StoredImage
from dis_derivations.images.tar_stream import (
    FILE_MODE,
    PROGRAM_MODE,
    TAR_END,
    directory_header,
    padding,
    tar_header,
)
from dis_derivations.registry.uploads import Blob, blob_of_bytes
from dis_store import ResolvedFile, Store, canonical_json
from dis_store.digest import Digest, Sha256
from dis_store.errors import IntegrityError, InvalidInputError

MODELS = "models"
MOST_LAYERS = 120
"""Docker takes no image of more than 125 layers; some are left for whoever builds on this one."""
# In a layer, a file of such a name says that another one is not there.
_WHITEOUT = ".wh."
_CREATED = "1970-01-01T00:00:00Z"
_PLAN = b"a layer of an image of a model, format 1: "
_OCI_LAYERS = {"none": OCI_LAYER, "gzip": OCI_LAYER_GZIP, "zstd": OCI_LAYER_ZSTD}
_BASE_DIGEST = "org.opencontainers.image.base.digest"
# What a configuration says beside its layers; what else there is tells how the image below came about.
_KEPT = ("architecture", "author", "config", "os", "os.features", "os.version", "variant")


@dataclass(frozen=True)
class ModelImage:
    """An image that holds a model.

    Attributes:
        manifest: The document.
        config: What Docker calls the image.
        platform: What it runs on.
        files: How many files of the model there are.
        layers: How many layers there are, those of the image below included.
        blobs: What it is made of, each once, the largest first.
    """

    manifest: bytes
    config: Sha256
    platform: Platform
    files: int
    layers: int
    blobs: tuple[Blob, ...]

    @property
    def digest(self) -> Sha256:
        """What registries call it."""
        return Sha256.of(self.manifest)

    @property
    def size(self) -> int:
        """The bytes of its blobs."""
        return sum(blob.size for blob in self.blobs)


def model_image(
    store: Store,
    digest: Digest,
    base: StoredImage | None = None,
    check_interrupted: Callable[[], None] = lambda: None,
) -> ModelImage:
    """Return the image that has the files of an object below `/models`; every file is read once for that.

    Args:
        store: Has the object.
        digest: What is exported: of a closure the model, of any other object all that it shows.
        base: The image below; its layers come first, and it is run as that one is.
        check_interrupted: Raises when the user asked to stop.

    Raises:
        InvalidInputError: There are no files, a name means something else in layers, or the image below has too many
            layers.
        IntegrityError: A file of the store is not there, or is too short.
    """
    files = model_files(store, digest)
    below = () if base is None else base.image.content.layers
    groups = _groups(files, MOST_LAYERS - len(below))
    made = [_layer(store, group, check_interrupted) for group in groups]
    layers = [layer for layer, _ in made]
    platform = machine_platform() if base is None else base.image.config.platform
    config = canonical_json.encode(_config(platform, base, layers))
    manifest = canonical_json.encode(_manifest(config, base, layers))
    # The configuration of the image below is not that of this one.
    lower = () if base is None else blobs_of_image(base)[1:]
    blobs = {each.digest: each for each in (*lower, blob_of_bytes(config), *(b for _, b in made))}
    return ModelImage(
        manifest,
        Sha256.of(config),
        platform,
        len(files),
        len(below) + len(made),
        tuple(sorted(blobs.values(), key=lambda blob: (-blob.size, blob.digest))),
    )


def model_files(store: Store, digest: Digest) -> Mapping[str, ResolvedFile]:
    """Return what an image of an object has below `/models`, by path there.

    Of a closure that is its model, without the image and the environment that an engine runs in.

    Raises:
        InvalidInputError: There is nothing, or a path means something else in layers of images.
    """
    files = {file.path: file for file in store.files(digest)}
    if CLOSURE_DOCUMENT in files:
        top = f"{MODEL_DIRECTORY}/"
        model = {path: file for path, file in files.items() if path.startswith(top)}
        files = {path.removeprefix(top): file for path, file in (model or files).items()}
    if not files:
        raise InvalidInputError(f"the object {digest} has no files to make an image of")
    for path in files:
        if any(part.startswith(_WHITEOUT) for part in path.split("/")):
            raise InvalidInputError(
                f"no image can be made of the object {digest}",
                cause=f"in a layer, {path[:200]!r} would say that another file is deleted",
            )
    return files


def _groups(
    files: Mapping[str, ResolvedFile], room: int
) -> Iterator[Sequence[tuple[str, ResolvedFile]]]:
    """Yield the files of each layer: the largest are alone in theirs, and what has no room shares the lowest one."""
    if room < 1:
        raise InvalidInputError(
            "the image below has too many layers",
            cause=f"an image has at most {MOST_LAYERS} here, and Docker takes few more",
            hint="name another one with --base",
        )
    ordered = sorted(files.items(), key=lambda item: (-item[1].size, item[0].encode()))
    alone = ordered if len(ordered) <= room else ordered[: room - 1]
    if shared := sorted(ordered[len(alone) :], key=_name):
        yield shared
    yield from ([each] for each in sorted(alone, key=_name))


def _name(item: tuple[str, ResolvedFile]) -> bytes:
    return item[0].encode()


def _layer(
    store: Store,
    group: Sequence[tuple[str, ResolvedFile]],
    check_interrupted: Callable[[], None],
) -> tuple[Descriptor, Blob]:
    """Return a layer of some files, with the directories that they lie in, not compressed."""
    segments = Segments(_segments(group))
    named = [[path, str(file.blake3), file.executable] for path, file in group]
    key = Digest.of(_PLAN + canonical_json.encode(named))
    owners = list(dict.fromkeys(file.owner for _, file in group))
    digest = segments.sha256(store, key, owners, check_interrupted)
    return Descriptor(OCI_LAYER, digest, segments.size), segments.blob(digest)


def _segments(group: Sequence[tuple[str, ResolvedFile]]) -> Iterator[Segment]:
    # Docker makes a directory that is in no layer so that nobody but root may enter it.
    parents = {
        f"{MODELS}/{parent}" if str(parent) != "." else MODELS
        for path, _ in group
        for parent in PurePosixPath(path).parents
    }
    members = {f"{MODELS}/{path}": file for path, file in group}
    for name in sorted({*parents, *members}, key=str.encode):
        file = members.get(name)
        if file is None:
            yield Segment.of_bytes(directory_header(name))
            continue
        mode = PROGRAM_MODE if file.executable else FILE_MODE
        yield Segment.of_bytes(tar_header(name, file.size, mode=mode))
        yield Segment(file.size, path=file.real)
        yield Segment.of_bytes(padding(file.size))
    yield Segment.of_bytes(TAR_END)


def _config(
    platform: Platform, base: StoredImage | None, layers: Sequence[Descriptor]
) -> dict[str, Any]:
    history = [{"created": _CREATED, "created_by": "dis", "comment": MODELS} for _ in layers]
    diff_ids = [str(layer.digest) for layer in layers]
    if base is not None:
        found = _base_config(base)
        return {
            **{name: found[name] for name in _KEPT if name in found},
            "created": _CREATED,
            "rootfs": {
                "type": "layers",
                "diff_ids": [*map(str, base.image.config.diff_ids), *diff_ids],
            },
            "history": [*_base_history(found, len(base.image.content.layers)), *history],
        }
    variant = {} if platform.variant is None else {"variant": platform.variant}
    return {
        "architecture": platform.architecture,
        "os": platform.os,
        **variant,
        "created": _CREATED,
        "config": {},
        "rootfs": {"type": "layers", "diff_ids": diff_ids},
        "history": history,
    }


def _base_config(base: StoredImage) -> dict[str, Any]:
    descriptor = base.image.content.config
    data = base.blobs[descriptor.digest].read_bytes()
    if Sha256.of(data) != descriptor.digest:
        raise IntegrityError(
            f"the configuration of the image {base.object} is damaged",
            hint="dis store verify --repair",
        )
    return read_document(data, f"the configuration of the image {base.object}", MAX_CONFIG_BYTES)


def _base_history(document: Mapping[str, Any], layers: int) -> list[Any]:
    """Return what an image says of its layers; where that is not one entry for each, so many that say nothing."""
    history = document.get("history")
    if (
        isinstance(history, list)
        and all(isinstance(each, dict) for each in history)
        and sum(not each.get("empty_layer") for each in history) == layers
    ):
        return history
    return [{"created": _CREATED} for _ in range(layers)]


def _manifest(
    config: bytes, base: StoredImage | None, layers: Sequence[Descriptor]
) -> dict[str, Any]:
    below = () if base is None else base.image.content.layers
    # Docker's types of layers mean the same, and do not belong into a manifest of OCI.
    own = [
        Descriptor(_OCI_LAYERS[LAYERS[each.media_type]], each.digest, each.size) for each in below
    ]
    document: dict[str, Any] = {
        "schemaVersion": 2,
        "mediaType": OCI_MANIFEST,
        "config": Descriptor(OCI_CONFIG, Sha256.of(config), len(config)).to_json(),
        "layers": [each.to_json() for each in (*own, *layers)],
    }
    if base is not None:
        document["annotations"] = {_BASE_DIGEST: str(base.image.manifest.digest)}
    return document
