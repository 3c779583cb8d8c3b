"""The members of a layer's tar stream, one after the other, without unpacking anything.

What is read is what container engines write and read: ustar, its extensions by GNU and those of pax. A name is a key
and nothing else; no path of this machine is made of it.
"""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Literal

from dis_derivations.images.contents.layer_stream import LayerStream, UnreadableError

BLOCK = 512
_MAX_EXTENSION = 1 << 20
# What Linux calls PATH_MAX: no engine can unpack a longer one.
_MAX_NAME = 4096
_NO_BYTES = bytes(BLOCK)
_OCTAL = frozenset(b"01234567")
_DAMAGED = "it is no tar archive, or a header of it is damaged"
_PAX_MEANT = frozenset({"path", "size", "linkpath"})

MemberKind = Literal["file", "directory", "hard link", "symbolic link", "special file"]
_KINDS: Mapping[bytes, MemberKind] = {
    b"\0": "file", b"0": "file", b"7": "file", b"1": "hard link", b"2": "symbolic link",
    b"3": "special file", b"4": "special file", b"5": "directory", b"6": "special file",
}  # fmt: skip


@dataclass(frozen=True, slots=True)
class LayerMember:
    """A member.

    Attributes:
        path: Its name below the top of the image, without empty parts; "" for the top itself.
        kind: What it is.
        size: Of its content, in bytes.
        target: What a hard link leads to, as a name like `path`.
    """

    path: str
    kind: MemberKind
    size: int
    target: str = ""


class LayerMembers:
    """Walks over a tar stream.

    Args:
        stream: The stream.
        most: How many headers it may have.
    """

    def __init__(self, stream: LayerStream, most: int) -> None:
        self._stream = stream
        self._most = most
        self._headers = 0
        self._content = 0
        self._padding = 0

    def __iter__(self) -> Iterator[LayerMember]:
        """Yield each member; what was not read of its content is passed over then.

        Raises:
            UnreadableError: The stream is malformed, ends too early, or goes beyond a limit.
        """
        extended: dict[str, str] = {}
        while (block := self._next()) is not None:
            kind = block[156:157]
            size = _number(block[124:136])
            if kind in b"xgLK":
                extended |= self._extension(kind, size)
                continue
            yield self._member(block, kind, size, extended)
            extended = {}

    def content(self, most: int) -> bytes:
        """Return the content of the member at hand, its first bytes where it has more than `most`."""
        size = min(self._content, most)
        self._content -= size
        return self._stream.read(size)

    def _next(self) -> bytes | None:
        """Return the next header; None at the end of the archive."""
        self._stream.skip(self._content + self._padding)
        self._content = self._padding = 0
        block = self._stream.read_or_end(BLOCK)
        if block in (b"", _NO_BYTES):
            # Engines differ in what they make of members after a single block of zeros.
            if block and self._stream.read_or_end(BLOCK) not in (b"", _NO_BYTES):
                raise UnreadableError("something follows its end")
            return None
        self._headers += 1
        if self._headers > self._most:
            raise UnreadableError(f"it has more than {self._most} members")
        if _number(block[148:156]) not in _sums(block):
            raise UnreadableError(_DAMAGED)
        return block

    def _member(
        self, block: bytes, kind: bytes, size: int, extended: Mapping[str, str]
    ) -> LayerMember:
        name = extended.get("path") or _name(block)
        size = _decimal(extended["size"]) if "size" in extended else size
        what = _KINDS.get(kind, "special file")
        if what == "file" and kind == b"\0" and name.endswith("/"):
            what = "directory"
        # The size of a link or a directory says nothing of what follows; that of an unknown kind does.
        self._content = size if what == "file" or kind not in _KINDS else 0
        self._padding = -self._content % BLOCK
        if kind == b"S":
            self._skip_sparse_map(block)
        if "GNU.sparse.name" in extended:
            # Its content is a map with pieces, which is not the file.
            name, what = extended["GNU.sparse.name"], "special file"
        target = extended.get("linkpath") or _text(block[157:257])
        return LayerMember(
            plain_path(name),
            what,
            self._content,
            plain_path(target) if what == "hard link" else "",
        )

    def _extension(self, kind: bytes, size: int) -> dict[str, str]:
        if size > _MAX_EXTENSION:
            raise UnreadableError(f"a header of it has more than {_MAX_EXTENSION} bytes")
        data = self._stream.read(size)
        self._stream.skip(-size % BLOCK)
        if kind in b"LK":
            return {"path" if kind == b"L" else "linkpath": _text(data)}
        records = _pax_records(data)
        if kind == b"x":
            return records
        if _PAX_MEANT & records.keys():
            raise UnreadableError("a header for all of its members gives them one name or size")
        return {}

    def _skip_sparse_map(self, block: bytes) -> None:
        more = block[482]
        while more:
            self._headers += 1
            more = self._stream.read(BLOCK)[504]


def plain_path(name: str) -> str:
    """Return a name without empty parts.

    Raises:
        UnreadableError: It is too long, is absolute, or leads upwards.
    """
    if len(name if name.isascii() else name.encode("utf-8", "surrogateescape")) > _MAX_NAME:
        raise UnreadableError(f"it has a name of more than {_MAX_NAME} bytes")
    if name.startswith("/"):
        raise UnreadableError(f"it names the absolute path {name!a:.120}")
    parts = name.split("/")
    if not {"", ".", ".."}.intersection(parts):
        return name
    parts = [part for part in parts if part not in ("", ".")]
    if ".." in parts:
        raise UnreadableError(f"it names {name!a:.120}, which leads out of the image")
    return "/".join(parts)


def _sums(block: bytes) -> tuple[int, int]:
    """Return what the sum over a header is, and what programs take it for that think of bytes as signed."""
    rest = block[:148] + b" " * 8 + block[156:]
    total = sum(rest)
    return total, total - 256 * sum(byte > 127 for byte in rest) if not rest.isascii() else total  # noqa: PLR2004  # the largest signed byte


def _name(block: bytes) -> str:
    name = _text(block[:100])
    # Only POSIX has a prefix there; GNU has times.
    prefix = _text(block[345:500]) if block[257:263] == b"ustar\0" else ""
    return f"{prefix}/{name}" if prefix else name


def _text(field: bytes) -> str:
    return field.partition(b"\0")[0].decode("utf-8", "surrogateescape")


def _number(field: bytes) -> int:
    """Return a number in octal, or in GNU's form for those that are too large for it."""
    if field[0] == 0x80:  # noqa: PLR2004  # the mark of that form
        return int.from_bytes(field[1:], "big")
    digits = field.partition(b"\0")[0].strip(b" ")
    if not _OCTAL.issuperset(digits):
        raise UnreadableError(_DAMAGED)
    return int(digits or b"0", 8)


def _decimal(text: str) -> int:
    if not (text.isascii() and text.isdigit() and len(text) < 20):  # noqa: PLR2004  # beyond 2^63
        raise UnreadableError("a header of it has a size that is no number")
    return int(text)


def _pax_records(data: bytes) -> dict[str, str]:
    """Return the records `LENGTH KEY=VALUE` of an extended header."""
    records: dict[str, str] = {}
    position = 0
    while position < len(data):
        digits = data[position : position + 8].partition(b" ")[0]
        length = int(digits) if digits.isdigit() else 0
        record = data[position : position + length]
        key, equals, value = record[len(digits) + 1 : -1].partition(b"=")
        if len(record) != length or not equals or record[-1:] != b"\n":
            raise UnreadableError("an extended header of it is malformed")
        name = key.decode("utf-8", "replace")
        if name in _PAX_MEANT or name == "GNU.sparse.name":
            records[name] = value.decode("utf-8", "surrogateescape")
        position += length
    return records
