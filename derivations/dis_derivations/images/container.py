"""A container of a pinned image: alone, with nothing but what it is given, and gone afterwards."""

import contextlib
import threading
import time
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from dis_derivations.images.attachment import Attachment
from dis_derivations.images.docker_engine import DockerEngine, answering
from dis_derivations.images.docker_loading import load_image
from dis_derivations.images.leftover_containers import labels, remove_leftovers
from dis_derivations.images.stored_image import StoredImage
from dis_derivations.transport.local_server import LOOPBACK
from dis_store.digest import Digest, Sha256
from dis_store.errors import BuildError, IntegrityError

if TYPE_CHECKING:
    from dis_store import Store

OBJECTS = "/dis/objects"
SERVER_LABEL = "dev.dis.server"
SCRATCH = "/tmp"  # noqa: S108 - the container's own
# `nobody`, by number: an image need not know the name.
USER = "65534:65534"
_LOOK_SECONDS = 0.2
_CLOSING_SECONDS = 10.0
_MIB = 1 << 20
_CONFLICT = 409
_VOLUME = "rw,noexec,nosuid,nodev,size=64m"


@dataclass(frozen=True)
class ContainerLimits:
    """What a container may use.

    Attributes:
        memory_bytes: Of memory; there is no swap beside it. None: what the machine has.
        processes: Processes and threads at once.
        output_bytes: Of each of stdout and stderr, where they are kept.
        scratch_bytes: In `/tmp`, which is memory.
        shared_bytes: In `/dev/shm`, which is memory as well.
    """

    memory_bytes: int | None = 4096 * _MIB
    processes: int = 512
    output_bytes: int = 64 * _MIB
    scratch_bytes: int = 256 * _MIB
    shared_bytes: int = 64 * _MIB


@dataclass(frozen=True)
class Published:
    """Where this machine, and no other, reaches what listens in a container.

    Attributes:
        port: Of the loopback of this machine.
        inside: Where it listens.
    """

    port: int
    inside: int


@dataclass(frozen=True)
class ContainerCommand:
    """What is run.

    Attributes:
        arguments: The program and its arguments; the image's own entry point is not asked.
        objects: Mounted read-only, each with all that it refers to.
        environment: Variables beside those of the image; None takes one of the image away.
        limits: What it may use.
        is_spoken_with: Whether somebody writes to its input. It ends by itself, and is gone then, when nobody does.
        has_accelerators: Whether it gets the accelerators of the machine.
        left_out: Objects that are not mounted although one of `objects` refers to them.
        published: Where this machine reaches what listens in it; None for a container without network.
    """

    arguments: Sequence[str]
    objects: Collection[Digest] = ()
    environment: Mapping[str, str | None] = field(default_factory=dict)
    limits: ContainerLimits = field(default_factory=ContainerLimits)
    is_spoken_with: bool = False
    has_accelerators: bool = False
    left_out: Collection[Digest] = ()
    published: Published | None = None


@dataclass(frozen=True)
class ContainerResult:
    """What a command left.

    Attributes:
        exit_code: As the engine tells it; 137 where it was killed.
        stdout: Its output.
        stderr: What it said beside that.
        out_of_memory: Whether it was killed because it used more memory than it may.
    """

    exit_code: int
    stdout: bytes
    stderr: bytes
    out_of_memory: bool


def object_place(digest: Digest) -> str:
    """Return where an object is in a container: as in a store, so that references lead where they should."""
    return f"{OBJECTS}/{digest[:2]}/{digest}"


def run_in_image(
    store: "Store",
    engine: DockerEngine,
    image: StoredImage,
    command: ContainerCommand,
    check_interrupted: Callable[[], None] = lambda: None,
) -> ContainerResult:
    """Run a command in an image and return what it left; nothing of the container is left.

    It has no network and no capabilities, gains no privileges, is nobody, and can write to `/tmp` alone.

    Args:
        store: Has the image and the objects.
        engine: Runs it. It must see the store under the same path.
        image: In which. It is loaded if it must be.
        command: What is run.
        check_interrupted: Asked several times a second; raises to stop, and the container is killed.

    Raises:
        IntegrityError: The engine has another image than the one that is pinned. Nothing was run.
        BuildError: The engine does not run it, or it said more than it may.
        InterruptedBuildError: What `check_interrupted` raises.
    """
    with made_container(store, engine, image, command, check_interrupted) as name:
        return _run(engine, name, command.limits, check_interrupted)


@contextmanager
def made_container(
    store: "Store",
    engine: DockerEngine,
    image: StoredImage,
    command: ContainerCommand,
    check_interrupted: Callable[[], None] = lambda: None,
) -> Iterator[str]:
    """Make a container of an image, which is loaded if it must be; it is not started, and is gone after the block.

    Containers that killed processes of dis left are removed before.

    Args:
        store: Has the image and the objects.
        engine: Makes it. It must see the store under the same path.
        image: Of which.
        command: What it will run.
        check_interrupted: Asked while the image is sent; raises to stop.

    Raises:
        IntegrityError: The engine has another image than the one that is pinned.
        BuildError: The engine does not make it.
    """
    remove_leftovers(engine)
    identity = load_image(store, engine, image, lambda _: check_interrupted())
    with answering("the container could not be made"):
        container = engine.client.create_container(
            **_settings(store, engine, identity, command, image.image.config.volumes)
        )
    name = str(container["Id"])
    try:
        _check_image(engine, name, image)
        yield name
    finally:
        remove_container(engine, name)


def make_server(
    store: "Store",
    engine: DockerEngine,
    image: StoredImage,
    command: ContainerCommand,
    name: str,
) -> None:
    """Make a container that outlives this process; it is not started, and whoever knows its name removes it.

    Args:
        store: Has the image and the objects.
        engine: Makes it. It must see the store under the same path.
        image: Of which.
        command: What it will run.
        name: What Docker is to call it.

    Raises:
        IntegrityError: The engine has another image than the one that is pinned. The container is gone.
        BuildError: The engine does not make it.
    """
    identity = load_image(store, engine, image)
    settings = _settings(store, engine, identity, command, image.image.config.volumes)
    with answering("the container could not be made"):
        engine.client.create_container(**settings, name=name)
    try:
        _check_image(engine, name, image)
    except BaseException:
        remove_container(engine, name)
        raise


def _settings(
    store: "Store",
    engine: DockerEngine,
    identity: Sha256,
    command: ContainerCommand,
    volumes: Sequence[str],
) -> dict[str, Any]:
    from docker.types import DeviceRequest

    limits = command.limits
    memory = limits.memory_bytes or int(engine.client.info()["MemTotal"])
    accelerators = [DeviceRequest(count=-1, capabilities=[["gpu"]])]
    host = engine.client.create_host_config(
        **_network(command.published),
        cap_drop=["ALL"],
        security_opt=["no-new-privileges"],
        read_only=True,
        mounts=_mounts(store, command),
        pids_limit=limits.processes,
        mem_limit=memory,
        memswap_limit=memory,
        shm_size=limits.shared_bytes,
        tmpfs={
            # For each of these Docker would make a directory on its disk, writable and without a bound.
            **dict.fromkeys(volumes, _VOLUME),
            # Engines compile code there, and load it.
            SCRATCH: f"rw,exec,nosuid,nodev,size={limits.scratch_bytes}",
        },
        log_config=_log(command.published),
        ipc_mode="private",
        auto_remove=command.is_spoken_with,
        device_requests=accelerators if command.has_accelerators else None,
    )
    first, *rest = command.arguments
    return {
        "image": identity,
        "entrypoint": [first],
        "command": rest,
        "environment": dict(command.environment),
        "user": USER,
        "working_dir": SCRATCH,
        "network_disabled": command.published is None,
        "ports": None if command.published is None else [command.published.inside],
        # The image's own would be a second program beside the one that is asked for.
        "healthcheck": {"test": ["NONE"]},
        "stdin_open": command.is_spoken_with,
        # What outlives this process is not left by it.
        "labels": labels() if command.published is None else {SERVER_LABEL: "1"},
        "host_config": host,
    }


def _network(published: Published | None) -> dict[str, Any]:
    """Return the network of a container: none, or one in which it is reached from the loopback of this machine."""
    if published is None:
        return {"network_mode": "none"}
    bindings = {published.inside: (LOOPBACK, published.port)}
    return {"network_mode": "bridge", "port_bindings": bindings}


def _log(published: Published | None) -> Any:
    from docker.types import LogConfig

    if published is None:
        # What it says is read while it runs, and is on no disk.
        return LogConfig(type=LogConfig.types.NONE)
    return LogConfig(type=LogConfig.types.JSON, config={"max-size": "16m", "max-file": "2"})


def _mounts(store: "Store", command: ContainerCommand) -> list[Any]:
    from docker.types import Mount

    members = store.closure(list(command.objects)) if command.objects else []
    left_out = frozenset(command.left_out)
    return [
        Mount(object_place(each), str(store.object_path(each)), type="bind", read_only=True)
        for each in members
        if each not in left_out
    ]


def _check_image(engine: DockerEngine, name: str, image: StoredImage) -> None:
    with answering("the container could not be looked at"):
        found = engine.client.inspect_container(name).get("Image")
    if found not in (image.id, image.image.manifest.digest):
        raise IntegrityError(
            "Docker made a container of another image than the one that is pinned",
            cause=f"{image.id} is pinned, the container is of {found}",
        )


class _Output:
    """What a container says, read on a thread of its own up to a bound."""

    def __init__(self, connection: Attachment, limit: int) -> None:
        self.stdout, self.stderr = bytearray(), bytearray()
        self.is_too_long = False
        self.failure: Exception | None = None
        self._connection = connection
        self._limit = limit
        self._thread = threading.Thread(target=self._read, daemon=True)
        self._thread.start()

    def is_over(self, seconds: float) -> bool:
        """Wait for so long at most, and tell whether the container says no more."""
        self._thread.join(seconds)
        return not self._thread.is_alive()

    def close(self) -> None:
        """Close the connection, which has ended by now: the container is gone, or was killed."""
        self._thread.join(_CLOSING_SECONDS)
        self._connection.close()

    def _read(self) -> None:
        try:
            for is_output, piece in self._connection.pieces():
                kept = self.stdout if is_output else self.stderr
                if len(kept) + len(piece) > self._limit:
                    self.is_too_long = True
                # It is read to its end all the same: an engine whose words nobody takes cannot even end a container.
                if not self.is_too_long:
                    kept += piece
        except Exception as error:  # noqa: BLE001 - whatever the library raises here is told by whoever waits
            self.failure = error


def _run(
    engine: DockerEngine,
    name: str,
    limits: ContainerLimits,
    check_interrupted: Callable[[], None],
) -> ContainerResult:
    with answering("the container could not be run"):
        output = _Output(Attachment(engine, name), limits.output_bytes)
        try:
            engine.client.start(name)
            state = _ended(engine, name, output, check_interrupted)
        finally:
            kill_container(engine, name)
            output.close()
    if output.is_too_long:
        raise BuildError(
            "the command in the container said too much",
            cause=f"more than {limits.output_bytes} bytes came",
        )
    if output.failure is not None:
        raise BuildError(
            "what the command in the container said could not be read",
            cause=str(output.failure)[:300],
        ) from output.failure
    return ContainerResult(
        int(state["ExitCode"]),
        bytes(output.stdout),
        bytes(output.stderr),
        bool(state.get("OOMKilled")),
    )


def _ended(
    engine: DockerEngine, name: str, output: _Output, check_interrupted: Callable[[], None]
) -> Mapping[str, Any]:
    """Return the state of a container that has ended; a command may end its output long before itself."""
    while not output.is_over(_LOOK_SECONDS) and not output.is_too_long:
        check_interrupted()
    while True:
        state: Mapping[str, Any] = engine.client.inspect_container(name)["State"]
        if not state.get("Running") or output.is_too_long or output.failure is not None:
            return state
        check_interrupted()
        time.sleep(_LOOK_SECONDS)


def kill_container(engine: DockerEngine, name: str) -> None:
    """Kill what runs in a container, if anything does."""
    from docker.errors import APIError

    # It has ended already, or nobody answers any more.
    with contextlib.suppress(APIError, OSError):
        engine.client.kill(name)


def remove_container(engine: DockerEngine, name: str) -> None:
    """Remove a container, whatever runs in it; one that is not there, or is being removed, is none to remove.

    Raises:
        BuildError: The engine refuses.
    """
    from docker.errors import APIError, NotFound

    with answering("the container could not be removed"):
        try:
            engine.client.remove_container(name, v=True, force=True)
        except NotFound:
            return
        except APIError as error:
            if error.status_code != _CONFLICT:
                raise
