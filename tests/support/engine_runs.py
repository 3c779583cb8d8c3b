"""Running an engine in tests: requests, a sink that keeps everything, digests of what came out."""

from collections.abc import Sequence
from hashlib import sha256

import numpy as np
from numpy.typing import NDArray

from dis_derivations.engines.protocol import GeneratedSequence, Phase, Request, Sampling, Stop


class RecordingSink:
    """Captures all logits of the phases asked for, and every step."""

    def __init__(
        self, phases: Sequence[Phase] = ("prefill", "decode"), layers: Sequence[int] = ()
    ) -> None:
        self._phases = phases
        self.layers = layers
        self.states: dict[tuple[int, Phase, int], list[NDArray[np.float64]]] = {}
        self._rows: dict[tuple[int, Phase], list[NDArray[np.float64]]] = {}
        self.chosen: dict[int, list[int]] = {}
        self.steps: list[list[tuple[str, int]]] = []

    def wants(self, phase: Phase) -> bool:
        """Return whether the phase was asked for."""
        return phase in self._phases

    def logits(
        self,
        index: int,
        phase: Phase,
        rows: NDArray[np.float64],
        *,
        chosen: Sequence[int] | None = None,
    ) -> None:
        """Keep a copy of the rows, and the tokens chosen from them."""
        self.chosen.setdefault(index, []).extend(chosen or ())
        self._rows.setdefault((index, phase), []).append(rows.copy())

    def activations(self, index: int, phase: Phase, layer: int, rows: NDArray[np.float64]) -> None:
        """Keep the rows."""
        self.states.setdefault((index, phase, layer), []).append(rows)

    def step(self, computed: Sequence[tuple[str, int]]) -> None:
        """Keep the step."""
        self.steps.append(list(computed))

    def rows(self, index: int, phase: Phase) -> NDArray[np.float64]:
        """Return all rows of a request's phase."""
        return np.concatenate(self._rows[index, phase])

    def phases(self) -> set[Phase]:
        """Return the phases that rows came for."""
        return {phase for _, phase in self._rows}


def greedy_request(
    name: str,
    prompt: Sequence[int],
    *,
    max_tokens: int = 8,
    strings: Sequence[str] = (),
    token_ids: Sequence[int] = (),
) -> Request:
    """Return a request that decodes greedily."""
    sampling = Sampling(temperature=0, top_p=1, top_k=0, max_tokens=max_tokens, seed=None)
    return Request(name, tuple(prompt), sampling, Stop(tuple(strings), tuple(token_ids)))


def sampled_request(
    name: str,
    prompt: Sequence[int],
    *,
    temperature: float = 1.0,
    top_p: float = 1.0,
    top_k: int = -1,
    seed: int | None = 1,
    max_tokens: int = 8,
) -> Request:
    """Return a request whose tokens are chosen by chance."""
    sampling = Sampling(temperature, top_p, top_k, max_tokens, seed)
    return Request(name, tuple(prompt), sampling, Stop())


def digest_by_request(
    sequences: Sequence[GeneratedSequence], sink: RecordingSink
) -> dict[str, str]:
    """Return for each request a digest of its tokens and the bits of all its logits."""
    result = {}
    for index, sequence in enumerate(sequences):
        state = sha256(repr(sequence).encode())
        for phase in sorted(sink.phases()):
            state.update(sink.rows(index, phase).astype("<f8").tobytes())
        result[sequence.id] = state.hexdigest()
    return result
