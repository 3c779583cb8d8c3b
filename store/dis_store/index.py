"""The index: what SQLite remembers about a store, so that questions need no walk over the disk.

Everything in it can be rebuilt from the disk (`dis store reindex`), but not all of it cheaply: the SHA-256 of the
files costs a read of every byte.

One connection serves all threads of a process behind a lock: its statements take microseconds, and SQLite would make
the writers wait for each other anyway. Writers of different processes queue in `BEGIN IMMEDIATE`; a reader that
became a writer later could fail at once whatever the timeout, so nothing here does that.
"""

import contextlib
import os
import threading
from array import array
from collections.abc import Callable, Iterable, Iterator, Sequence
from itertools import chain
from pathlib import Path
from typing import Any

import apsw

from dis_store.durability import fsync_directory
from dis_store.environment import disk_full, explain, unchangeable, unwritable
from dis_store.errors import (
    DamagedIndexError,
    DisError,
    IntegrityError,
    TooNewError,
    UnfitEnvironmentError,
)
from dis_store.index_schema import FOR_READING, SCHEMA, TABLES, UPGRADES, VERSION
from dis_store.layout import Layout
from dis_store.locks import Locks

_BUSY_MILLISECONDS = 120_000
# What stays of the log after the last one closed the index.
_LOG_BYTES = 1 << 20


class Index:
    """The index of one store, opened on first use: a collection on a full disk makes room before that."""

    def __init__(
        self, layout: Layout, locks: Locks, *, path: Path | None = None, read_only: bool = False
    ) -> None:
        self._layout = layout
        self._read_only = read_only
        self._path = path or layout.index
        self._locks = locks
        self._lock = threading.RLock()
        self._connection: apsw.Connection | None = None
        self._opened = (0, 0, 0)
        # Connections from before a fork: closing one here would drop locks that the parent relies on.
        self._abandoned: list[apsw.Connection] = []

    @property
    def read_only(self) -> bool:
        """Whether it may only be asked."""
        return self._read_only

    def close(self) -> None:
        """Close the connection; the next question opens a new one."""
        with self._lock:
            if self._connection is not None:
                self._connection.close()
                self._connection = None

    def query(self, sql: str, parameters: Sequence[Any] = ()) -> list[tuple[Any, ...]]:
        """Return all rows of one statement."""
        with self._lock, self._explained():
            rows = list(self._current().execute(sql, parameters))
        # No column holds bytes. On a damaged page a text may be called some, which SQLite hands out as it is.
        if bytes in set(map(type, chain.from_iterable(rows))):
            raise self._damaged("bytes are where text must be")
        return rows

    def value(self, sql: str, parameters: Sequence[Any] = ()) -> Any:
        """Return the first column of the first row, or None."""
        rows = self.query(sql, parameters)
        return rows[0][0] if rows else None

    @contextlib.contextmanager
    def transaction(self) -> Iterator["Transaction"]:
        """Write: all statements of the block become durable together, or none does."""
        with self._lock, self._explained():
            connection = self._current()
            connection.execute("BEGIN IMMEDIATE")
            try:
                yield Transaction(connection)
                connection.execute("COMMIT")
            except BaseException:
                if connection.in_transaction:
                    connection.execute("ROLLBACK")
                raise

    def check(self) -> None:
        """Look at every page, and compare tables with what SQLite keeps of them to search by.

        Raises:
            DamagedIndexError: Something there is not as it must be.
        """
        ((found, *_), *_) = self.query("PRAGMA integrity_check(1)")
        if found != "ok":
            raise self._damaged(str(found))

    def rebuild(self, fill: Callable[["Transaction"], None]) -> None:
        """Replace all rows by what `fill` writes, in one step. The caller holds the store alone.

        A missing or damaged index is made anew beside its place, and the old one set aside.
        """
        if self._is_sound():
            # The look does not see everything: there may be a word too many in what the tables are made of.
            with contextlib.suppress(DamagedIndexError):
                with self.transaction() as transaction:
                    for table in TABLES:
                        transaction.execute(f"DELETE FROM {table}")  # noqa: S608 - our own names
                    fill(transaction)
                return
        self._make_anew(fill)

    def _is_sound(self) -> bool:
        try:
            self.check()
        except IntegrityError:
            return False
        return True

    def _make_anew(self, fill: Callable[["Transaction"], None]) -> None:
        self.close()
        aside = self._path.with_name("index.sqlite.new")
        aside.unlink(missing_ok=True)
        new = Index(self._layout, self._locks, path=aside)
        with new.transaction() as transaction:
            fill(transaction)
        # Everything moves from the log into the one file that is renamed. Closing would hide it if that failed.
        new.query("PRAGMA wal_checkpoint(TRUNCATE)")
        new.close()
        # The database goes first: without it a crash here is noticed, and with an older log it might not be.
        for suffix in ("", "-wal"):
            path = Path(f"{self._path}{suffix}")
            if path.exists():
                path.replace(self._layout.room("quarantine") / f"{path.name}-{os.urandom(8).hex()}")
        Path(f"{self._path}-shm").unlink(missing_ok=True)
        aside.replace(self._path)
        fsync_directory(self._layout.top)

    def _current(self) -> apsw.Connection:
        """Return the connection to the file that is the index now, in the process that asks now."""
        now = self._stamp()
        if self._connection is not None and now == self._opened:
            return self._connection
        if self._connection is not None and now[0] != self._opened[0]:
            self._abandoned.append(self._connection)
        elif self._connection is not None:
            self._connection.close()
        self._connection = None
        self._connection = self._open()
        self._opened = self._stamp()
        return self._connection

    def _stamp(self) -> tuple[int, int, int]:
        try:
            status = self._path.stat()
        except FileNotFoundError:
            return (os.getpid(), 0, 0)
        return (os.getpid(), status.st_dev, status.st_ino)

    def _open(self) -> apsw.Connection:
        in_place = self._path == self._layout.index
        if in_place:
            self._refuse_loss()
        if self._read_only:
            return self._open_for_reading()
        connection = apsw.Connection(str(self._path))
        try:
            connection.set_busy_timeout(_BUSY_MILLISECONDS)
            if _pragma(connection, "user_version") != VERSION:
                with self._locks.creating_index():
                    self._bring_up_to_date(connection)
            self._configure(connection)
            if in_place:
                _keep_log(connection)
        except BaseException:
            connection.close()
            raise
        return connection

    def _open_for_reading(self) -> apsw.Connection:
        if not self._path.exists():
            # A store in which nothing has happened yet.
            empty = apsw.Connection(":memory:")
            empty.execute(f"{SCHEMA} PRAGMA user_version={VERSION}")
            return empty
        log = Path(f"{self._path}-wal")
        if not log.exists():
            # Nobody has the index open, or there would be a log; and none may be made.
            return self._connected_for_reading("immutable=1")
        try:
            return self._connected_for_reading("mode=ro")
        except (apsw.CantOpenError, apsw.ReadOnlyError) as error:
            # A log is of no use without the file beside it, which cannot be made.
            if log.stat().st_size > 0:
                raise UnfitEnvironmentError(
                    f"the index of the store {self._layout.top} cannot be read",
                    cause=f"{log} holds what must be written into the index first",
                    hint="let somebody who may write to the store call: dis list",
                ) from error
        return self._connected_for_reading("immutable=1")

    def _connected_for_reading(self, how: str) -> apsw.Connection:
        flags = apsw.SQLITE_OPEN_READONLY | apsw.SQLITE_OPEN_URI
        connection = apsw.Connection(f"{self._path.as_uri()}?{how}", flags=flags)
        try:
            connection.set_busy_timeout(_BUSY_MILLISECONDS)
            self._check_version(connection)
        except BaseException:
            connection.close()
            raise
        return connection

    def _check_version(self, connection: apsw.Connection) -> None:
        found = _pragma(connection, "user_version")
        if found > VERSION:
            raise self._too_new(found)
        if found not in FOR_READING:
            raise apsw.NotADBError("it has no version")
        # What is missing is made in memory, beside what may not be changed.
        connection.execute(f"PRAGMA temp_store=MEMORY; {FOR_READING[found]}")

    def _refuse_loss(self) -> None:
        """Refuse to begin an empty index beside objects: it would call all of them garbage."""
        if self._path.is_dir():
            raise self._damaged(f"{self._path} is a directory")
        lost = not self._path.exists() or self._path.stat().st_size == 0
        if lost and any(self._layout.room("manifests").iterdir()):
            raise DamagedIndexError(
                f"the index of the store {self._layout.top} is missing",
                hint="rebuild it: dis store reindex",
            )

    def _bring_up_to_date(self, connection: apsw.Connection) -> None:
        """Create the tables of a new index, or those that an older one lacks. Nothing in an older one is lost."""
        found = _pragma(connection, "user_version")
        if found == VERSION:
            return
        if found > VERSION:
            raise self._too_new(found)
        if found not in UPGRADES:
            raise apsw.NotADBError("it has no version")
        _expect(connection, "journal_mode=wal", "wal")
        _expect(connection, "synchronous=FULL", None)
        connection.execute(
            f"BEGIN IMMEDIATE; {UPGRADES[found]} PRAGMA user_version={VERSION}; COMMIT"
        )
        # SQLite ignores errors of this fsync when it makes the WAL; here one is final.
        fsync_directory(self._layout.top)

    def _too_new(self, found: int) -> TooNewError:
        return TooNewError(
            f"the index of the store {self._layout.top} is too new for this version of dis",
            cause=f"it has version {found}, and this version knows versions up to {VERSION}",
            hint="upgrade dis",
        )

    def _configure(self, connection: apsw.Connection) -> None:
        # Read back: a pragma that fails may fail without a word.
        _expect(connection, "journal_mode", "wal")
        connection.execute("PRAGMA synchronous=FULL; PRAGMA foreign_keys=ON")
        _expect(connection, "synchronous", 2)
        _expect(connection, "foreign_keys", 1)

    @contextlib.contextmanager
    def _explained(self) -> Iterator[None]:
        try:
            yield
        except apsw.Error as error:
            raise self._explain(error) from error
        except UnicodeDecodeError as error:
            # SQLite does not look at what the texts on a damaged page are.
            raise self._damaged(str(error)) from error
        except OSError as error:
            raise explain(error, self._layout.top) from error

    def _damaged(self, cause: str) -> DamagedIndexError:
        return DamagedIndexError(
            f"the index of the store {self._layout.top} is damaged",
            cause=cause,
            hint="rebuild it: dis store reindex",
        )

    def _explain(self, error: apsw.Error) -> DisError:
        top = self._layout.top
        if isinstance(error, apsw.FullError) or (isinstance(error, apsw.IOError) and _is_full(top)):
            return disk_full(top, str(error))
        if isinstance(error, apsw.BusyError):
            return UnfitEnvironmentError(
                f"the index of the store {top} is busy",
                cause=f"another process has been writing to it for {_BUSY_MILLISECONDS // 1000} seconds",
                hint="see what it does, and try again",
            )
        if isinstance(error, apsw.CantOpenError | apsw.ReadOnlyError):
            files = (self._path, *(Path(f"{self._path}{end}") for end in ("-wal", "-shm")))
            fixed = unchangeable(top, files, str(error))
            if fixed is not None or not os.access(top, os.W_OK | os.X_OK):
                return fixed or unwritable(top, str(error))
        # An SQLError as well: what is asked is always the same, so that the tables are not ours any more.
        if isinstance(error, apsw.CorruptError | apsw.NotADBError | apsw.SQLError):
            return self._damaged(str(error))
        if isinstance(error, apsw.ConstraintError):
            return IntegrityError(
                f"the store {top} refuses a record",
                cause=f"an object that it names is not in the store ({error})",
            )
        return UnfitEnvironmentError(
            f"the index of the store {top} cannot be used",
            cause=str(error),
            hint="check that the directory is writable and on a local file system",
        )


class Transaction:
    """The statements of one transaction."""

    def __init__(self, connection: apsw.Connection) -> None:
        self._connection = connection

    def execute(self, sql: str, parameters: Sequence[Any] = ()) -> list[tuple[Any, ...]]:
        """Run one statement; return its rows."""
        return list(self._connection.execute(sql, parameters))

    def execute_many(self, sql: str, rows: Iterable[Sequence[Any]]) -> None:
        """Run one statement for each row of parameters."""
        self._connection.executemany(sql, rows)


def _pragma(connection: apsw.Connection, text: str) -> Any:
    return next(iter(connection.execute(f"PRAGMA {text}")), (None,))[0]


def _expect(connection: apsw.Connection, pragma: str, expected: Any) -> None:
    found = _pragma(connection, pragma)
    if found != expected:
        raise UnfitEnvironmentError(
            "the index cannot be made safe", cause=f"SQLite answers {found!r} to PRAGMA {pragma}"
        )


def _keep_log(connection: apsw.Connection) -> None:
    """Let closing leave the log where it is.

    SQLite would delete it by name, and the name may belong to an index that `rebuild` has put in the place of ours.
    """
    switch = array("i", [1])
    connection.file_control("main", apsw.SQLITE_FCNTL_PERSIST_WAL, switch.buffer_info()[0])
    _expect(connection, f"journal_size_limit={_LOG_BYTES}", _LOG_BYTES)


def _is_full(top: Path) -> bool:
    status = os.statvfs(top)
    return status.f_bavail * status.f_frsize < 1 << 16 or status.f_favail == 0
