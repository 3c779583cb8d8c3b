"""The end of a server: it is asked to end, then ended, and what was kept and written down for it goes."""

import signal
import time
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING

from dis_derivations.serving.processes import ProcessIdentity, is_running, send, session_of
from dis_derivations.serving.records import ServerRecord, ServerRecords
from dis_derivations.serving.states import its_engine
from dis_store.errors import BuildError, InvalidInputError

if TYPE_CHECKING:
    from dis_store import Store

GRACE_SECONDS = 30.0
_KILLED_SECONDS = 10.0
_LOOK_SECONDS = 0.1
_LOG_BYTES = 4 << 20
_LOG_MODE = 0o600


def stop(
    records: ServerRecords,
    record: ServerRecord,
    open_store: "Callable[[Path], Store]",
    grace: float | None = None,
) -> None:
    """Stop a server that the caller holds; its record goes last, so that what fails can be tried again.

    Args:
        records: Has its record.
        record: The server.
        open_store: Opens the store that has its roots.
        grace: How many seconds it has to end by itself; None for `GRACE_SECONDS`.

    Raises:
        UnfitEnvironmentError: Its Docker does not answer, or its store cannot be opened.
        BuildError: It does not end.
    """
    end_running(records, record, GRACE_SECONDS if grace is None else grace)
    if (record.store / "format.json").exists():  # a store that was removed keeps nothing
        with open_store(record.store) as store:
            let_go(store, record)
    records.forget(record)


def let_go(store: "Store", record: ServerRecord) -> None:
    """Remove the roots of a server, those that are still there."""
    for root in record.roots:
        with suppress(InvalidInputError):
            store.remove_root(root)


def end_running(records: ServerRecords, record: ServerRecord, grace: float) -> None:
    """End the processes or the container of a server.

    Raises:
        UnfitEnvironmentError: Its Docker does not answer.
        BuildError: It does not end.
    """
    if record.container is None:
        _end_processes(record.process, records.home(record.name), grace)
    else:
        _end_container(records.log(record.name), record, grace)


def _end_processes(leader: ProcessIdentity | None, home: Path, grace: float) -> None:
    """End a server and what it started; what another process has the number of now is left alone."""
    if leader is None:
        return
    known = session_of(leader, home)
    send(leader, signal.SIGTERM)
    end = time.monotonic() + grace
    while is_running(leader) and time.monotonic() < end:
        time.sleep(_LOOK_SECONDS)
        known |= session_of(leader, home)
    end = time.monotonic() + _KILLED_SECONDS
    while left := [each for each in known | session_of(leader, home) if is_running(each)]:
        if time.monotonic() > end:
            numbers = ", ".join(str(each.pid) for each in left)
            raise BuildError(
                "the server does not end", cause=f"it was killed, and still runs as {numbers}"
            )
        for each in left:
            send(each, signal.SIGKILL)
        time.sleep(_LOOK_SECONDS)


def _end_container(log: Path, record: ServerRecord, grace: float) -> None:
    from docker.errors import NotFound

    from dis_derivations.images.container import remove_container
    from dis_derivations.images.docker_engine import answering

    assert record.container is not None  # noqa: S101 - asked by the caller
    name = record.container.name
    with its_engine(record.container) as engine:
        with answering("the container of the server could not be stopped"), suppress(NotFound):
            engine.client.stop(name, timeout=int(grace))
            _keep_log(log, engine.client.logs(name, tail="all"))
        remove_container(engine, name)


def _keep_log(log: Path, data: bytes) -> None:
    """Write what a container said where a process would have written it; Docker forgets it with the container."""
    log.touch(_LOG_MODE)
    log.write_bytes(data[-_LOG_BYTES:])
