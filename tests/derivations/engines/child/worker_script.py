"""A worker of the standard library alone, which answers as it is told to: well, wrongly, or not at all.

It is laid beside `frames.py` and `worker_side.py`, as every worker is.
"""

import importlib
import mmap
import os
import signal
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

_FLOOD = 20 << 20


def hello(talk: Any, frames: Any, **changes: Any) -> None:
    """Say hello, with other values where they are given."""
    interpreter = {"python": "cpython 3", "libc": "", "machine": "abacus"}
    message = {"type": "hello", "protocol": frames.PROTOCOL, "program": "scripted", "boot": ""}
    talk.send({**message, "interpreter": interpreter, **changes})


def raw(descriptor: int, data: bytes) -> None:
    """Write bytes that are no frame, and keep the pipe open."""
    os.write(descriptor, data)
    time.sleep(60)


def end(code: int, last_words: str = "") -> None:
    """End at once, with a line on stderr."""
    os.write(2, last_words.encode() + b"\n")
    os._exit(code)


def flood() -> None:
    """Write much more to stderr than is kept."""
    os.write(2, b"first line\n")
    for _ in range(_FLOOD >> 16):
        os.write(2, b"x" * ((1 << 16) - 1) + b"\n")
    os.write(2, b"last line\n")


def read_what_was_cut_off() -> None:
    """Read a page of a mapped file that became shorter, which the kernel answers as it does where a disk fails."""
    path = Path(__file__).with_name("mapped")
    path.write_bytes(b"x" * (4 * mmap.PAGESIZE))
    with path.open("r+b") as file, mmap.mmap(file.fileno(), 0) as pages:
        file.truncate(mmap.PAGESIZE)
        os.write(2, pages[-1:])


def close_pipes() -> None:
    """Close them, and go on."""
    os.closerange(3, 100)
    time.sleep(60)


def before_opening(behaviour: str, talk: Any, frames: Any, answers: int) -> None:
    """Misbehave where a hello is expected, or say it."""

    def header(data: bytes) -> bytes:
        return bytes(frames._PREFIX.pack(frames.MAGIC, len(data), 0)) + data

    def half_a_frame() -> None:
        os.write(answers, frames.encode_prefix({"type": "hello"}, 0)[:-3])
        os._exit(0)

    def flood_and_go_on() -> None:
        flood()
        hello(talk, frames)

    done = {"type": "generated", "preemptions": 0, "cached_tokens": 0}
    huge_header = frames._PREFIX.pack(frames.MAGIC, 2**32 - 1, 0)
    huge_payload = frames._PREFIX.pack(frames.MAGIC, 2, 2**63)
    misdeeds: dict[str, Callable[[], object]] = {
        "dies": lambda: end(7, "out of luck"),
        "is killed": lambda: os.kill(os.getpid(), signal.SIGKILL),
        "maps a file that becomes shorter": read_what_was_cut_off,
        "closes its pipes": close_pipes,
        "hangs": lambda: time.sleep(60),
        "writes garbage": lambda: raw(answers, b"Traceback (most recent call last):\n" * 10),
        "announces a huge header": lambda: raw(answers, huge_header),
        "announces a huge payload": lambda: raw(answers, huge_payload),
        "ends in the middle of a frame": half_a_frame,
        "writes its header otherwise": lambda: raw(answers, header(b'{"type": "hello"}')),
        "names a key twice": lambda: raw(answers, header(b'{"type":"hello","type":"hello"}')),
        "speaks another version": lambda: hello(talk, frames, protocol=frames.PROTOCOL + 1),
        "says what nobody knows": lambda: talk.send({"type": "surprise"}),
        "says more than it may": lambda: hello(talk, frames, secret=1),
        "speaks out of turn": lambda: talk.send(done),
        "floods its output": flood_and_go_on,
    }
    misdeeds.get(behaviour, lambda: hello(talk, frames))()


def open_model(behaviour: str, talk: Any, header: dict[str, Any]) -> None:
    """Answer `open`."""
    if behaviour == "refuses":
        talk.send(
            {"type": "failed", "refused": True, "error": "no such model", "traceback": "deep down"}
        )
        os._exit(1)
    talk.send({"type": "progress", "text": "the model is loaded"})
    identity = {"engine": "scripted", "settings": header["settings"]}
    environment = {
        "variables": dict(os.environ),
        "directory": str(Path.cwd()),
        "descriptors": [
            each.name
            for each in Path("/proc/self/fd").iterdir()
            if len(each.name) > 1 or each.name > "2"
        ],
        "pid": os.getpid(),
    }
    talk.send({"type": "opened", "identity": identity, "environment": environment})
    if behaviour == "stops reading":
        time.sleep(60)


def tensor(number: int, rows: list[float], **changes: Any) -> tuple[dict[str, Any], bytes]:
    """Return one row of logits."""
    from array import array

    header = {
        "type": "tensor",
        "kind": "logits",
        "request": number,
        "phase": "decode",
        "layer": None,
        "dtype": "float32",
        "shape": [1, len(rows)],
    }
    return {**header, **changes}, array("f", rows).tobytes()


def generate(behaviour: str, talk: Any, prompts: list[list[int]], header: dict[str, Any]) -> None:
    """Count upwards from the last token of each prompt, one group after the other."""
    requests, group = header["requests"], header["group"]
    for first in range(0, len(requests), group):
        members = list(range(first, min(first + group, len(requests))))
        made = dict.fromkeys(members, 0)
        while members:
            finished = []
            chosen = []
            for number in members:
                made[number] += 1
                token = prompts[number][-1] + made[number]
                if "decode" in header["logits"]:
                    talk.send(*tensor(number, [float(token), 0.5]))
                chosen.append([number, [token]])
                request = requests[number]
                if token in request["stop_token_ids"]:
                    finished.append([number, "stop"])
                elif made[number] == request["max_tokens"]:
                    finished.append([number, "length"])
            misbehave(behaviour, talk, members, finished)
            computed = [
                [number, len(prompts[number]) if made[number] == 1 else 1] for number in members
            ]
            talk.send(
                {"type": "step", "computed": computed, "tokens": chosen, "finished": finished}
            )
            gone = {number for number, _ in finished}
            if header["steered"]:
                gone |= set(talk.receive(["go_on"])[0]["stop"])
            members = [number for number in members if number not in gone]
    talk.send(
        {
            "type": "generated",
            "preemptions": 2 if behaviour == "throws requests out" else 0,
            "cached_tokens": 3 if behaviour == "uses its cache" else 0,
        }
    )


def misbehave(behaviour: str, talk: Any, members: list[int], finished: list[Any]) -> None:
    """Do in the middle of a generation what no worker should."""
    match behaviour:
        case "dies while generating":
            end(3, "a bug in a kernel")
        case "hangs while generating":
            time.sleep(60)
        case "fails while generating":
            raise RuntimeError("the kernel said no\nand more")
        case "ends a request for no reason":
            finished[:] = [[members[0], "length"]]
        case "ends a request that nobody knows":
            finished[:] = [[99, "length"]]
        case "captures for a request that nobody knows":
            talk.send(*tensor(99, [0.0]))
        case "captures less than it says":
            talk.send(*tensor(members[0], [0.0], shape=[1, 2]))
        case "captures more rows than tokens":
            talk.send(*tensor(members[0], [0.0, 1.0], shape=[2, 1]))
        case "captures numbers of no known format":
            talk.send(*tensor(members[0], [0.0], dtype="float8"))


def main() -> None:
    """Answer dis until it says goodbye."""
    behaviour, requests, answers = sys.argv[1], int(sys.argv[2]), int(sys.argv[3])
    sys.path.insert(0, str(Path(__file__).parent))
    frames, real = importlib.import_module("frames"), importlib.import_module("worker_side")
    real.die_with_parent()
    talk = real.Conversation(frames, requests, answers)
    try:
        before_opening(behaviour, talk, frames, answers)
        header, _ = talk.receive(["open", "shutdown"])
        open_model(behaviour, talk, header)
        while True:
            header, ids = talk.receive(["generate", "shutdown"])
            if header["type"] == "shutdown":
                return
            lengths = [each["prompt_tokens"] for each in header["requests"]]
            generate(behaviour, talk, list(real.split(ids, lengths)), header)
    except (EOFError, BrokenPipeError):
        os._exit(1)
    except Exception as error:  # noqa: BLE001 - as the real one
        talk.fail(error)
        os._exit(1)


if __name__ == "__main__":
    main()
