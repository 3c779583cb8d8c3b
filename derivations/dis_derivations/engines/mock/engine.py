"""The mock engine behind the interface that all engines share: tokens are made of a hash, of no weights.

A token follows from the request's id, its prompt, its seed and the token's number alone. Logits, where they are
captured, are made to fit it: the chosen one is the largest. Batches, machine and captures change no bit.
"""

from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from dis_derivations.engines.mock.answers import (
    CHOSEN_LOGIT,
    NOTE,
    NUMERICS_VERSION,
    UNIT,
    Answer,
)
from dis_derivations.engines.model_files import ModelEnds, model_ends, read_config
from dis_derivations.engines.protocol import (
    Batching,
    CaptureSink,
    GeneratedSequence,
    Progress,
    Request,
)
from dis_derivations.engines.reference.scheduling import Running, Schedule
from dis_derivations.engines.reference.stopping import Finish, StopRule
from dis_derivations.engines.request_checks import check_requests
from dis_store.errors import InvalidInputError

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

__all__ = ["NOTE", "NUMERICS_VERSION", "MockEngine", "open_mock_engine"]

_ROWS_AT_ONCE = 64


def open_mock_engine(
    files: Mapping[str, Path], *, max_model_len: int | None = None
) -> "MockEngine":
    """Open a model directory, of which configuration and tokenizer are read, and no weights.

    Args:
        files: Real paths by name inside the model directory.
        max_model_len: How long a sequence may become; the model's own context unless given.

    Raises:
        InvalidInputError: A file is missing or malformed.
    """
    config = read_config(files)
    vocabulary = config.get("vocab_size")
    if not isinstance(vocabulary, int) or isinstance(vocabulary, bool) or vocabulary < 1:
        raise InvalidInputError("config.json does not say how many tokens the model knows")
    return MockEngine(vocabulary, model_ends(files, config, max_model_len))


class MockEngine:
    """An engine that answers at once, and says in all that it writes what it is.

    Args:
        vocabulary: How many tokens the model knows.
        ends: What ends its sequences.
    """

    def __init__(self, vocabulary: int, ends: ModelEnds) -> None:
        self.vocabulary = vocabulary
        self.ends = ends

    def identity(self) -> dict[str, Any]:
        """Return engine, numerics version, settings, and the note."""
        return {
            "engine": "mock",
            "numerics": NUMERICS_VERSION,
            "settings": {"max_model_len": self.ends.context},
            "note": NOTE,
        }

    def environment(self) -> dict[str, Any]:
        """Return the note; nothing of the machine counts."""
        return {"note": NOTE}

    def generate(
        self,
        requests: Sequence[Request],
        batching: Batching,
        sink: CaptureSink,
        on_progress: Callable[[Progress], None],
    ) -> list[GeneratedSequence]:
        """Return one sequence a request, in the order of the requests.

        Raises:
            InvalidInputError: A request does not fit the model.
        """
        check_requests(requests, self.vocabulary, self.ends.context)
        if not requests:
            return []
        schedule = Schedule(requests, batching)
        answers = [_Answer(request, self.vocabulary, self.ends) for request in requests]
        tokens = finished = 0
        while schedule.unfinished:
            parts = schedule.next_step()
            for part in parts:
                running, answer = part.running, answers[part.running.index]
                answer.capture_prompt(running.index, part.start, part.end, sink)
                running.computed = part.end
                if part.end == len(running.tokens):
                    tokens += 1
                    finished += answer.choose(running, schedule, sink)
            sink.step([(part.running.request.id, part.count) for part in parts])
            on_progress(Progress(finished, len(requests), tokens))
        return [answer.sequence() for answer in answers]


class _Answer:
    """The answer to one request, as far as it has come."""

    def __init__(self, request: Request, vocabulary: int, ends: ModelEnds) -> None:
        self._request = request
        self._answer = Answer(
            request.id, request.prompt_token_ids, request.sampling.seed, vocabulary
        )
        self._rule = StopRule(request, ends.end_token_ids, ends.context, ends.decode)
        self._output: list[int] = []
        self._finish: Finish | None = None

    def choose(self, running: Running, schedule: Schedule, sink: CaptureSink) -> bool:
        """Choose the next token; return whether it is the last one."""
        number = len(self._output)
        token = self._answer.token(number)
        if sink.wants("decode"):
            row = self._row("decode", number)
            row[token] = CHOSEN_LOGIT
            sink.logits(running.index, "decode", row.reshape(1, -1), chosen=[token])
        running.tokens.append(token)
        self._output.append(token)
        self._finish = self._rule.finish(self._output)
        if self._finish is None:
            return False
        schedule.finish(running)
        return True

    def capture_prompt(self, index: int, start: int, end: int, sink: CaptureSink) -> None:
        """Capture rows for the positions of the prompt among these."""
        import numpy as np

        last = min(end, len(self._request.prompt_token_ids))
        if start >= last or not sink.wants("prefill"):
            return
        for first in range(start, last, _ROWS_AT_ONCE):
            positions = range(first, min(first + _ROWS_AT_ONCE, last))
            sink.logits(index, "prefill", np.stack([self._row("prefill", at) for at in positions]))

    def sequence(self) -> GeneratedSequence:
        """Return what came of it."""
        assert self._finish is not None  # noqa: S101 - every sequence ends
        return GeneratedSequence(
            id=self._request.id,
            prompt_token_ids=self._request.prompt_token_ids,
            output_token_ids=tuple(self._output),
            finish_reason=self._finish.finish_reason,
            stop_reason=self._finish.stop_reason,
            text=self._finish.text,
        )

    def _row(self, phase: str, number: int) -> "NDArray[np.float64]":
        import numpy as np

        return np.frombuffer(self._answer.row(phase, number), dtype="<i2").astype(np.float64) * UNIT
