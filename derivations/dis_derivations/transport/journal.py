"""What is written down of an unfinished transfer, so that the next process can go on.

A process may be killed at any time: what it had written is still in the memory of the system, so bytes count from when
they are noted, here or in `positions`. After a restart of the machine only those count that the disk was waited for.
"""

import json
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

from dis_derivations.transport.answer import Version
from dis_derivations.transport.extents import Extent, Extents
from dis_store import strict_json
from dis_store.errors import DisError

_FORMAT = 1


@dataclass(frozen=True)
class Journal:
    """The state of a transfer.

    Attributes:
        version: Which version of the file the bytes are of.
        arrived: What has been written.
        lasting: What the disk was waited for.
        boot: Since which start of the machine.
    """

    version: Version
    arrived: tuple[Extent, ...]
    lasting: tuple[Extent, ...]
    boot: str

    def encode(self) -> bytes:
        """Return it as JSON."""
        return json.dumps(
            {
                "format": _FORMAT,
                "size": self.version.size,
                "etag": self.version.etag,
                "modified": self.version.modified,
                "arrived": self.arrived,
                "lasting": self.lasting,
                "boot": self.boot,
            }
        ).encode()

    def usable(self, boot: str) -> Extents:
        """Return what can be relied on in this run of the machine."""
        return Extents(self.arrived if self.boot == boot else self.lasting)


def decode(data: bytes, length: int) -> Journal | None:
    """Return a journal; None where it is damaged, or says more than a file of `length` bytes can hold."""
    try:
        document = strict_json.decode(data, name="the journal of a download")
        if document["format"] != _FORMAT:
            return None
        journal = Journal(
            Version(_size(document["size"]), _text(document["etag"]), _text(document["modified"])),
            tuple(_extents(document["arrived"], length)),
            tuple(_extents(document["lasting"], length)),
            str(document["boot"]),
        )
    except (DisError, KeyError, TypeError, ValueError):
        return None
    # Without a size nothing can be asked for that would fit.
    return None if journal.version.size is None else journal


def _size(value: Any) -> int:
    if type(value) is not int or value < 0:
        raise ValueError
    return value


def _text(value: Any) -> str | None:
    if value is not None and not isinstance(value, str):
        raise TypeError
    return value


def _extents(value: Any, length: int) -> Iterable[Extent]:
    for start, end in value:
        if type(start) is not int or type(end) is not int or not 0 <= start < end <= length:
            raise ValueError
        yield start, end
