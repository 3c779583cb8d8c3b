"""A program whose stderr is a terminal, and what is seen on it."""

import fcntl
import os
import pty
import select
import struct
import subprocess
import termios
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Self

from screen import Screen

_PATIENCE_SECONDS = 60


@dataclass
class OnTerminal:
    """A process with stderr on a terminal, and stdin too if it is `typed`; the rest is piped. A context manager."""

    argv: Sequence[str]
    environment: dict[str, str]
    columns: int = 80
    rows: int = 24
    typed: bool = False
    written: str = ""
    _master: int = -1
    _rest: bytes = b""
    process: "subprocess.Popen[bytes]" = field(init=False)

    def __enter__(self) -> Self:
        self._master, slave = pty.openpty()
        self._set_size(slave)
        self.process = subprocess.Popen(
            self.argv,
            env=self.environment,
            stdin=slave if self.typed else subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=slave,
        )
        os.close(slave)
        return self

    def __exit__(self, *_: object) -> None:
        self.hang_up()
        self.process.kill()
        self.process.communicate()

    def resize(self, columns: int) -> None:
        """Change the width of the terminal."""
        self.columns = columns
        self._set_size(self._master)

    def type(self, text: str) -> None:
        """Type something on the terminal."""
        os.write(self._master, text.encode())

    def read_until(self, seen: Callable[[str], bool]) -> str:
        """Read what is written until it is as `seen` wants it; return all that was written so far."""
        while not seen(self.written):
            assert self._read_some(), f"the program ended with {self.written!r}"
        return self.written

    def finish(self) -> tuple[int, str]:
        """Wait for the end of the program; return its exit code and its stdout."""
        while self._read_some():
            pass
        out, _ = self.process.communicate(timeout=_PATIENCE_SECONDS)
        return self.process.returncode, out.decode()

    def hang_up(self) -> None:
        """Take the terminal away."""
        if self._master >= 0:
            os.close(self._master)
            self._master = -1

    @property
    def screen(self) -> Screen:
        """What is on the terminal, if it always had its present size."""
        screen = Screen(self.columns, self.rows)
        screen.feed(self.written)
        return screen

    def _read_some(self) -> bool:
        ready, _, _ = select.select([self._master], [], [], _PATIENCE_SECONDS)
        assert ready, f"nothing more came after {self.written!r}"
        try:
            data = os.read(self._master, 1 << 16)
        except OSError:  # EIO: nobody has the other end any more
            return False
        self._rest += data
        text = self._rest.decode(errors="ignore")
        complete = self._rest[: len(text.encode())]
        if complete.decode(errors="replace") == text:
            self.written += text.replace("\r\n", "\n")
            self._rest = self._rest[len(complete) :]
        return True

    def _set_size(self, descriptor: int) -> None:
        size = struct.pack("HHHH", self.rows, self.columns, 0, 0)
        fcntl.ioctl(descriptor, termios.TIOCSWINSZ, size)
