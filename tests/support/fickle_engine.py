"""An engine whose answers depend on what they should not: on the batch, on how often it was asked."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any
from unittest.mock import patch

import numpy as np
from numpy.typing import NDArray

from dis_derivations.engines.protocol import (
    Batching,
    CaptureSink,
    Engine,
    GeneratedSequence,
    Phase,
    Progress,
    Request,
)
from dis_derivations.engines.reference import engine as reference

_OPENED = "dis_derivations.engines.reference.engine.open_reference_engine"


@dataclass(frozen=True)
class Fickleness:
    """What changes an answer.

    Attributes:
        per_companion: How much is added to each logit for each further request of a batch.
        per_repetition: How much for each time that the engine was asked before.
        token: From how many requests in a batch on the second token of the first request is another one.
        memory_of_order: Whether each logit grows with the place of its request.
    """

    per_companion: float = 0.0
    per_repetition: float = 0.0
    token: int | None = None
    memory_of_order: bool = False


@dataclass
class FickleEngine:
    """The reference engine, spoilt."""

    inner: Engine
    how: Fickleness
    asked: int = field(default=0)

    def identity(self) -> Mapping[str, Any]:
        """Return what the reference engine says."""
        return self.inner.identity()

    def environment(self) -> Mapping[str, Any]:
        """Return what the reference engine says."""
        return self.inner.environment()

    def generate(
        self,
        requests: Sequence[Request],
        batching: Batching,
        sink: CaptureSink,
        on_progress: Callable[[Progress], None],
    ) -> list[GeneratedSequence]:
        """Answer, and spoil the answers."""
        at_once = min(batching.max_num_seqs, len(requests))
        error = self.how.per_companion * (at_once - 1) + self.how.per_repetition * self.asked
        self.asked += 1
        spoilt = _SpoilingSink(sink, error, per_place=0.5 if self.how.memory_of_order else 0.0)
        answers = self.inner.generate(requests, batching, spoilt, on_progress)
        if self.how.token is not None and at_once >= self.how.token:
            first, second, *rest = answers[0].output_token_ids
            answers[0] = replace(answers[0], output_token_ids=(first, second ^ 1, *rest))
        return answers


@dataclass
class _SpoilingSink:
    inner: CaptureSink
    error: float
    per_place: float

    @property
    def layers(self) -> Sequence[int]:
        return self.inner.layers

    def wants(self, phase: Phase) -> bool:
        return self.inner.wants(phase)

    def logits(
        self,
        index: int,
        phase: Phase,
        rows: NDArray[np.float64],
        *,
        chosen: Sequence[int] | None = None,
    ) -> None:
        shifted = rows + self.error + self.per_place * index
        self.inner.logits(index, phase, shifted, chosen=chosen)

    def activations(self, index: int, phase: Phase, layer: int, rows: NDArray[np.float64]) -> None:
        self.inner.activations(index, phase, layer, rows)

    def step(self, computed: Sequence[tuple[str, int]]) -> None:
        self.inner.step(computed)


@contextmanager
def fickle(how: Fickleness) -> Iterator[None]:
    """Put a fickle engine in the place of the reference engine, in this process."""
    opened = reference.open_reference_engine

    def spoilt(files: Mapping[str, Path], **settings: Any) -> FickleEngine:
        return FickleEngine(opened(files, **settings), how)

    with patch(_OPENED, spoilt):
        yield
