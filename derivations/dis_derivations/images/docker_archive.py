"""The tar stream by which Docker loads an image: made of the layout on the way, nothing is copied on the disk.

It is a layout and what `docker save` writes at once, so that engines of any age read it. Each of its bytes follows
from the image.
"""

import hashlib
import os
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import BinaryIO

from dis_derivations.images.descriptor import Descriptor
from dis_derivations.images.image_layout import (
    INDEX_FILE,
    LAYOUT_BYTES,
    LAYOUT_FILE,
    blob_path,
    index_bytes,
)
from dis_derivations.images.media_types import LAYERS
from dis_derivations.images.stored_image import StoredImage
from dis_derivations.images.tar_stream import TAR_END, padding, tar_header
from dis_store import canonical_json
from dis_store.digest import Sha256
from dis_store.errors import IntegrityError, UnsupportedError

_PIECE = 1 << 20
# What one layer may become: nobody's image has more, and a bomb would fill any disk.
_MAX_UNPACKED_BYTES = 1 << 38
_MAX_WINDOW_BYTES = 1 << 27


def docker_archive(
    stored: StoredImage,
    on_bytes: Callable[[int], None] = lambda _: None,
    *,
    reads_zstd: bool = True,
) -> Iterator[bytes]:
    """Yield the archive of an image, each blob compared with its digest while it goes by.

    Args:
        stored: The image.
        on_bytes: Told of each piece; raises to stop.
        reads_zstd: Whether the engine reads layers that are compressed with Zstandard; else they are unpacked on the
            way, which changes nothing of the image.

    Raises:
        IntegrityError: A blob in the store is not what it must be. The archive is cut short then; no engine takes it.
    """
    image = stored.image
    unpacked = {
        layer.digest: f"layers/{layer.digest.hex}.tar"
        for layer in image.content.layers
        if not reads_zstd and LAYERS[layer.media_type] == "zstd"
    }
    layers = [unpacked.get(each.digest, blob_path(each.digest)) for each in image.content.layers]
    config = blob_path(image.content.config.digest)
    documents = {
        "manifest.json": canonical_json.encode(
            [{"Config": config, "RepoTags": None, "Layers": layers}]
        ),
    }
    if not unpacked:
        documents |= {
            LAYOUT_FILE: LAYOUT_BYTES,
            INDEX_FILE: index_bytes(image.manifest),
            blob_path(image.manifest.digest): image.manifest_bytes,
        }
    for name, data in documents.items():
        yield tar_header(name, len(data)) + data + padding(len(data))
    for blob in image.content.blobs:
        path = stored.blobs[blob.digest]
        if blob.digest in unpacked:
            yield from _unpacked_member(unpacked[blob.digest], path, blob, on_bytes)
        else:
            yield tar_header(blob_path(blob.digest), blob.size)
            for piece in _verified(path, blob):
                on_bytes(len(piece))
                yield piece
            yield padding(blob.size)
    yield TAR_END


def _unpacked_member(
    name: str, path: Path, blob: Descriptor, on_bytes: Callable[[int], None]
) -> Iterator[bytes]:
    # The size stands before the content, so a layer is unpacked twice.
    for _ in _verified(path, blob):
        pass
    size = sum(map(len, _unpacked(path, blob)))
    yield tar_header(name, size)
    for piece in _unpacked(path, blob):
        on_bytes(len(piece))
        yield piece
    yield padding(size)


def _unpacked(path: Path, blob: Descriptor) -> Iterator[bytes]:
    import zstandard

    came = 0
    decompressor = zstandard.ZstdDecompressor(max_window_size=_MAX_WINDOW_BYTES)
    try:
        with (
            _opened(path) as file,
            decompressor.stream_reader(file, read_across_frames=True) as stream,
        ):
            while piece := stream.read(_PIECE):
                came += len(piece)
                if came > _MAX_UNPACKED_BYTES:
                    raise UnsupportedError(
                        f"the layer {blob.digest} is too large",
                        cause=f"it becomes more than {_MAX_UNPACKED_BYTES} bytes",
                    )
                yield piece
    except zstandard.ZstdError as error:
        raise IntegrityError(
            f"the layer {blob.digest} is not what its image says",
            cause=f"it is not compressed with Zstandard ({error})",
        ) from error


def _verified(path: Path, blob: Descriptor) -> Iterator[bytes]:
    hasher, came = hashlib.sha256(), 0

    def found() -> Sha256:
        return Sha256(f"sha256:{hasher.hexdigest()}")

    with _opened(path) as file:
        while piece := file.read(min(_PIECE, blob.size - came + 1)):
            came += len(piece)
            hasher.update(piece)
            # The last piece goes out after it was compared: an engine never has the whole of what is wrong.
            if came > blob.size or (came == blob.size and found() != blob.digest):
                break
            yield piece
    if came != blob.size or found() != blob.digest:
        raise IntegrityError(
            f"the file {path} of an image is damaged",
            cause=f"it is not {blob.digest} in {blob.size} bytes",
            hint="dis store verify --repair",
        )


def _opened(path: Path) -> BinaryIO:
    return os.fdopen(os.open(path, os.O_RDONLY | os.O_NOFOLLOW), "rb")
