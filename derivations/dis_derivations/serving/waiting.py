"""Waiting for a server that was started, and what is left of one that does not come: its log alone."""

import os
import time
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, ExitStack, contextmanager, nullcontext
from pathlib import Path
from typing import TYPE_CHECKING

from dis_derivations.serving.health import is_healthy
from dis_derivations.serving.records import ServerRecord, ServerRecords
from dis_derivations.serving.states import answers, runs
from dis_derivations.serving.stopping import end_running, let_go
from dis_store.errors import BuildError, InterruptedBuildError

if TYPE_CHECKING:
    from dis_store import Store

WAIT_SECONDS = 900.0
_LOOK_SECONDS = 0.25
# One that failed has answered nobody, and is not asked for long.
_FAILED_GRACE_SECONDS = 5.0
_TAIL_BYTES, _TAIL_LINES = 16 << 10, 12


def wait(
    store: "Store",
    records: ServerRecords,
    record: ServerRecord,
    seconds: float,
    begun: Callable[[], None] = lambda: None,
    healthy: Callable[[str], bool] = is_healthy,
) -> None:
    """Wait until a server answers.

    Args:
        store: Has its roots.
        records: Has its record.
        record: The server.
        seconds: How long it may take.
        begun: Called first: when this is interrupted or fails, the server is stopped.
        healthy: Tells whether a server at an address answers.

    Raises:
        BuildError: It ended, or is late; nothing is left of it but its log.
        InterruptedBuildError: The user interrupted; likewise.
    """
    end = time.monotonic() + seconds
    try:
        with nothing_left(store, records, record, lambda: records.held(record.name)):
            begun()
            while not answers(records, record, healthy):
                _check_runs(record)
                if time.monotonic() > end:
                    raise BuildError(
                        f"the server {record.name} did not answer within {seconds:g} seconds",
                        hint="give it more time: --wait-timeout-seconds N; or do not wait: --no-wait",
                    )
                time.sleep(_LOOK_SECONDS)
    except KeyboardInterrupt:
        raise InterruptedBuildError(
            f"interrupted; the server {record.name} was stopped",
            hint="to start it without waiting for it: --no-wait",
        ) from None


def _check_runs(record: ServerRecord) -> None:
    if not runs(record):
        raise BuildError(f"the server {record.name} ended before it answered")


@contextmanager
def nothing_left(
    store: "Store",
    records: ServerRecords,
    record: ServerRecord,
    hold: Callable[[], AbstractContextManager[None]] = nullcontext,
) -> Iterator[None]:
    """Take away all of a server but its log when a block fails, and add the end of that to the error.

    Args:
        store: Has its roots.
        records: Has its record.
        record: The server.
        hold: Keeps others from starting or stopping one of its name, where the caller does not do so already.
    """
    try:
        yield
    except BaseException as error:
        with ExitStack() as held:
            if _entered(held, hold):
                _take_away(store, records, record)
        if isinstance(error, BuildError):
            _add_log(error, records.log(record.name))
        raise


def _entered(held: ExitStack, hold: Callable[[], AbstractContextManager[None]]) -> bool:
    """Tell whether the name could be held; whoever else holds it is stopping the server."""
    try:
        held.enter_context(hold())
    except BuildError:
        return False
    return True


def _take_away(store: "Store", records: ServerRecords, record: ServerRecord) -> None:
    last = records.read(record.name) or record
    # Where somebody else stopped it meanwhile, and perhaps started another one, that one is not touched.
    ours = last.roots == record.roots
    if ours:
        end_running(records, last, _FAILED_GRACE_SECONDS)
    let_go(store, record)
    if ours:
        records.forget(record)


def _add_log(error: BuildError, log: Path) -> None:
    lines = _last_lines(log)
    if lines:
        said = "it wrote at last:\n" + "\n".join(lines)
        error.cause = said if error.cause is None else f"{error.cause}\n{said}"
    if log.exists():
        error.log = str(log)


def _last_lines(log: Path) -> list[str]:
    try:
        with log.open("rb") as stream:
            stream.seek(max(0, os.fstat(stream.fileno()).st_size - _TAIL_BYTES))
            data = stream.read()
    except OSError:
        return []
    lines = [line.rstrip() for line in data.decode("utf-8", "replace").splitlines()]
    return [line for line in lines if line][-_TAIL_LINES:]
