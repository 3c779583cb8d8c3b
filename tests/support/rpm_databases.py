"""Databases of RPM for tests: right ones, and ones with a lie in them."""

import sqlite3
import struct
from contextlib import closing


def rpm_header(**fields: str | int) -> bytes:
    """Return the header of a package: tags, and the texts and numbers that they have."""
    tags = {"name": 1000, "version": 1001, "release": 1002, "epoch": 1003, "summary": 1004}
    entries, data = b"", b""
    for field, value in fields.items():
        kind = 4 if isinstance(value, int) else 6
        entries += struct.pack(">IIII", tags[field], kind, len(data), 1)
        data += struct.pack(">I", value) if isinstance(value, int) else f"{value}\0".encode()
    return struct.pack(">II", len(fields), len(data)) + entries + data


def rpm_database(
    *headers: bytes, create: str = "TABLE Packages (hnum INTEGER PRIMARY KEY, blob BLOB)"
) -> bytes:
    """Return a database as RPM makes it, in the mode in which it keeps it."""
    with closing(sqlite3.connect(":memory:")) as connection:
        connection.execute(f"CREATE {create}")
        for header in headers:
            connection.execute("INSERT INTO Packages (blob) VALUES (?)", (header,))
        connection.commit()
        data = bytearray(connection.serialize())
    data[18:20] = b"\2\2"
    return bytes(data)
