"""What has become of servers: looked at, and never taken from their records."""

from collections.abc import Callable
from typing import TYPE_CHECKING, Literal

from dis_derivations.serving.health import is_healthy
from dis_derivations.serving.processes import is_running, listens, session_of
from dis_derivations.serving.records import ContainerIdentity, ServerRecord, ServerRecords
from dis_derivations.transport.address import parse_address
from dis_store.errors import DisError, UnfitEnvironmentError

if TYPE_CHECKING:
    from dis_derivations.images.docker_engine import DockerEngine

State = Literal["starting", "ready", "gone", "unknown"]
"""It runs and does not answer yet; it answers; nothing of it runs; its Docker cannot be asked."""


def state_of(
    records: ServerRecords, record: ServerRecord, healthy: Callable[[str], bool] = is_healthy
) -> State:
    """Return what has become of a server."""
    try:
        if not runs(record):
            return "gone"
    except DisError:
        return "unknown"
    return "ready" if answers(records, record, healthy) else "starting"


def answers(
    records: ServerRecords, record: ServerRecord, healthy: Callable[[str], bool] = is_healthy
) -> bool:
    """Tell whether this very server answers, and no other program that took its port while it was loading."""
    if not healthy(record.url):
        return False
    if record.process is None:
        # Docker took the port for the container before anything in it ran.
        return record.container is not None
    members = session_of(record.process, records.home(record.name))
    return listens(members, parse_address(record.url).port)


def runs(record: ServerRecord) -> bool:
    """Tell whether the process or the container of a server is there and runs.

    Raises:
        UnfitEnvironmentError: Its Docker does not answer, or another one does.
        BuildError: Docker refuses.
    """
    if record.container is None:
        return record.process is not None and is_running(record.process)
    with its_engine(record.container) as engine:
        return container_runs(engine, record.container.name)


def its_engine(container: ContainerIdentity) -> "DockerEngine":
    """Return the Docker that has a container.

    Raises:
        UnfitEnvironmentError: None answers, or another one.
    """
    from dis_derivations.images.docker_engine import DockerEngine

    engine = DockerEngine.connect()
    try:
        if engine.id == container.engine:
            return engine
    except BaseException:
        engine.client.close()
        raise
    engine.client.close()
    raise UnfitEnvironmentError(
        f"the Docker that answers is not the one that has the container {container.name}",
        hint="let DOCKER_HOST or DOCKER_CONTEXT name that one",
    )


def container_runs(engine: "DockerEngine", name: str) -> bool:
    """Tell whether a container runs.

    Raises:
        BuildError: Docker refuses.
    """
    from docker.errors import NotFound

    from dis_derivations.images.docker_engine import answering

    with answering(f"the container {name} could not be looked at"):
        try:
            return bool(engine.client.inspect_container(name)["State"].get("Running"))
        except NotFound:
            return False
