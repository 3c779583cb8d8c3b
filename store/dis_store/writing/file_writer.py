"""Writing one file of a new object piece by piece, hashed on the way."""

import os
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from types import TracebackType
from typing import Self

from dis_store.digest import Digest, Sha256
from dis_store.environment import reported
from dis_store.errors import InvalidInputError
from dis_store.hashing import CHUNK_BYTES, Content, ContentHasher, computed
from dis_store.platform_linux import start_writeback, write_all
from dis_store.writing.ingestion import WRITEBACK_BYTES, Way


@dataclass(frozen=True)
class WrittenFile:
    """A file of a new object.

    Attributes:
        path: Where in the object.
        size: In bytes.
        blake3: Its digest.
        known_sha256: Its SHA-256; None if it was not computed.
        executable: Whether it may be executed.
        way: How it came in, where it was taken from another file; None where its bytes were written.
    """

    path: str
    size: int
    blake3: Digest
    known_sha256: Sha256 | None
    executable: bool
    way: Way | None = None

    @property
    def sha256(self) -> Sha256:
        """Its SHA-256, which was computed.

        Raises:
            InvalidInputError: It was not.
        """
        return computed(self.known_sha256)


class FileWriter:
    """A file in the making. A context manager: an error inside it gives the file up.

    Args:
        descriptor: The empty file, which this object closes.
        store: The store, for messages.
        accept: Called once with the content when the file is complete; it may refuse by raising.
        give_up: Called once when it is not to be.
    """

    def __init__(
        self,
        descriptor: int,
        *,
        store: Path,
        accept: Callable[[Content], WrittenFile],
        give_up: Callable[[], None],
    ) -> None:
        self._descriptor = descriptor
        self._store = store
        self._accept = accept
        self._give_up = give_up
        self._hasher = ContentHasher()
        self._buffer = bytearray()
        self._position = 0
        self._open = True
        self._written: WrittenFile | None = None

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        if error is None:
            self.close()
        else:
            self.abandon()

    def write(self, data: bytes | bytearray | memoryview) -> int:
        """Append `data`; return its length.

        Raises:
            UnfitEnvironmentError: The disk is full or refuses.
            InvalidInputError: The file is closed.
        """
        if not self._open:
            raise InvalidInputError("a file of a tree cannot be written", cause="it is closed")
        if isinstance(data, bytes) and len(data) >= CHUNK_BYTES:
            self._flush()
            self._put(data)
        else:
            self._buffer += data
            if len(self._buffer) >= CHUNK_BYTES:
                self._flush()
        return len(data)

    def close(self) -> WrittenFile:
        """Finish the file; return what it became. A second call returns the same.

        Raises:
            UnfitEnvironmentError: The disk is full or refuses.
            InvalidInputError: The file was given up.
        """
        if self._open:
            try:
                self._flush()
                written = self._accept(self._hasher.finish())
            except BaseException:
                self.abandon()
                raise
            self._written = written
            self._release()
        return self.written

    def abandon(self) -> None:
        """Give the file up; its path is free again."""
        if self._open:
            self._hasher.abandon()
            self._release()
            self._give_up()

    @property
    def written(self) -> WrittenFile:
        """What the file became.

        Raises:
            InvalidInputError: It is not finished.
        """
        if self._written is None:
            raise InvalidInputError("a file of a tree has no digest", cause="it was not finished")
        return self._written

    def _release(self) -> None:
        self._open = False
        os.close(self._descriptor)

    def _flush(self) -> None:
        if self._buffer:
            # A copy that nobody can change: SHA-256 may read it later, in its own thread.
            piece, self._buffer = bytes(self._buffer), bytearray()
            self._put(piece)

    def _put(self, piece: bytes) -> None:
        with reported(self._store):
            write_all(self._descriptor, piece)
            self._hasher.update(piece)
            before, self._position = self._position, self._position + len(piece)
            if before // WRITEBACK_BYTES != self._position // WRITEBACK_BYTES:
                start_writeback(self._descriptor, before, len(piece))
