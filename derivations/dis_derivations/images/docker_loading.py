"""Bringing an image from the store into Docker, and being sure that it is the one."""

from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING

from dis_derivations.images.docker_archive import docker_archive
from dis_derivations.images.docker_engine import DockerEngine, answering
from dis_derivations.images.loaded_images import LoadedImage, note_loaded
from dis_derivations.images.stored_image import StoredImage
from dis_store.digest import Sha256
from dis_store.errors import BuildError, DisError, IntegrityError, UnfitEnvironmentError

if TYPE_CHECKING:
    from dis_store import Store

# What overlay2, which nearly every engine has, can stack.
MAX_LAYERS = 125


def load_image(
    store: "Store",
    engine: DockerEngine,
    image: StoredImage,
    on_bytes: Callable[[int], None] = lambda _: None,
) -> Sha256:
    """Return what an engine calls an image, which it is sent if it does not have it yet.

    The store notes that the image was loaded, so that a collection can tell of it when its object is gone.

    Args:
        store: Has the image.
        engine: Gets it.
        image: Which.
        on_bytes: Told of each piece that is sent; raises to stop.

    Raises:
        IntegrityError: A blob is damaged, or the engine made another image of it than the one that is pinned.
        BuildError: The engine refuses it.
        UnfitEnvironmentError: The engine cannot have such an image, or does not answer any more.
    """
    found = engine.image_id(image)
    if found is None:
        count = len(image.image.content.layers)
        if count > MAX_LAYERS:
            raise UnfitEnvironmentError(
                f"the image {image.id} cannot be loaded into Docker",
                cause=f"it has {count} layers, and Docker takes up to {MAX_LAYERS}",
            )
        _send(engine, image, on_bytes)
        found = engine.image_id(image)
    if found is None:
        raise IntegrityError(
            "Docker made another image of what it was sent",
            cause=f"it has neither {image.id} nor {image.image.manifest.digest} now",
            hint="docker image prune removes what it made",
        )
    note_loaded(store, LoadedImage(engine.id, found, image.object))
    return found


def _send(engine: DockerEngine, image: StoredImage, on_bytes: Callable[[int], None]) -> None:
    failure: list[DisError] = []

    def archive() -> Iterator[bytes]:
        try:
            yield from docker_archive(image, on_bytes, reads_zstd=engine.reads_zstd)
        except DisError as error:
            # The connection is broken off by it, of which the library makes an error of its own.
            failure.append(error)
            raise

    what = f"Docker did not take the image {image.id}"
    try:
        with answering(what):
            for line in engine.client.load_image(archive(), quiet=True):
                if isinstance(line, dict) and "error" in line:
                    raise BuildError(what, cause=str(line["error"])[:300])
    except DisError as error:
        raise (failure[0] if failure else error) from error
