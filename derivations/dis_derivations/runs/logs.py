"""The logs of what was built: found through the realisation records, since no compared output names its log."""

from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from dis_derivations.runs.run_directory import RUN_LOG, run_log_among
from dis_store.digest import Digest
from dis_store.errors import InvalidInputError

if TYPE_CHECKING:
    from dis_derivations.runs.reference import Resolved
    from dis_store import Store

BUILD_LOG = "build.log"
# The log of a generation has the lines of the shards that it made, and refers to the logs of all.
_OF_A_SHARD = "/shards/"


@dataclass(frozen=True)
class LogFile:
    """One log: `path` in the log output, and its text."""

    path: str
    text: str


def build_logs(store: "Store", resolved: "Resolved") -> list[LogFile]:
    """Return the build logs of a run, that of its generation first, or the one of another build.

    Raises:
        InvalidInputError: No log of it is known here.
    """
    log = _log_output(store, resolved)
    paths = [
        file.path
        for file in store.files(log)
        if file.path.rpartition("/")[2] == BUILD_LOG and _OF_A_SHARD not in f"/{file.path}"
    ]
    if not paths:
        raise _no_log(resolved, f"the log {log[:12]} has no {BUILD_LOG}")
    return [
        _read(store, log, path) for path in sorted(paths, key=lambda path: (-path.count("/"), path))
    ]


def run_log_of(store: "Store", resolved: "Resolved") -> LogFile:
    """Return the `run_log.json` of a run, in the store or in a run directory.

    Raises:
        InvalidInputError: There is none.
    """
    if resolved.kind == "run directory" and resolved.path is not None:
        return _read_file(resolved, resolved.path)
    log = _log_output(store, resolved)
    path = run_log_among([file.path for file in store.files(log)])
    if path is None:
        raise _no_log(resolved, f"the log {log[:12]} has no {RUN_LOG}")
    return _read(store, log, path)


def _log_output(store: "Store", resolved: "Resolved") -> Digest:
    digest, entry = resolved.object(), resolved.entry
    if entry is None or entry.key is None:
        raise _no_log(resolved, "no root of this store knows the build that made it")
    for record in store.realisations(entry.key):
        log = record.outputs.get("log")
        if log is not None and digest in record.outputs.values() and store.protect(log):
            return log
    raise _no_log(resolved, "its build has no log, or the log was collected")


def _read(store: "Store", log: Digest, path: str) -> LogFile:
    return LogFile(path, store.read_bytes(log, path).decode("utf-8", "replace"))


def _read_file(resolved: "Resolved", directory: Path) -> LogFile:
    from dis_derivations.runs.bundle_reader import DirectoryBundle

    try:
        # Which follows no link out of the directory, and waits for no pipe.
        data = DirectoryBundle(directory).read_bytes(RUN_LOG)
    except InvalidInputError as error:
        raise _no_log(resolved, str(error)) from error
    return LogFile(RUN_LOG, data.decode("utf-8", "replace"))


def _no_log(resolved: "Resolved", cause: str) -> InvalidInputError:
    return InvalidInputError(
        f"there is no log of {resolved.ref}",
        cause=cause,
        hint="see the runs that there are: dis list",
    )
