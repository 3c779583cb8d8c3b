"""The packages in a database of RPM that is one of SQLite, as RPM writes it since version 4.16.

SQLite reads it from memory, told to trust nothing in it: no views, no triggers, no functions of its schema, and an end
to what a query may take. What a row holds is a header of a package, of which four fields are read.
"""

from collections.abc import Iterator
from struct import Struct

import apsw

from dis_derivations.images.contents.layer_stream import UnreadableError

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


def rpm_packages(data: bytes) -> Iterator[tuple[str, str]]:
    """Yield name and version of each package, the version with epoch and release, as RPM writes it.

    Raises:
        UnreadableError: It is no such database, or a damaged one.
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
            package = _package(header)
            if package[0] != _KEY:
                yield package
    except apsw.Error as error:
        raise UnreadableError(f"it is a damaged database ({error})"[:200]) from error
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
    # A table that is made by a module has no page of its own.
    table = (
        "SELECT 1 FROM sqlite_schema WHERE name = 'Packages' AND type = 'table' AND rootpage > 0"
    )
    if connection.execute(table).fetchone() is None:
        raise UnreadableError("it has no table of packages")
    yield from connection.execute("SELECT blob FROM Packages")


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
            fields[tag] = _field(header[start : start + length], kind, offset)
    if not {_NAME, _VERSION, _RELEASE} <= fields.keys():
        raise UnreadableError("a package in it has no name or no version")
    epoch = f"{fields[_EPOCH]}:" if fields.get(_EPOCH, "0") != "0" else ""
    return fields[_NAME], f"{epoch}{fields[_VERSION]}-{fields[_RELEASE]}"


def _field(data: bytes, kind: int, offset: int) -> str:
    if kind == _INTEGER and offset + _NUMBER.size <= len(data):
        return str(_NUMBER.unpack_from(data, offset)[0])
    if kind != _TEXT:
        raise UnreadableError("a header in it is malformed")
    return data[offset : offset + _MAX_WORD].partition(b"\0")[0].decode("utf-8", "replace")
