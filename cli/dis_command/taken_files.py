"""How files came into the store, and how much was written for it."""

import threading
from collections import Counter
from typing import TYPE_CHECKING, Any

from dis_command.terminal import count_text, size_text

if TYPE_CHECKING:
    from dis_store import WrittenFile

# In the order in which they are tried, with what a person is told.
_WAYS = {
    "move": "moved",
    "reflink": "sharing blocks (reflink)",
    "copy": "copied",
}
_WITHOUT_WRITING = frozenset({"move", "reflink"})


class Taken:
    """Counts files by the way in which they came; from several threads."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._files: Counter[str] = Counter()
        self._bytes: Counter[str] = Counter()

    def add(self, file: "WrittenFile") -> None:
        """Count a file."""
        if file.way is not None:
            with self._lock:
                self._files[file.way] += 1
                self._bytes[file.way] += file.size

    @property
    def written(self) -> int:
        """How many bytes of files were written."""
        return sum(size for way, size in self._bytes.items() if way not in _WITHOUT_WRITING)

    def __str__(self) -> str:
        """Return a line for people."""
        ways = [
            f"{count_text(self._files[way], 'file')} {text}"
            for way, text in _WAYS.items()
            if self._files[way]
        ]
        return f"{', '.join(ways)}; {size_text(self.written)} written"

    def as_json(self) -> dict[str, Any]:
        """Return what a document says of it."""
        ways = {
            way: {"files": self._files[way], "bytes": self._bytes[way]}
            for way in _WAYS
            if self._files[way]
        }
        return {"ways": ways, "bytes_written": self.written}
