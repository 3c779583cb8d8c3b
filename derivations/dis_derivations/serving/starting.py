"""The start of a server: written down before it runs, its closure kept, and nothing of it left when it fails."""

import os
import tempfile
from collections.abc import Callable
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING

from dis_derivations.builders.closure import MODEL_DIRECTORY
from dis_derivations.serving import arguments
from dis_derivations.serving.health import VERSIONED
from dis_derivations.serving.names import check_name
from dis_derivations.serving.preparing import Prepared
from dis_derivations.serving.records import ContainerIdentity, ServerRecord, ServerRecords
from dis_derivations.serving.waiting import nothing_left
from dis_derivations.transport.local_server import LOOPBACK, free_port, is_taken
from dis_store import Root
from dis_store.errors import InvalidInputError

if TYPE_CHECKING:
    from dis_derivations.serving.container_launch import ContainerServer
    from dis_store import Store
    from dis_store.digest import Digest

CONTAINER_PORT = 8000


@dataclass(frozen=True)
class Placement:
    """Where a server is to be.

    Attributes:
        name: What it is called.
        port: On the loopback of this machine.
        inside: The port in its container.
        tells_settings: Whether vLLM's endpoints for developers are on, by which a run on it knows its settings.
    """

    name: str
    port: int
    inside: int = CONTAINER_PORT
    tells_settings: bool = False

    @property
    def url(self) -> str:
        """Where it answers."""
        return f"http://{LOOPBACK}:{self.port}{VERSIONED}"


def refuse_second(records: ServerRecords, name: str) -> None:
    """Refuse a name that a server has.

    Raises:
        InvalidInputError: It has, or the name is refused.
        IntegrityError: The record of that server is damaged.
    """
    check_name(name)
    known = records.read(name)
    if known is not None:
        raise InvalidInputError(
            f"there is a server {name} already",
            cause=f"it was started at {known.since}, as {known.url}",
            hint=f"stop it: dis serve kill {name}; or give the new one another name: --name NAME",
        )


def chosen_port(wanted: int | None, of_manifest: int | None) -> int:
    """Return the port of a server: the one that is asked for, else that of the manifest's address, else a free one.

    Raises:
        InvalidInputError: Somebody listens there.
    """
    port = wanted or of_manifest
    if port is None:
        return free_port()
    if is_taken(port):
        raise InvalidInputError(
            f"port {port} cannot be listened on",
            cause="a program of this machine listens there, or it is kept for root",
            hint="name another one: --port PORT",
        )
    return port


def start(
    store: "Store",
    records: ServerRecords,
    prepared: Prepared,
    placement: Placement,
    note: Callable[[str], None] = lambda _: None,
) -> ServerRecord:
    """Start a server and return its record; it does not answer yet.

    Args:
        store: Has the closure, which is kept from now on.
        records: Gets the record.
        prepared: What is served.
        placement: Where.
        note: Told what is done.

    Raises:
        InvalidInputError: There is a server of that name.
        UnfitEnvironmentError: No Docker answers, or the environment is not for its Python.
        IntegrityError: Docker has another image than the one that is pinned. Nothing was run.
        BuildError: It cannot be started. Nothing is left of it.
    """
    with records.held(placement.name):
        refuse_second(records, placement.name)
        if prepared.interpreter is None:
            return _in_container(store, records, prepared, placement, note)
        return _as_process(store, records, prepared, placement)


def _as_process(
    store: "Store", records: ServerRecords, prepared: Prepared, placement: Placement
) -> ServerRecord:
    from dis_derivations.serving.process_launch import Places, process_launch, start_process

    name, environment = placement.name, prepared.environment
    assert prepared.interpreter is not None  # noqa: S101 - asked by the caller
    # Sockets of vLLM lie there, whose paths have 107 bytes at most.
    scratch = Path(tempfile.mkdtemp(prefix="dis-serve-"))
    record = replace(_record(store, prepared, placement), scratch=scratch)
    with nothing_left(store, records, record):
        records.home(name).mkdir(mode=0o700, exist_ok=True)
        launch = process_launch(
            process_command(store, prepared, placement),
            prepared.interpreter,
            None if environment is None else store.object_path(environment),
            _declared(prepared, placement),
            Places(records.home(name), records.log(name), scratch),
        )
        _keep(store, records, record, prepared)
        start_process(launch, lambda process: records.write(record.with_process(process)))
    written = records.read(name)
    assert written is not None  # noqa: S101 - held, and written a moment ago
    return written


def _in_container(
    store: "Store",
    records: ServerRecords,
    prepared: Prepared,
    placement: Placement,
    note: Callable[[str], None],
) -> ServerRecord:
    from dis_derivations.images.docker_engine import DockerEngine
    from dis_derivations.serving.container_launch import start_container

    with DockerEngine.connect() as engine:
        server = _container(store, prepared, placement)
        record = _record(store, prepared, placement, engine.id)
        assert record.container is not None  # noqa: S101 - made so
        with nothing_left(store, records, record):
            _keep(store, records, record, prepared, server.startup)
            note("making a container; Docker is sent the image if it does not have it")
            start_container(engine, server, record.container.name)
    return record


def process_command(store: "Store", prepared: Prepared, placement: Placement) -> list[str]:
    """Return what follows the interpreter of a server that is a process of this machine."""
    model = str(store.object_path(prepared.closure) / MODEL_DIRECTORY)
    return arguments.placed(prepared.options, model, LOOPBACK, placement.port)


def _container(store: "Store", prepared: Prepared, placement: Placement) -> "ContainerServer":
    from dis_derivations.builders.engine_opening import container_source
    from dis_derivations.engines.child.container_launching import model_place
    from dis_derivations.images.container import Published
    from dis_derivations.serving.container_launch import EVERYWHERE, container_server

    source = container_source(store, prepared.closure, prepared.environment, prepared.identity)
    started = arguments.placed(prepared.options, model_place(source), EVERYWHERE, placement.inside)
    published = Published(placement.port, placement.inside)
    return container_server(
        source, started, _declared(prepared, placement), published, prepared.platform
    )


def _declared(prepared: Prepared, placement: Placement) -> dict[str, str]:
    """Return the variables of a server: those of an engine's worker, and what only servers are told."""
    threads = prepared.platform.get("facts", {}).get("cpu", {}).get("threads")
    counted = {} if threads is None else {"OMP_NUM_THREADS": str(threads)}
    telling = arguments.TELLING if placement.tells_settings else {}
    return {**counted, **prepared.spec.get("variables", {}), **telling}


def _record(
    store: "Store", prepared: Prepared, placement: Placement, engine: str | None = None
) -> ServerRecord:
    once = os.urandom(4).hex()
    roots = [f"serve-{placement.name}.{once}"]
    if engine is not None:
        roots.append(f"{roots[0]}-startup")
    return ServerRecord(
        name=placement.name,
        url=placement.url,
        model=prepared.served.model,
        closure=prepared.closure,
        store=store.path,
        roots=tuple(roots),
        since=datetime.now(UTC).isoformat(timespec="seconds"),
        container=None
        if engine is None
        else ContainerIdentity(f"dis-serve-{placement.name}-{once}", engine),
    )


def _keep(
    store: "Store",
    records: ServerRecords,
    record: ServerRecord,
    prepared: Prepared,
    *beside: "Digest",
) -> None:
    """Write a server down, and root what it needs: in this order, so that whoever stops it knows of every root."""
    records.write(record)
    realised, label = prepared.realised, f"server {record.name}"
    closure = Root(
        object=prepared.closure,
        derivation=realised.derivation,
        key=realised.key,
        label=label,
        created_at=record.since,
    )
    others = [Root(object=each, label=label, created_at=record.since) for each in beside]
    for name, root in zip(record.roots, [closure, *others], strict=True):
        store.set_root(name, root)
