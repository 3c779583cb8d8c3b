"""How far each thread of a transfer has come, written down after every piece: a kill costs what was on its way.

The journal of a transfer is a new file each time, which is too dear after every piece. Here each thread has a place in
one file and overwrites it. What was written stays in the memory of the system when the process is killed, and nothing
in here counts after a restart of the machine, or for another version of the file.
"""

import os
from collections.abc import Iterator
from json import dumps
from struct import Struct

from blake3 import blake3

from dis_derivations.transport.answer import Version
from dis_derivations.transport.extents import Extent

_RECORD = Struct("<QQ16s")
_MARK_BYTES = 16
# More threads than a transfer ever has; what comes after them in the file is not read.
_MOST_RECORDS = 4096


class Positions:
    """The places of the threads of one transfer.

    Args:
        descriptor: The file, which stays the caller's.
        boot: Since which start of the machine its bytes count.
    """

    def __init__(self, descriptor: int, boot: str) -> None:
        self._descriptor = descriptor
        self._boot = boot
        self._version: Version | None = None
        self._key = b""

    def note(self, slot: int, version: Version, start: int, end: int) -> None:
        """Note that the bytes from `start` to before `end` are in the file: they must have been written before.

        Args:
            slot: The number of the thread; what it noted before is forgotten.
            version: What the bytes are of.
            start: The first byte.
            end: The one after the last.
        """
        record = _RECORD.pack(start, end, self._mark(version, start, end))
        os.pwrite(self._descriptor, record, slot * _RECORD.size)

    def read(self, version: Version, length: int) -> Iterator[Extent]:
        """Yield what was noted of a version; what is torn, or says more than `length` bytes hold, is left out."""
        data = os.pread(self._descriptor, _MOST_RECORDS * _RECORD.size, 0)
        whole = len(data) - len(data) % _RECORD.size
        for start, end, mark in _RECORD.iter_unpack(data[:whole]):
            if start < end <= length and mark == self._mark(version, start, end):
                yield start, end

    def _mark(self, version: Version, start: int, end: int) -> bytes:
        if version != self._version:
            told = [self._boot, version.size, version.etag, version.modified]
            self._version, self._key = version, blake3(dumps(told).encode()).digest()
        return blake3(_RECORD.pack(start, end, b""), key=self._key).digest(_MARK_BYTES)
