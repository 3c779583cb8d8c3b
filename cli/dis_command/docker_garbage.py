"""What a collection of the store leaves behind in Docker."""

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from dis_derivations.images.loaded_images import LoadedImage
    from dis_store import CollectionReport, Store


@dataclass(frozen=True)
class DockerGarbage:
    """Images in Docker whose objects are gone, and containers whose processes of dis are gone.

    Attributes:
        left: Images that are there still, each with the reason where one is known.
        removed: Images that are gone from Docker as well.
        containers: Those that were left, and are removed.
    """

    left: "Sequence[tuple[LoadedImage, str]]"
    removed: "Sequence[LoadedImage]"
    containers: "Sequence[str]" = ()

    @property
    def lines(self) -> list[str]:
        """What is to be said of them."""
        lines = [
            f"container {each[:12]} of a dis that was killed removed" for each in self.containers
        ]
        lines += [f"image {each.image} removed from Docker" for each in self.removed]
        for each, reason in self.left:
            why = reason or "dis gc --docker removes it"
            lines.append(f"image {each.image} is in Docker still: {why}")
        return lines

    def to_json(self) -> list[dict[str, Any]]:
        """Return them for `--json`."""
        return [
            *({**each.to_json(), "removed": True, "reason": None} for each in self.removed),
            *(
                {**each.to_json(), "removed": False, "reason": reason or None}
                for each, reason in self.left
            ),
        ]


def collect_from_docker(
    store: "Store", report: "CollectionReport", environment: "Mapping[str, str]", *, remove: bool
) -> DockerGarbage:
    """Return which images are left in Docker after a collection, or would be after one; with `remove` they go.

    With them go containers that killed processes of dis left. Docker is asked only with `remove`, and must answer only
    where there is an image to be removed.

    Args:
        store: The store.
        report: What the collection did.
        environment: Names the engine.
        remove: Whether they go.

    Raises:
        UnfitEnvironmentError: No engine answers, and something is to be removed.
    """
    # Most stores never loaded an image, and pay one look at a directory for it.
    if not (store.path / "docker").is_dir():
        return DockerGarbage((), ())
    from dis_derivations.images.loaded_images import images_without_object, remove_from_docker

    going = [each.digest for each in report.objects] if report.dry_run else []
    left = images_without_object(store, going)
    if not remove:
        return DockerGarbage([(each, "") for each in left], ())
    from dis_derivations.images.docker_engine import DockerEngine
    from dis_derivations.images.leftover_containers import remove_leftovers
    from dis_store.errors import UnfitEnvironmentError

    try:
        with DockerEngine.connect(environment) as engine:
            # First, for Docker keeps an image that a container is of.
            containers = remove_leftovers(engine)
            done = remove_from_docker(store, engine, left)
    except UnfitEnvironmentError:
        if left:
            raise
        return DockerGarbage((), ())
    return DockerGarbage(done.kept, done.removed, containers)
