"""What every inference engine offers, whatever it runs on.

An engine receives token ids only; tokenising is the `requests` derivation's work. It reports about
itself through `identity`, and hands everything that was asked to be captured to a `CaptureSink`
while it runs, so that no engine keeps the logits of a whole run in memory.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Literal, Protocol

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

Phase = Literal["prefill", "decode"]


@dataclass(frozen=True)
class Sampling:
    """How the next token is chosen.

    Attributes:
        temperature: 0 is greedy, and ties go to the lowest id. Above 0 there is a seed.
        top_p: The share of probability from which a token is drawn: the likeliest tokens that have it.
        top_k: From how many tokens one is drawn; 0 and -1: all.
        seed: What chance is made of, together with the request's id and the token's number.
    """

    temperature: float
    top_p: float
    top_k: int
    max_tokens: int
    seed: int | None


@dataclass(frozen=True)
class Stop:
    """What ends a sequence early, beside the model's own end-of-sequence tokens."""

    sequences: tuple[str, ...] = ()
    token_ids: tuple[int, ...] = ()


@dataclass(frozen=True)
class Request:
    """One prompt, tokenised, with its own sampling and stop settings."""

    id: str
    prompt_token_ids: tuple[int, ...]
    sampling: Sampling
    stop: Stop


@dataclass(frozen=True)
class Batching:
    """How many sequences share a step, and how many positions a step may compute (None: no bound)."""

    max_num_seqs: int
    max_num_batched_tokens: int | None = None


@dataclass(frozen=True)
class GeneratedSequence:
    """What came of one request.

    Attributes:
        output_token_ids: Every token chosen, a stopping one included.
        finish_reason: `stop` for an end-of-sequence token, a stop token or a stop string; `length`
            for `max_tokens` or the end of the model's context.
        stop_reason: The stop token's id or the stop string; None for the model's own end of
            sequence and for `length`.
        text: The decoded output without special tokens, cut before a stop string.
    """

    id: str
    prompt_token_ids: tuple[int, ...]
    output_token_ids: tuple[int, ...]
    finish_reason: Literal["stop", "length"]
    stop_reason: int | str | None
    text: str


class CaptureSink(Protocol):
    """Where an engine puts what it was asked to capture. `wants` is asked once a phase, before any row is made."""

    @property
    def layers(self) -> Sequence[int]:
        """The layers whose output is captured, counted from 0; an engine that cannot is not asked for any."""
        ...

    def wants(self, phase: Phase) -> bool:
        """Return whether logits of this phase are captured."""
        ...

    def logits(
        self,
        index: int,
        phase: Phase,
        rows: "NDArray[np.float64]",
        *,
        chosen: Sequence[int] | None = None,
    ) -> None:
        """Take the next rows of request number `index`: shape [positions, vocabulary], in order of position.

        `chosen` is the token that was chosen from each row; None in the phase `prefill`.
        """
        ...

    def activations(
        self, index: int, phase: Phase, layer: int, rows: "NDArray[np.float64]"
    ) -> None:
        """Take the next rows of what a layer puts out for request number `index`: shape [positions, width].

        Positions of the prompt are of the phase `prefill`, those of the answer of `decode`.
        """
        ...

    def step(self, computed: Sequence[tuple[str, int]]) -> None:
        """Take one engine step: for each request in it, its id and the number of positions computed."""
        ...


@dataclass(frozen=True)
class Progress:
    """How far a generation has come: requests finished and output tokens so far."""

    finished: int
    requests: int
    tokens: int


class Engine(Protocol):
    """A loaded model, ready to generate."""

    def identity(self) -> Mapping[str, Any]:
        """Return what may be compared: engine, numerics version, settings. Nothing about the machine."""
        ...

    def environment(self) -> Mapping[str, Any]:
        """Return what was observed about the machine and the libraries. Goes to the log, never into a digest."""
        ...

    def generate(
        self,
        requests: Sequence[Request],
        batching: Batching,
        sink: CaptureSink,
        on_progress: Callable[[Progress], None],
    ) -> list[GeneratedSequence]:
        """Return one sequence a request, in the order of the requests.

        `on_progress` is called at least once a step; an exception it raises (an interruption) ends
        the generation.
        """
        ...
