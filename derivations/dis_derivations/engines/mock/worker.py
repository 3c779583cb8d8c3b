"""The worker of the `mock` engine: a program of the standard library alone, which any Python from 3.9 on runs.

It answers what the mock engine in dis answers, step for step. `worker_side.py`, `frames.py`, `answers.py` and
`scheduling.py` lie beside it.
"""

import importlib
import platform
import sys
from array import array
from collections import namedtuple
from collections.abc import Mapping
from pathlib import Path
from typing import Any

PROGRAM = "mock"
Asked = namedtuple("Asked", ["prompt_token_ids"])  # noqa: PYI024 - plain Python, and nothing else is asked of it
Batches = namedtuple("Batches", ["max_num_seqs", "max_num_batched_tokens"])  # noqa: PYI024 - as above


class Mock:
    """An engine without a model.

    Args:
        side: The module `worker_side`.
        talk: The conversation with dis.
        model: The model's directory, which is looked at and not read.
        settings: `vocabulary`, and `max_num_batched_tokens`.
    """

    def __init__(self, side: Any, talk: Any, model: str, settings: Mapping[str, Any]) -> None:
        if not Path(model).is_dir():
            raise ValueError(f"there is no model at {model}")
        self._side = side
        self._talk = talk
        self._answers = importlib.import_module("answers")
        self._scheduling = importlib.import_module("scheduling")
        self._vocabulary = settings["vocabulary"]
        self._bound = settings["max_num_batched_tokens"]

    def identity(self) -> dict[str, Any]:
        """Return what can change a bit."""
        return {"numerics": self._answers.NUMERICS_VERSION}

    def environment(self) -> dict[str, Any]:
        """Return what was observed beside that."""
        return {"note": self._answers.NOTE, "python": platform.python_version()}

    def generate(self, header: Mapping[str, Any], ids: bytes) -> dict[str, Any]:
        """Run the requests of a message `generate`; return the last message."""
        requests = header["requests"]
        prompts = list(self._side.split(ids, [each["prompt_tokens"] for each in requests]))
        answers = [
            self._answers.Answer(asked["id"], prompt, asked["seed"], self._vocabulary)
            for asked, prompt in zip(requests, prompts)  # noqa: B905 - Python 3.9 has no `strict`
        ]
        schedule = self._scheduling.Schedule(
            [Asked(tuple(prompt)) for prompt in prompts], Batches(header["group"], self._bound)
        )
        while schedule.unfinished:
            self._step(header, answers, schedule)
        return {"type": "generated", "preemptions": 0, "cached_tokens": 0}

    def _step(self, header: Mapping[str, Any], answers: "list[Any]", schedule: Any) -> None:
        computed, tokens, finished = [], [], []
        going = {}
        for part in schedule.next_step():
            running = part.running
            computed.append([running.index, part.count])
            if "prefill" in header["logits"]:
                for position in range(part.start, min(part.end, running.prompt_length)):
                    self._send(running.index, "prefill", answers[running.index], position)
            running.computed = part.end
            if part.end < len(running.tokens):
                continue
            number = running.output_length
            token = answers[running.index].token(number)
            if "decode" in header["logits"]:
                self._send(running.index, "decode", answers[running.index], number, token)
            running.tokens.append(token)
            tokens.append([running.index, [token]])
            reason = _end(header["requests"][running.index], token, number + 1)
            if reason is None:
                going[running.index] = running
            else:
                finished.append([running.index, reason])
                schedule.finish(running)
        self._talk.send(
            {"type": "step", "computed": computed, "tokens": tokens, "finished": finished}
        )
        if header["steered"]:
            for index in self._talk.receive(["go_on"])[0]["stop"]:
                schedule.finish(going[index])

    def _send(
        self, request: int, phase: str, answer: Any, number: int, chosen: "int | None" = None
    ) -> None:
        units = array("h")
        units.frombytes(answer.row(phase, number))
        if sys.byteorder == "big":
            units.byteswap()
        row = array("f", [each * self._answers.UNIT for each in units])
        if chosen is not None:
            row[chosen] = self._answers.CHOSEN_LOGIT
        if sys.byteorder == "big":
            row.byteswap()
        header = {
            "type": "tensor",
            "kind": "logits",
            "request": request,
            "phase": phase,
            "layer": None,
            "dtype": "float32",
            "shape": [1, len(row)],
        }
        self._talk.send(header, row.tobytes())


def _end(request: Mapping[str, Any], token: int, count: int) -> "str | None":
    if token in request["stop_token_ids"]:
        return "stop"
    return "length" if count == request["max_tokens"] else None


def main() -> int:
    """Speak with dis until it has nothing more to ask."""
    sys.path.insert(0, str(Path(__file__).resolve().parent))
    side = importlib.import_module("worker_side")
    return int(side.serve(PROGRAM, lambda *asked: Mock(side, *asked), sys.argv[1:3]))


if __name__ == "__main__":
    sys.exit(main())
