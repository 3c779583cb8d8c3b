"""The worker's side of the pipes: what every worker program does whatever its engine is.

A worker runs where dis is not installed, so this file is laid beside its program with `frames.py`, and imports nothing
but that and the standard library.
"""

import ctypes
import importlib
import os
import platform
import signal
import sys
import traceback
from array import array
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any, Protocol

_PR_SET_PDEATHSIG = 1
_MOST_ERROR = 4000
_MOST_TRACE = 1 << 19


class RefusedError(Exception):
    """What was asked for cannot be done, and nothing is broken."""


class Conversation:
    """Frames from and to dis.

    Args:
        frames: The module.
        incoming: The descriptor that messages are read from.
        outgoing: The one that they are written to.
    """

    def __init__(self, frames: Any, incoming: int, outgoing: int) -> None:
        self._frames = frames
        self._incoming = os.fdopen(incoming, "rb")
        self._outgoing = os.fdopen(outgoing, "wb")

    def receive(self, expected: Sequence[str]) -> tuple[dict[str, Any], bytes]:
        """Return the next message, which must be of one of these types.

        Raises:
            EOFError: dis is gone.
        """
        header, payload = self._frames.read_frame(self._read)
        if header.get("type") not in expected:
            raise ValueError(f"dis sent {header.get('type')!r} in place of {' or '.join(expected)}")
        return header, payload

    def send(self, header: dict[str, Any], payload: bytes = b"") -> None:
        """Send one message."""
        self._outgoing.write(self._frames.encode_prefix(header, len(payload)))
        self._outgoing.write(payload)
        self._outgoing.flush()

    def say(self, text: str) -> None:
        """Tell dis a line about what is done."""
        self.send({"type": "progress", "text": text})

    def fail(self, error: BaseException) -> None:
        """Tell dis why this ends: one line, and the traceback for the log."""
        lines = (line.strip() for line in str(error).splitlines())
        first = next((line for line in lines if line), "")
        named = first if isinstance(error, RefusedError) else f"{type(error).__name__}: {first}"
        self.send(
            {
                "type": "failed",
                "refused": isinstance(error, (RefusedError, NotImplementedError)),
                "error": named[:_MOST_ERROR],
                "traceback": traceback.format_exc()[-_MOST_TRACE:],
            }
        )

    def _read(self, count: int) -> bytes:
        data = self._incoming.read(count)
        if len(data) < count:
            raise EOFError
        return data


class WorkerEngine(Protocol):
    """A loaded model."""

    def identity(self) -> dict[str, Any]:
        """Return what the engine really uses and can change a bit."""
        ...

    def environment(self) -> dict[str, Any]:
        """Return what was observed beside that."""
        ...

    def generate(self, header: Mapping[str, Any], ids: bytes) -> dict[str, Any]:
        """Answer a message `generate`; return the last message."""
        ...


def serve(
    program: str,
    open_engine: Callable[[Conversation, str, Mapping[str, Any]], WorkerEngine],
    descriptors: Sequence[str],
) -> int:
    """Speak with dis until it has nothing more to ask, and return an exit code.

    Args:
        program: What this worker is called.
        open_engine: Loads the model in a directory with settings; a ValueError refuses them.
        descriptors: Of the pipes, as the command line has them.
    """
    die_with_parent()
    frames = importlib.import_module("frames")
    incoming, outgoing = map(int, descriptors)
    talk = Conversation(frames, incoming, outgoing)
    try:
        _converse(talk, frames.PROTOCOL, program, open_engine)
    except (EOFError, BrokenPipeError):
        return 1  # dis is gone
    except Exception as error:  # noqa: BLE001 - whatever goes wrong, dis is told
        talk.fail(error)
        return 1
    return 0


def _converse(
    talk: Conversation,
    protocol: int,
    program: str,
    open_engine: Callable[[Conversation, str, Mapping[str, Any]], WorkerEngine],
) -> None:
    """Say hello, open one model, generate as often as asked."""
    python = platform.python_version()
    talk.send({"type": "hello", "protocol": protocol, "program": program, "python": python})
    header, _ = talk.receive(["open", "shutdown"])
    if header["type"] == "shutdown":
        return
    if header["protocol"] != protocol:
        raise ValueError(f"dis speaks version {header['protocol']} of the protocol")
    try:
        engine = open_engine(talk, header["model"], header["settings"])
    except ValueError as error:
        raise RefusedError(str(error).strip() or type(error).__name__) from error
    talk.send(
        {"type": "opened", "identity": engine.identity(), "environment": engine.environment()}
    )
    while True:
        header, ids = talk.receive(["generate", "shutdown"])
        if header["type"] == "shutdown":
            return
        talk.send(engine.generate(header, ids))


def die_with_parent() -> None:
    """Let the kernel end this process when dis ends, however that comes about."""
    parent = os.getppid()
    ctypes.CDLL(None).prctl(_PR_SET_PDEATHSIG, signal.SIGKILL)
    if os.getppid() != parent:
        os._exit(1)


def split(ids: bytes, lengths: Sequence[int]) -> Iterator[list[int]]:
    """Yield the prompts of which all token ids came one after the other."""
    numbers = array("i")
    numbers.frombytes(ids)
    if sys.byteorder == "big":
        numbers.byteswap()
    if len(numbers) != sum(lengths):
        raise ValueError(f"{len(numbers)} token ids came in place of {sum(lengths)}")
    start = 0
    for length in lengths:
        yield numbers[start : start + length].tolist()
        start += length


def dtype_name(dtype: Any) -> str:
    """Return what torch calls a number format, without torch's name."""
    return str(dtype).removeprefix("torch.")


def tensor_bytes(torch: Any, tensor: Any) -> bytes:
    """Return the bits of a tensor, whatever its format."""
    flat = tensor.detach().to("cpu").contiguous().reshape(-1)
    return bytes(flat.view(torch.uint8).numpy().data) if flat.numel() else b""


def versions(names: Sequence[str]) -> dict[str, str]:
    """Return the versions of those of these distributions that are installed."""
    metadata = importlib.import_module("importlib.metadata")
    found = {}
    for name in names:
        try:
            found[name] = str(metadata.version(name))
        except metadata.PackageNotFoundError:
            continue
    return found
