"""A server in a container of the pinned image: read-only, without capabilities, reached from this machine alone."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import PurePosixPath
from typing import TYPE_CHECKING, Any

from dis_derivations.engines.child.container_launching import (
    LIMITS,
    image_start,
    register_start,
    scratch_home,
)
from dis_derivations.images.container import ContainerCommand, Published, make_server, object_place
from dis_derivations.images.docker_engine import DockerEngine, answering

if TYPE_CHECKING:
    from dis_derivations.engines.child.launching import ContainerSource
    from dis_store.digest import Digest

EVERYWHERE = "0.0.0.0"  # noqa: S104 - within the container, of which one port is published on the loopback


@dataclass(frozen=True)
class ContainerServer:
    """What is started.

    Attributes:
        source: What the container is made of.
        startup: The object by which the Python of the image imports from an environment of the store.
        command: The server and all that it is given.
    """

    source: "ContainerSource"
    startup: "Digest"
    command: ContainerCommand


def container_server(
    source: "ContainerSource",
    started: Sequence[str],
    declared: Mapping[str, str],
    published: Published,
    platform: Mapping[str, Any],
) -> ContainerServer:
    """Return how a server is started in a container.

    Args:
        source: What the container is made of.
        started: What follows the interpreter.
        declared: The variables that the manifest leads to.
        published: Where this machine reaches it.
        platform: The class of the machine.
    """
    startup = register_start(source.store)
    python, own = image_start(source, PurePosixPath(object_place(startup)))
    command = ContainerCommand(
        arguments=[*python, *started],
        objects=(source.closure, startup),
        left_out=source.store.closure([source.image.object]),
        environment={**own, **scratch_home(), **declared},
        limits=LIMITS,
        has_accelerators=platform.get("class") == "cuda",
        published=published,
    )
    return ContainerServer(source, startup, command)


def start_container(engine: DockerEngine, server: ContainerServer, name: str) -> None:
    """Make a container and start it; what Docker has is compared with the pinned image before.

    Raises:
        IntegrityError: Docker has another image. Nothing was run.
        BuildError: Docker refuses.
    """
    make_server(server.source.store, engine, server.source.image, server.command, name)
    with answering("the container of the server could not be started"):
        engine.client.start(name)
