"""What a worker tells dis, each message as typed values; anything else is refused.

The messages, in order (docs/internals/engine-workers.md):

    worker → dis   hello      before anything heavy is imported
    dis → worker   open       the model directory and every setting
    worker → dis   opened     what the engine says of itself
    dis → worker   generate   requests as token ids, in fixed groups, and what to capture
    worker → dis   tensor     captured rows, bits as they were computed
    worker → dis   step       one step of the engine: who was in it, what was chosen
    dis → worker   go_on      after each step of a steered generation
    worker → dis   generated  the end
    dis → worker   shutdown

and at any time, from the worker, `progress` and `failed`.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from math import prod
from typing import Any, Literal

from dis_derivations.engines.child.frames import PROTOCOL, FrameError

ITEM_BYTES: Mapping[str, int] = {"float64": 8, "float32": 4, "float16": 2, "bfloat16": 2}
"""The number formats of tensors, by the names that manifests use."""

INTERPRETER_FACTS = ("python", "libc", "machine")

_MOST_TEXT = 1 << 20


@dataclass(frozen=True)
class Hello:
    """The worker is there.

    Attributes:
        program: Which worker it is.
        interpreter: What runs it: `python`, `libc` and `machine`, in the words of the platform facts of an interpreter.
        boot: The word by which the kernel tells one start of a machine from all others; empty where it has none.
    """

    program: str
    interpreter: Mapping[str, str]
    boot: str


@dataclass(frozen=True)
class Opened:
    """The model is loaded.

    Attributes:
        identity: What the engine says of itself and can change a bit: effective settings, versions.
        environment: What was observed beside it; for the log alone.
    """

    identity: Mapping[str, Any]
    environment: Mapping[str, Any]


@dataclass(frozen=True)
class Tensor:
    """Captured rows of one request.

    Attributes:
        kind: `logits`, or `activations`.
        request: The number of the request.
        phase: Of the rows.
        layer: Of activations, the layer after which they were taken.
        dtype: The format that the engine computed them in, kept bit by bit.
        shape: [rows, width].
        data: Little-endian.
    """

    kind: Literal["logits", "activations"]
    request: int
    phase: Literal["prefill", "decode"]
    layer: int | None
    dtype: str
    shape: tuple[int, int]
    data: bytes


@dataclass(frozen=True)
class Step:
    """One step of the engine.

    Attributes:
        computed: In the order of the batch, the number of each request and the positions computed for it.
        tokens: The tokens chosen, by the number of the request.
        finished: The requests that ended with this step, each with `stop` or `length`.
    """

    computed: tuple[tuple[int, int], ...]
    tokens: tuple[tuple[int, tuple[int, ...]], ...]
    finished: tuple[tuple[int, str], ...]


@dataclass(frozen=True)
class Generated:
    """All requests are finished.

    Attributes:
        preemptions: How often a request was thrown out of the batch and computed again.
        cached_tokens: Positions that were taken from an earlier request in place of being computed.
    """

    preemptions: int
    cached_tokens: int


@dataclass(frozen=True)
class Said:
    """A line about what the worker does."""

    text: str


@dataclass(frozen=True)
class Failed:
    """The worker gives up.

    Attributes:
        refused: What was asked for cannot be done, as against something that went wrong.
        error: One line.
        trace: For the log.
    """

    refused: bool
    error: str
    trace: str


Message = Hello | Opened | Tensor | Step | Generated | Said | Failed


def parse(header: Mapping[str, Any], payload: bytes) -> Message:
    """Return the message of a frame.

    Raises:
        FrameError: It is none that a worker may send.
    """
    kind = header.get("type")
    reader = _READERS.get(kind) if isinstance(kind, str) else None
    if reader is None:
        raise FrameError(f"a message of the unknown type {kind!r:.80}")
    fields, read = reader
    if set(header) != {"type", *fields}:
        raise FrameError(f"a message {kind!r} with the fields {sorted(header)!r:.400}")
    if payload and kind != "tensor":
        raise FrameError(f"a message {kind!r} with a payload")
    try:
        return read(header, payload)
    except (KeyError, TypeError, ValueError) as error:
        raise FrameError(f"a malformed message {kind!r}: {error}") from error


def _hello(header: Mapping[str, Any], _: bytes) -> Message:
    if header["protocol"] != PROTOCOL:
        raise FrameError(
            f"the worker speaks version {header['protocol']!r:.40} of the protocol, and not {PROTOCOL}"
        )
    interpreter = {name: _text(header["interpreter"][name]) for name in INTERPRETER_FACTS}
    if set(header["interpreter"]) != set(INTERPRETER_FACTS):
        raise ValueError("more of an interpreter than there is to tell")
    return Hello(_text(header["program"]), interpreter, _text(header["boot"]))


def _opened(header: Mapping[str, Any], _: bytes) -> Message:
    return Opened(_object(header["identity"]), _object(header["environment"]))


def _tensor(header: Mapping[str, Any], payload: bytes) -> Message:
    kind, phase, dtype, layer = (header[name] for name in ("kind", "phase", "dtype", "layer"))
    rows, width = header["shape"]
    shape = (_count(rows), _count(width))
    if kind not in {"logits", "activations"} or phase not in {"prefill", "decode"}:
        raise ValueError(f"{kind!r:.40} of the phase {phase!r:.40}")
    if (layer is None) != (kind == "logits"):
        raise ValueError("activations are of a layer, and logits are not")
    if dtype not in ITEM_BYTES:
        raise ValueError(f"numbers of the format {dtype!r:.40}")
    if len(payload) != prod(shape) * ITEM_BYTES[dtype]:
        raise ValueError(f"{len(payload)} bytes for {rows} rows of {width} numbers of {dtype}")
    at = None if layer is None else _count(layer)
    return Tensor(kind, _count(header["request"]), phase, at, dtype, shape, payload)


def _step(header: Mapping[str, Any], _: bytes) -> Message:
    finished = tuple((_count(index), str(reason)) for index, reason in header["finished"])
    if any(reason not in {"stop", "length"} for _, reason in finished):
        raise ValueError("a request that ended neither with `stop` nor with `length`")
    return Step(
        computed=tuple((_count(index), _count(number)) for index, number in header["computed"]),
        tokens=tuple((_count(index), tuple(map(_count, ids))) for index, ids in header["tokens"]),
        finished=finished,
    )


def _generated(header: Mapping[str, Any], _: bytes) -> Message:
    return Generated(_count(header["preemptions"]), _count(header["cached_tokens"]))


def _said(header: Mapping[str, Any], _: bytes) -> Message:
    return Said(_text(header["text"]))


def _failed(header: Mapping[str, Any], _: bytes) -> Message:
    if not isinstance(header["refused"], bool):
        raise TypeError("`refused` is no boolean")
    return Failed(header["refused"], _text(header["error"]), _text(header["traceback"]))


def _count(value: object) -> int:
    if not isinstance(value, int) or isinstance(value, bool) or value < 0:
        raise TypeError(f"{value!r:.40} in place of a number from 0 on")
    return value


def _text(value: object) -> str:
    if not isinstance(value, str) or len(value) > _MOST_TEXT:
        raise TypeError("no text, or too long a one")
    return value


def _object(value: object) -> Mapping[str, Any]:
    if not isinstance(value, dict):
        raise TypeError("no object")
    return value


_Reader = Callable[[Mapping[str, Any], bytes], Message]
# By type: the fields of a message, all of which it must have, and how it is read.
_READERS: Mapping[str, tuple[tuple[str, ...], _Reader]] = {
    "hello": (("protocol", "program", "interpreter", "boot"), _hello),
    "opened": (("identity", "environment"), _opened),
    "tensor": (("kind", "request", "phase", "layer", "dtype", "shape"), _tensor),
    "step": (("computed", "tokens", "finished"), _step),
    "generated": (("preemptions", "cached_tokens"), _generated),
    "progress": (("text",), _said),
    "failed": (("refused", "error", "traceback"), _failed),
}
