"""Following the frames of a Zstandard stream, to know whether it ends where one does (RFC 8878, section 3.1)."""

from collections.abc import Callable

_FRAME = 0xFD2FB528
_SKIPPABLE = 0x184D2A50
_SKIPPABLE_MASK = 0xFFFFFFF0
_RLE = 1
_CHECKSUM_BYTES = 4
_DICTIONARY_BYTES = (0, 1, 2, 4)
_CONTENT_SIZE_BYTES = (0, 2, 4, 8)


class FrameFollower:
    """Reads along with a decompressor, which does not tell a stream that was cut off from one that has ended.

    Only lengths are looked at; what is no frame is left to the decompressor to refuse.
    """

    def __init__(self) -> None:
        self._held = b""
        self._to_pass = 0
        self._has_checksum = False
        self._expect(self._begin, 4)

    @property
    def between_frames(self) -> bool:
        """Whether all that was fed so far is whole frames."""
        return self._read == self._begin and not self._to_pass and not self._held

    def feed(self, data: bytes) -> None:
        """Follow the next bytes of the stream."""
        position = 0
        while position < len(data):
            if self._to_pass:
                passed = min(self._to_pass, len(data) - position)
                self._to_pass -= passed
                position += passed
                continue
            taken = data[position : position + self._wanted - len(self._held)]
            self._held += taken
            position += len(taken)
            if len(self._held) == self._wanted:
                number, self._held = int.from_bytes(self._held, "little"), b""
                self._read(number)

    def _expect(self, read: Callable[[int], None], wanted: int) -> None:
        self._read, self._wanted = read, wanted

    def _begin(self, magic: int) -> None:
        if magic == _FRAME:
            self._expect(self._describe, 1)
        elif magic & _SKIPPABLE_MASK == _SKIPPABLE:
            self._expect(self._skip, 4)

    def _skip(self, size: int) -> None:
        self._to_pass = size
        self._expect(self._begin, 4)

    def _describe(self, descriptor: int) -> None:
        single_segment = descriptor >> 5 & 1
        self._has_checksum = bool(descriptor >> 2 & 1)
        content_size = _CONTENT_SIZE_BYTES[descriptor >> 6] or single_segment
        window = 0 if single_segment else 1
        self._to_pass = window + _DICTIONARY_BYTES[descriptor & 3] + content_size
        self._expect(self._block, 3)

    def _block(self, header: int) -> None:
        is_last, kind, size = header & 1, header >> 1 & 3, header >> 3
        self._to_pass = 1 if kind == _RLE else size
        if is_last:
            self._to_pass += _CHECKSUM_BYTES if self._has_checksum else 0
            self._expect(self._begin, 4)
