"""Hashing large files as fast as memory allows, by a process that maps them (`mapped_reader`).

Reading copies every byte once, and that copy costs nearly as much as BLAKE3. A file that cannot be mapped, or that ends
the other process, is read in this one, which tells why.
"""

import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from types import TracebackType
from typing import IO, Self

from dis_store.digest import Digest
from dis_store.integrity.inspection import hash_file
from dis_store.work_progress import uncounted

_PROGRAM = Path(__file__).with_name("mapped_reader.py")


class MappedHasher:
    """Hashes one file after the other, each with all `threads`. A context manager; for one thread to use."""

    def __init__(self, *, threads: int) -> None:
        self._threads = threads
        self._reader: _Reader | None = None

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        self._give_up()

    def digest_of(
        self, path: Path, on_bytes: Callable[[int], None] = uncounted
    ) -> Digest | OSError:
        """Return the BLAKE3 of a file, or the error that kept it from being read.

        Args:
            path: The file.
            on_bytes: Called with the number of bytes of each piece.
        """
        counter = _Counter(on_bytes)
        digest = self._ask(path, counter)
        if digest is not None:
            return digest
        counter.start_over()
        return hash_file(path, threads=self._threads, on_bytes=counter)

    def _ask(self, path: Path, on_bytes: Callable[[int], None]) -> Digest | None:
        """Return what the other process says; None if it cannot tell."""
        try:
            self._reader = self._reader or _Reader(self._threads)
            answer = self._reader.ask(path, on_bytes)
        except OSError:
            answer = b""
        if not answer:
            # It is gone, or could not be started. The next file starts another one.
            self._give_up()
        return Digest(answer[1:].decode()) if answer.startswith(b"=") else None

    def _give_up(self) -> None:
        if self._reader is not None:
            self._reader.end()
            self._reader = None


class _Reader:
    """The other process."""

    def __init__(self, threads: int) -> None:
        self._process = subprocess.Popen(  # noqa: S603 - our own program
            [sys.executable, "-P", str(_PROGRAM), str(threads)],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
        )

    def ask(self, path: Path, on_bytes: Callable[[int], None]) -> bytes:
        """Return the last line of the answer; empty when the process ended."""
        questions, answers = _opened(self._process.stdin), _opened(self._process.stdout)
        questions.write(os.fsencode(path) + b"\0")
        questions.flush()
        while (line := answers.readline()).startswith(b"+"):
            on_bytes(int(line[1:]))
        return line.rstrip(b"\n")

    def end(self) -> None:
        """End the process, whatever it is doing."""
        self._process.kill()
        self._process.communicate()


def _opened(pipe: IO[bytes] | None) -> IO[bytes]:
    if pipe is None:
        raise BrokenPipeError
    return pipe


class _Counter:
    """Passes on how many bytes were read, those that are read twice only once."""

    def __init__(self, on_bytes: Callable[[int], None]) -> None:
        self._on_bytes = on_bytes
        self._told = 0
        self._skipped = 0

    def __call__(self, amount: int) -> None:
        again = min(amount, self._skipped)
        self._skipped -= again
        self._told += amount - again
        self._on_bytes(amount - again)

    def start_over(self) -> None:
        """Take note that the file is read from its start again."""
        self._skipped = self._told
