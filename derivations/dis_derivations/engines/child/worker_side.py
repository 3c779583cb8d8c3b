"""The worker's side of the pipes: what every worker program does whatever its engine is.

A worker runs where dis is not installed, so this file is laid beside its program with `frames.py`, and imports nothing
but that and the standard library.
"""

import ctypes
import importlib
import os
import platform
import select
import signal
import sys
import threading
import traceback
from array import array
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, Protocol

_PR_SET_PDEATHSIG = 1
_BOOT = Path("/proc/sys/kernel/random/boot_id")
_STANDARD = (0, 1)
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


OpenEngine = Callable[[Conversation, str, Mapping[str, Any]], WorkerEngine]


def serve(program: str, open_engine: OpenEngine, descriptors: Sequence[str]) -> int:
    """Speak with dis until it has nothing more to ask, and return an exit code.

    Args:
        program: What this worker is called.
        open_engine: Loads the model in a directory with settings; a ValueError refuses them.
        descriptors: Of the pipes, as the command line has them; `0 1` where a container has no others.
    """
    incoming, outgoing = map(int, descriptors)
    is_contained = (incoming, outgoing) == _STANDARD
    if is_contained:
        incoming, outgoing = take_standard_streams()
        die_with_stream(incoming)
    else:
        die_with_parent()
    status = _serve(program, open_engine, incoming, outgoing)
    if is_contained:
        # An interpreter that ends would meet the thread that waits for this very end.
        sys.stdout.flush()
        sys.stderr.flush()
        os._exit(status)
    return status


def _serve(program: str, open_engine: OpenEngine, incoming: int, outgoing: int) -> int:
    frames = importlib.import_module("frames")
    talk = Conversation(frames, incoming, outgoing)
    try:
        _converse(talk, frames.PROTOCOL, program, open_engine)
    except (EOFError, BrokenPipeError):
        return 1  # dis is gone
    except Exception as error:  # noqa: BLE001 - whatever goes wrong, dis is told
        talk.fail(error)
        return 1
    return 0


def _converse(talk: Conversation, protocol: int, program: str, open_engine: OpenEngine) -> None:
    """Say hello, open one model, generate as often as asked."""
    talk.send({"type": "hello", "protocol": protocol, "program": program, **whereabouts()})
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


def whereabouts() -> dict[str, Any]:
    """Return what interpreter this is, in the words that dis has for it, and on which machine since which start."""
    name, version = platform.libc_ver()
    interpreter = {
        "python": f"{sys.implementation.name} {platform.python_version()}",
        "libc": f"{name} {version}".strip(),
        "machine": platform.machine(),
    }
    try:
        boot = _BOOT.read_text("ascii").strip()
    except OSError:
        boot = ""
    return {"interpreter": interpreter, "boot": boot}


def take_standard_streams() -> tuple[int, int]:
    """Return standard input and output under other numbers, which nothing else knows.

    What a library reads is then nothing, and what it prints goes where errors go, so that no word of it is taken for a
    message.
    """
    taken = os.dup(0), os.dup(1)
    nothing = os.open(os.devnull, os.O_RDONLY)
    os.dup2(nothing, 0)
    os.close(nothing)
    os.dup2(2, 1)
    return taken


def die_with_stream(incoming: int) -> None:
    """End this process when nobody can write to a stream any more: in a container nothing else tells that dis ended."""

    def watch() -> None:
        poll = select.poll()
        poll.register(incoming, 0)  # the end is told without being asked for
        poll.poll()
        os._exit(1)

    threading.Thread(target=watch, daemon=True).start()


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
