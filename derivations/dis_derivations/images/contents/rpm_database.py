"""The packages in a database of RPM that is one of SQLite, as RPM writes it since version 4.16.

SQLite reads it from memory, told to trust nothing in it: no views, no triggers, and an end to what a query may take.
That does not stop functions that SQLite brings itself, whose calls nothing interrupts: a table that computes a column
is refused before a row is read. What a row holds is a header of a package, of which four fields are read.
"""

from collections.abc import Iterator
from struct import Struct

import apsw

from dis_derivations.images.contents.layer_stream import Allowance, UnreadableError

_MAGIC = b"SQLite format 3\0"
_HEADER_BYTES = 100
_LARGEST_PAGE = 65536
_ROLLBACK = b"\1\1"
_MAX_HEADER = 64 << 20
_STEPS, _MOST_PAUSES = 100_000, 2_000
_INTRO, _ENTRY, _NUMBER, _PAGE_SIZE = (Struct(each) for each in (">II", ">IIII", ">I", ">H"))
_NAME, _VERSION, _RELEASE, _EPOCH = 1000, 1001, 1002, 1003
_TEXT, _INTEGER = 6, 4
_MAX_ENTRIES = 100_000
_MAX_WORD = 256
# A key that signs packages is kept as one.
_KEY = "gpg-pubkey"


def rpm_packages(data: bytes, allowance: Allowance) -> Iterator[tuple[str, str] | None]:
    """Yield name and version of each package, the version with epoch and release, as RPM writes it.

    Args:
        data: The database.
        allowance: How long it may take.

    Yields:
        None for a row that is no package, so that whoever counts rows counts it as well.

    Raises:
        UnreadableError: It is no such database, or a damaged one, or the time is over.
    """
    if not data.startswith(_MAGIC) or len(data) < _HEADER_BYTES:
        raise UnreadableError("it is no database of SQLite, which alone are read of those of RPM")
    size, pages = _PAGE_SIZE.unpack_from(data, 16)[0], _NUMBER.unpack_from(data, 28)[0]
    if len(data) != (_LARGEST_PAGE if size == 1 else size) * pages:
        raise UnreadableError("it is a damaged database (it has another size than it says)")
    # One in the other mode looks for a file beside it.
    whole = data[:18] + _ROLLBACK + data[20:]
    connection = apsw.Connection(":memory:")
    try:
        connection.deserialize("main", whole)
        for (header,) in _rows(connection):
            # Many rows may share the pages of one large header.
            allowance.check_time()
            package = _package(header)
            yield None if package[0] == _KEY else package
    except (apsw.Error, UnicodeError) as error:
        # SQLite repeats names that the file chose.
        raise UnreadableError(f"it is a damaged database ({str(error)!a:.160})") from error
    finally:
        connection.close(True)


def _rows(connection: apsw.Connection) -> "Iterator[tuple[object, ...]]":
    pauses = iter(range(_MOST_PAUSES))
    connection.set_progress_handler(lambda: next(pauses, None) is None, _STEPS)
    connection.limit(apsw.SQLITE_LIMIT_LENGTH, _MAX_HEADER)
    for option, value in (
        (apsw.SQLITE_DBCONFIG_TRUSTED_SCHEMA, 0),
        (apsw.SQLITE_DBCONFIG_ENABLE_VIEW, 0),
        (apsw.SQLITE_DBCONFIG_ENABLE_TRIGGER, 0),
        (apsw.SQLITE_DBCONFIG_DEFENSIVE, 1),
    ):
        connection.config(option, value)
    connection.execute("PRAGMA cell_size_check = ON")
    _check_table(connection)
    yield from connection.execute("SELECT blob FROM Packages")


def _check_table(connection: apsw.Connection) -> None:
    """Refuse what is no table with all of its columns in the file: reading that would run what the file chose."""
    # SQLite writes every ordinary table so; a table that is made by a module is `CREATE VIRTUAL TABLE`.
    table = (
        "SELECT 1 FROM sqlite_schema WHERE name = 'Packages' AND type = 'table' AND rootpage > 0"
        " AND substr(sql, 1, 13) = 'CREATE TABLE '"
    )
    if connection.execute(table).fetchone() is None:
        raise UnreadableError("it has no table of packages")
    # The pragma, not the table of its name, for which a file may have another.
    columns = connection.execute("PRAGMA table_xinfo(Packages)").fetchall()
    if any(hidden for *_, hidden in columns):
        raise UnreadableError("its table of packages computes a column")


def _package(header: object) -> tuple[str, str]:
    if not isinstance(header, bytes) or len(header) < _INTRO.size:
        raise UnreadableError("a package in it has no header")
    count, length = _INTRO.unpack_from(header)
    start = _INTRO.size + count * _ENTRY.size
    if count > _MAX_ENTRIES or start + length > len(header):
        raise UnreadableError("a header in it is malformed")
    fields: dict[int, str] = {}
    for place in range(count):
        tag, kind, offset, _ = _ENTRY.unpack_from(header, _INTRO.size + place * _ENTRY.size)
        if offset < length and tag in (_NAME, _VERSION, _RELEASE, _EPOCH):
            if tag in fields:
                raise UnreadableError("a header in it is malformed")
            at = start + offset
            fields[tag] = _field(header[at : min(at + _MAX_WORD, start + length)], kind)
    if not {_NAME, _VERSION, _RELEASE} <= fields.keys():
        raise UnreadableError("a package in it has no name or no version")
    epoch = f"{fields[_EPOCH]}:" if fields.get(_EPOCH, "0") != "0" else ""
    return fields[_NAME], f"{epoch}{fields[_VERSION]}-{fields[_RELEASE]}"


def _field(data: bytes, kind: int) -> str:
    if kind == _INTEGER and len(data) >= _NUMBER.size:
        return str(_NUMBER.unpack_from(data)[0])
    if kind != _TEXT:
        raise UnreadableError("a header in it is malformed")
    return data.partition(b"\0")[0].decode("utf-8", "replace")
