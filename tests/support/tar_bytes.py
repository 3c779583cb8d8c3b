"""Tar archives block by block, so that a test can write what no program would."""

import json
from collections.abc import Iterable
from dataclasses import dataclass, replace
from typing import Any

BLOCK = 512
REGULAR, HARD_LINK, SYMLINK, CHARACTER, BLOCK_DEVICE, DIRECTORY, FIFO = (
    "0",
    "1",
    "2",
    "3",
    "4",
    "5",
    "6",
)
GNU_LONG_NAME, GNU_LONG_LINK, PAX, PAX_GLOBAL = "L", "K", "x", "g"
GNU_MAGIC, POSIX_MAGIC = b"ustar  \0", b"ustar\x0000"


@dataclass(frozen=True)
class Member:
    """A member of an archive; every field has the value that dis writes, unless a test wants another.

    Attributes:
        name: Its name; bytes beyond 100 are cut off.
        data: What follows the header, padded to a block.
        size: What the header says of its length: a number, or the bytes of the field.
        checksum: What the header says of itself; the right sum if it is None.
        magic: The format and its version.
        before: Blocks that stand before the header.
        after: What follows the content in place of zeros.
    """

    name: str | bytes
    data: bytes = b""
    type: str = REGULAR
    link: str | bytes = b""
    size: int | bytes | None = None
    mode: int = 0o644
    uid: int | bytes = 0
    gid: int | bytes = 0
    mtime: int | bytes = 0
    user: bytes = b""
    group: bytes = b""
    magic: bytes = POSIX_MAGIC
    device: bytes = b""
    prefix: bytes = b""
    checksum: bytes | None = None
    before: bytes = b""
    after: bytes | None = None

    def but(self, **fields: Any) -> "Member":
        """Return this member with some fields changed."""
        return replace(self, **fields)

    def header(self) -> bytes:
        """Return the header, one block."""
        size = len(self.data) if self.size is None else self.size
        device = self.device or bytes(8)
        parts = [
            _text(self.name, 100), _number(self.mode, 8), _number(self.uid, 8), _number(self.gid, 8),
            _number(size, 12), _number(self.mtime, 12), b" " * 8, self.type.encode("latin-1"),
            _text(self.link, 100), self.magic, _text(self.user, 32), _text(self.group, 32),
            device, device, _text(self.prefix, 155),
        ]  # fmt: skip
        block = b"".join(parts).ljust(BLOCK, b"\0")
        summed = b"%06o\0 " % sum(block) if self.checksum is None else self.checksum
        return block[:148] + summed + block[156:]

    def encode(self) -> bytes:
        """Return the member with its header."""
        padding = bytes(-len(self.data) % BLOCK) if self.after is None else self.after
        return self.before + self.header() + self.data + padding


def _text(text: str | bytes, length: int) -> bytes:
    data = text.encode("utf-8", "surrogateescape") if isinstance(text, str) else text
    return data[:length].ljust(length, b"\0")


def _number(value: int | bytes, length: int) -> bytes:
    if isinstance(value, bytes):
        return value.ljust(length, b"\0")
    return b"%0*o\0" % (length - 1, value)


def base_256(value: int, length: int) -> bytes:
    """Return a field for a number that octal digits cannot write: a large one, or a negative one."""
    if value < 0:
        return b"\xff" + ((1 << 8 * (length - 1)) + value).to_bytes(length - 1, "big")
    return b"\x80" + value.to_bytes(length - 1, "big")


def pax_records(records: Iterable[tuple[str, bytes]]) -> bytes:
    """Return the content of an extended header."""
    found = b""
    for key, value in records:
        rest = b" " + key.encode() + b"=" + value + b"\n"
        length = len(rest) + 1
        while len(b"%d" % length) + len(rest) != length:
            length += 1
        found += b"%d" % length + rest
    return found


def extended(*records: tuple[str, bytes], kind: str = PAX) -> bytes:
    """Return an extended header, which changes what is said of the member after it."""
    return Member("././@PaxHeader", pax_records(records), type=kind).encode()


def long_name(name: bytes, kind: str = GNU_LONG_NAME) -> bytes:
    """Return a GNU header that says how the member after it is called, or what it links to."""
    return Member("././@LongLink", name + b"\0", type=kind, magic=GNU_MAGIC).encode()


def ended(members: Iterable[Member], record: int = BLOCK, end: bytes = bytes(2 * BLOCK)) -> bytes:
    """Return an archive."""
    data = b"".join(member.encode() for member in members) + end
    return data + bytes(-len(data) % record)


def dumped(document: object) -> bytes:
    """Return a document as canonical JSON, as far as it is plain."""
    text = json.dumps(document, sort_keys=True, separators=(",", ":"), ensure_ascii=False)
    return text.encode("utf-8", "surrogatepass")
