"""What is written down of servers: a small file for each, below a directory of their user, beside the server's log."""

import fcntl
import os
import stat
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from dis_derivations.serving.names import check_name
from dis_derivations.serving.processes import ProcessIdentity
from dis_store import canonical_json, strict_json
from dis_store.digest import Digest
from dis_store.durability import remove_tree, write_durably
from dis_store.errors import BuildError, IntegrityError, InvalidInputError

FORMAT = 1
_RECORD, _LOG, _LOCK, _HOME = "record.json", "server.log", "lock", "home"
_LONGEST = 1 << 16


@dataclass(frozen=True)
class ContainerIdentity:
    """A container, told from one of the same name in another Docker.

    Attributes:
        name: What it is called there; nobody else chooses such a name.
        engine: What that Docker calls itself.
    """

    name: str
    engine: str


@dataclass(frozen=True)
class ServerRecord:
    """A server that was started.

    Attributes:
        name: What it is called.
        url: Where it answers, with `/v1`.
        model: The name under which it serves its model.
        closure: What it serves.
        store: Where that is.
        roots: What keeps it there.
        since: When it was started; UTC, ISO 8601.
        process: The process that it is; None while there is none yet, and for a container.
        container: The container that it is; None for a process.
        scratch: Where a process puts what must have a short path, as sockets must; None for a container.
    """

    name: str
    url: str
    model: str
    closure: Digest
    store: Path
    roots: tuple[str, ...]
    since: str
    process: ProcessIdentity | None = None
    container: ContainerIdentity | None = None
    scratch: Path | None = None

    def with_process(self, process: ProcessIdentity) -> "ServerRecord":
        """Return the record of the same server, its process known."""
        return replace(self, process=process)

    def encode(self) -> bytes:
        """Return the record as it is on disk: canonical JSON."""
        process, container = self.process, self.container
        return canonical_json.encode(
            {
                "type": "server",
                "format": FORMAT,
                "name": self.name,
                "url": self.url,
                "model": self.model,
                "closure": str(self.closure),
                "store": str(self.store),
                "roots": list(self.roots),
                "since": self.since,
                "process": None if process is None else vars(process),
                "container": None if container is None else vars(container),
                "scratch": None if self.scratch is None else str(self.scratch),
            }
        )

    @classmethod
    def decode(cls, data: bytes, *, name: str) -> "ServerRecord":
        """Parse a record; `ServerRecord.decode(r.encode()) == r`.

        Raises:
            IntegrityError: `data` is not exactly the encoding of a record.
        """
        try:
            document = strict_json.decode(data, name=name)
            record = _record(document)
        except (KeyError, TypeError, ValueError, AttributeError, InvalidInputError) as error:
            raise _damaged(name, f"{type(error).__name__}: {error}") from error
        if record.encode() != data:
            raise _damaged(name, "it is not the encoding of what it says")
        return record


def _record(document: Mapping[str, Any]) -> ServerRecord:
    process, container = document["process"], document["container"]
    return ServerRecord(
        name=str(document["name"]),
        url=str(document["url"]),
        model=str(document["model"]),
        closure=Digest(document["closure"]),
        store=Path(document["store"]),
        roots=tuple(map(str, document["roots"])),
        since=str(document["since"]),
        process=None
        if process is None
        else ProcessIdentity(int(process["pid"]), int(process["began"]), str(process["boot"])),
        container=None
        if container is None
        else ContainerIdentity(str(container["name"]), str(container["engine"])),
        scratch=None if document["scratch"] is None else Path(document["scratch"]),
    )


def _damaged(name: str, cause: str) -> IntegrityError:
    return IntegrityError(
        f"{name} is damaged",
        cause=cause[:300],
        hint=f"end the server by hand, if it runs, and remove the record: rm {name}",
    )


@dataclass(frozen=True)
class ServerRecords:
    """The records of a user's servers on this machine.

    Attributes:
        directory: Has a directory for each, which nobody else may look into.
    """

    directory: Path

    def log(self, name: str) -> Path:
        """Return where the log of a server is; it stays until one of the same name starts."""
        return self.directory / name / _LOG

    def home(self, name: str) -> Path:
        """Return where a server may write."""
        return self.directory / name / _HOME

    def names(self) -> list[str]:
        """Return the names of all servers of which there is a record."""
        try:
            entries = [each.name for each in self.directory.iterdir()]
        except OSError:
            return []
        return sorted(each for each in entries if (self.directory / each / _RECORD).exists())

    def read(self, name: str) -> ServerRecord | None:
        """Return the record of a server; None where there is none.

        Raises:
            IntegrityError: It is damaged.
        """
        path = self.directory / name / _RECORD
        try:
            with path.open("rb") as stream:
                data = stream.read(_LONGEST)
        except FileNotFoundError:
            return None
        record = ServerRecord.decode(data, name=str(path))
        if record.name != name:
            raise _damaged(str(path), f"it is about {record.name!r}")
        return record

    def write(self, record: ServerRecord) -> None:
        """Write a record, in place of an older one of the same server."""
        place = self.directory / record.name
        write_durably(place / f"{_RECORD}.new", place / _RECORD, record.encode(), mode=0o600)

    def forget(self, record: ServerRecord) -> None:
        """Remove the record of a server that is gone, and what it wrote beside its log."""
        for place in (record.scratch, self.home(record.name)):
            if place is not None:
                remove_tree(place)
        with suppress(FileNotFoundError):
            (self.directory / record.name / _RECORD).unlink()

    @contextmanager
    def held(self, name: str) -> Iterator[None]:
        """Let nobody else start or stop a server of this name for the time of a block.

        Raises:
            InvalidInputError: The name is refused, or others may write where records are.
            BuildError: Somebody does just now.
        """
        check_name(name)
        place = self.directory / name
        _make_private(self.directory)
        _make_private(place)
        descriptor = os.open(place / _LOCK, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
        try:
            try:
                fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except BlockingIOError:
                raise BuildError(
                    f"another command is starting or stopping the server {name}",
                    hint="see what becomes of it: dis serve list",
                ) from None
            yield
        finally:
            os.close(descriptor)


def _make_private(directory: Path) -> None:
    """Make a directory that nobody else may look into, or find it so.

    Raises:
        InvalidInputError: It is somebody else's, or others may go in.
    """
    directory.mkdir(parents=True, exist_ok=True, mode=0o700)
    status = directory.lstat()
    if not stat.S_ISDIR(status.st_mode) or status.st_uid != os.geteuid() or status.st_mode & 0o077:
        raise InvalidInputError(
            f"servers cannot be written down in {directory}",
            cause="it is no directory that you alone may enter",
            hint=f"chmod 700 {directory}",
        )
