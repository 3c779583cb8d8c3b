"""Reading a tar archive of which every byte that is no content is known beforehand.

What stands before a member, between two members and after the last one must be what the writer of such archives puts
there. So there are no links, devices, sparse files, extended headers or negative sizes to be careful with, and two
readers cannot see two archives.
"""

from collections.abc import Callable, Iterator
from typing import BinaryIO, NoReturn

from dis_store.errors import IntegrityError, InvalidInputError
from dis_store.hashing import CHUNK_BYTES

BLOCK_BYTES = 512
_END_BYTES = 2 * BLOCK_BYTES
_SIZE_FIELD = slice(124, 135)
_OCTAL = frozenset(b"01234567")


class TarReader:
    """The members of an archive, one after the other.

    Args:
        stream: Read once, in order; a pipe is enough.
        name: What messages call the archive.
        kind: What it should be: `an archive of closures`.
        header: Gives the blocks that stand before a member of a name and a size.
        record_bytes: What the length of an archive is a multiple of.
    """

    def __init__(
        self,
        stream: BinaryIO,
        *,
        name: str,
        kind: str,
        header: Callable[[str, int], bytes],
        record_bytes: int,
    ) -> None:
        self._stream = stream
        self._name = name
        self._kind = kind
        self._header = header
        self._record_bytes = record_bytes
        self._position = 0
        self._next = b""

    def next_block(self) -> bytes:
        """Return the first block of what comes next, and leave it there."""
        if not self._next:
            self._next = self._read(BLOCK_BYTES)
        return self._next

    def document(self, name: Callable[[bytes], str], limit: int) -> bytes:
        """Return the content of the next member, which must have the name that its content asks for.

        Raises:
            InvalidInputError: It has another name, or more than `limit` bytes.
            IntegrityError: The archive ends too early.
        """
        size = _size(self.next_block())
        if size is None or size > limit:
            self.refuse(f"where a document belongs it has none of at most {limit} bytes")
        block = self._taken(BLOCK_BYTES)
        data = self._read(size)
        if block != self._header(name(data), size):
            self.refuse(f"what stands before {name(data)} is not what belongs there")
        self._skip_padding(size)
        return data

    def chunks(self, name: str, size: int) -> Iterator[bytes]:
        """Yield the content of the next member, which must have this name and size.

        Raises:
            InvalidInputError: Another member comes next.
            IntegrityError: The archive ends too early.
        """
        expected = self._header(name, size)
        if self._taken(len(expected)) != expected:
            self.refuse(f"what stands before {name} is not what belongs there")
        left = size
        while left:
            chunk = self._read(min(left, CHUNK_BYTES))
            left -= len(chunk)
            yield chunk
        self._skip_padding(size)

    def check_end(self) -> None:
        """Refuse whatever comes after the last member.

        Raises:
            InvalidInputError: Something does.
            IntegrityError: The archive ends too early.
        """
        if self._next:
            self.refuse("something follows its last file")
        size = _END_BYTES + -(self._position + _END_BYTES) % self._record_bytes
        if self._read(size) != bytes(size) or self._stream.read(1):
            self.refuse("something follows its last file")

    def refuse(self, cause: str) -> NoReturn:
        """Refuse the archive."""
        raise InvalidInputError(f"{self._name} is not {self._kind}", cause=cause)

    def damaged(self, cause: str) -> NoReturn:
        """Refuse the archive as one that was whole."""
        raise IntegrityError(f"{self._name} is damaged", cause=cause)

    def _taken(self, size: int) -> bytes:
        """Return the next blocks, the one that was looked at included."""
        first, self._next = self.next_block(), b""
        return first + self._read(size - len(first))

    def _skip_padding(self, size: int) -> None:
        expected = padding(size)
        if self._read(len(expected)) != expected:
            self.refuse("there is something between two of its files")

    def _read(self, size: int) -> bytes:
        data = bytearray()
        while len(data) < size:
            # A pipe gives what it has.
            piece = self._stream.read(min(size - len(data), CHUNK_BYTES))
            if not piece:
                self.damaged("it ends too early")
            data += piece
        self._position += size
        return bytes(data)


def padding(size: int) -> bytes:
    """Return what follows a member of `size` bytes, up to the next block."""
    return bytes(-size % BLOCK_BYTES)


def _size(block: bytes) -> int | None:
    """Return what the size field of a header says, octal as for all members of less than 8 GiB."""
    field = block[_SIZE_FIELD]
    # int() takes signs, underscores and spaces as well.
    return int(field, 8) if _OCTAL.issuperset(field) else None
