"""Which images of a store were loaded into Docker: a small record each, in the directory `docker` of the store.

The records say what a collection leaves behind in Docker. Nothing is decided by them but what is reported and removed,
and one that is lost or damaged costs no more than an image that Docker keeps.
"""

import os
from collections.abc import Collection, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from dis_store import canonical_json, strict_json
from dis_store.digest import Digest, Sha256
from dis_store.errors import BuildError, InvalidInputError

if TYPE_CHECKING:
    from dis_derivations.images.docker_engine import DockerEngine
    from dis_store import Store

DIRECTORY = "docker"
_TYPE, _FORMAT = "loaded-image", 1
_MAX_RECORD_BYTES = 4096


@dataclass(frozen=True)
class LoadedImage:
    """An image that was loaded.

    Attributes:
        engine: What the engine calls itself.
        image: What it calls the image.
        object: What it was loaded from.
    """

    engine: str
    image: Sha256
    object: Digest

    def to_json(self) -> dict[str, Any]:
        """Return the record."""
        return {
            "type": _TYPE,
            "format": _FORMAT,
            "engine": self.engine,
            "image": str(self.image),
            "object": str(self.object),
        }

    @property
    def file_name(self) -> str:
        """What its record is called: made of a digest, and so of nothing that an engine says."""
        return f"{canonical_json.digest(self.to_json())}.json"


@dataclass(frozen=True)
class RemovedImages:
    """What became of images that were to be removed from Docker.

    Attributes:
        removed: They are not there any more.
        kept: Those that could not be removed, each with the reason.
    """

    removed: tuple[LoadedImage, ...]
    kept: tuple[tuple[LoadedImage, str], ...]


def note_loaded(store: "Store", loaded: LoadedImage) -> None:
    """Note that an image was loaded; nothing is written where that is noted already.

    Raises:
        OSError: It cannot be written.
    """
    from dis_store.durability import write_durably
    from dis_store.environment import reported

    directory = store.path / DIRECTORY
    target = directory / loaded.file_name
    if target.exists():
        return
    with reported(store.path):
        directory.mkdir(exist_ok=True)
        temporary = directory / f".{os.urandom(8).hex()}"
        write_durably(temporary, target, canonical_json.encode(loaded.to_json()))


def loaded_images(store: "Store") -> list[LoadedImage]:
    """Return what was loaded, sorted; records that cannot be read are left out."""
    return sorted(
        _records(store.path / DIRECTORY),
        key=lambda each: (each.image, each.object, each.engine),
    )


def images_without_object(store: "Store", going: Collection[str] = ()) -> tuple[LoadedImage, ...]:
    """Return the images in Docker whose objects are gone, or are among those that are going."""
    gone = set(going)
    return tuple(
        each
        for each in loaded_images(store)
        if str(each.object) in gone or not store.is_valid(each.object)
    )


def remove_from_docker(
    store: "Store", engine: "DockerEngine", images: Collection[LoadedImage]
) -> RemovedImages:
    """Remove images from an engine, and forget that they were loaded.

    An image that another object of the store was loaded as is kept, and what was loaded into another engine.

    Raises:
        UnfitEnvironmentError: The engine does not answer any more.
    """
    name = engine.id
    going = {each.object for each in images}
    needed = {
        each.image
        for each in loaded_images(store)
        if each.object not in going and store.is_valid(each.object)
    }
    removed: list[LoadedImage] = []
    kept: list[tuple[LoadedImage, str]] = []
    for each in images:
        if each.engine != name:
            kept.append((each, "it was loaded into another Docker engine"))
            continue
        try:
            if each.image not in needed:
                engine.remove_image(each.image)
        except BuildError as error:
            kept.append((each, error.cause or error.what))
            continue
        (store.path / DIRECTORY / each.file_name).unlink(missing_ok=True)
        removed.append(each)
    return RemovedImages(tuple(removed), tuple(kept))


def _records(directory: Path) -> Iterator[LoadedImage]:
    try:
        paths = sorted(directory.iterdir())
    except OSError:
        return
    for path in paths:
        if path.suffix == ".json" and (loaded := _record(path)) is not None:
            yield loaded


def _record(path: Path) -> LoadedImage | None:
    try:
        descriptor = os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK)
        with os.fdopen(descriptor, "rb") as file:
            document = strict_json.decode(file.read(_MAX_RECORD_BYTES), name=str(path))
        loaded = LoadedImage(
            str(document["engine"]), Sha256(document["image"]), Digest(document["object"])
        )
    except (OSError, InvalidInputError, KeyError, TypeError):
        return None
    return loaded if path.name == loaded.file_name else None
