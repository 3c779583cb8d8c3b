"""The reference engine behind the interface that all engines share."""

from collections.abc import Callable, Mapping, Sequence
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np

from dis_derivations.artifacts.regular_file import read_whole
from dis_derivations.engines.protocol import (
    Batching,
    CaptureSink,
    GeneratedSequence,
    Progress,
    Request,
)
from dis_derivations.engines.reference.cache_attention import Span
from dis_derivations.engines.reference.checkpoint import Checkpoint
from dis_derivations.engines.reference.configuration import effective_context, end_token_ids
from dis_derivations.engines.reference.decoder import Decoder
from dis_derivations.engines.reference.families import check_supported, parse_configuration
from dis_derivations.engines.reference.known_answers import check_operations, check_product
from dis_derivations.engines.reference.machine import describe_machine
from dis_derivations.engines.reference.request_checks import check_requests
from dis_derivations.engines.reference.sampling import choose_token
from dis_derivations.engines.reference.scheduling import Part, Running, Schedule, pieces
from dis_derivations.engines.reference.stopping import Decode, Finish, StopRule, open_decoder
from dis_derivations.engines.reference.weights import ModelWeights, WeightPlan
from dis_store import strict_json
from dis_store.errors import InvalidInputError, LittleMemoryError

__all__ = ["NUMERICS_VERSION", "ReferenceEngine", "check_supported", "open_reference_engine"]

NUMERICS_VERSION = 1
"""Raised whenever a bit of any result may change."""

_MOST_ROWS = 512
"""Positions computed at once; more would only take memory."""

_MOST_LOGIT_ROWS = 64


def open_reference_engine(
    files: Mapping[str, Path], *, max_model_len: int | None = None
) -> "ReferenceEngine":
    """Open a model directory: check its configuration and the headers of its weights.

    The weights themselves are read before the first token.

    Args:
        files: Real paths by name inside the model directory (`config.json`, `tokenizer.json`,
            `model.safetensors`, …).
        max_model_len: How long a sequence may become; the model's own context unless given.

    Raises:
        UnfitEnvironmentError: The model needs something that the engine does not have.
        InvalidInputError: A file is missing, malformed or contradicts another.
    """
    config = _document(files, "config.json")
    configuration = parse_configuration(config)
    context = effective_context(configuration, max_model_len)
    end_tokens = configuration.end_token_ids
    if "generation_config.json" in files:
        document = _document(files, "generation_config.json")
        named = end_token_ids(document, "generation_config.json")
        end_tokens = end_tokens if named is None else named
    decode = open_decoder(_required(files, "tokenizer.json"))
    plan = WeightPlan(Checkpoint(files), configuration)
    return ReferenceEngine(plan, context, end_tokens, decode)


class ReferenceEngine:
    """A model, ready to generate: the same bits on every machine, in every batch."""

    def __init__(
        self, plan: WeightPlan, context: int, end_tokens: frozenset[int], decode: Decode
    ) -> None:
        self._plan = plan
        self._context = context
        self._end_tokens = end_tokens
        self._decode = decode

    def identity(self) -> dict[str, Any]:
        """Return engine, numerics version, settings. Nothing about the machine."""
        return {
            "engine": "reference",
            "numerics": NUMERICS_VERSION,
            "settings": {"max_model_len": self._context},
        }

    def environment(self) -> dict[str, Any]:
        """Return what was observed about the machine and the libraries."""
        return describe_machine()

    def generate(
        self,
        requests: Sequence[Request],
        batching: Batching,
        sink: CaptureSink,
        on_progress: Callable[[Progress], None],
    ) -> list[GeneratedSequence]:
        """Return one sequence a request, in the order of the requests.

        Raises:
            UnfitEnvironmentError: A request needs what the engine does not have, or the machine
                lacks the memory.
            InvalidInputError: A request does not fit the model.
            IntegrityError: The weights are damaged.
            BuildError: The machine fails the self-test, or the model's activations overflow.
        """
        check_requests(requests, self._plan.configuration.vocabulary, self._context)
        if not requests:
            return []
        schedule = Schedule(requests, batching)
        positions = max(
            len(request.prompt_token_ids) + request.sampling.max_tokens for request in requests
        )
        # Overflow shows as a number that is not finite, which the normalisation refuses.
        with np.errstate(over="ignore", invalid="ignore"):
            try:
                decoder = Decoder(self._weights, schedule.slots, min(positions, self._context))
            except MemoryError as error:
                raise LittleMemoryError(
                    "this machine lacks the memory for the model and its keys and values",
                    hint="lower max_model_len, max_num_seqs or max_tokens",
                ) from error
            generation = _Generation(
                decoder,
                [StopRule(r, self._end_tokens, self._context, self._decode) for r in requests],
                sink,
            )
            while schedule.unfinished:
                generation.step(schedule)
                on_progress(generation.progress())
        return generation.sequences(requests)

    @cached_property
    def _weights(self) -> ModelWeights:
        check_operations()
        weights = self._plan.load()
        _check_products(weights)
        return weights


class _Generation:
    """The state of one call of `generate`."""

    def __init__(self, decoder: Decoder, rules: Sequence[StopRule], sink: CaptureSink) -> None:
        self._decoder = decoder
        self._rules = rules
        self._sink = sink
        self._captures_prefill = sink.wants("prefill")
        self._captures_decode = sink.wants("decode")
        self._finished: dict[int, tuple[tuple[int, ...], Finish]] = {}
        self._tokens = 0

    def progress(self) -> Progress:
        return Progress(len(self._finished), len(self._rules), self._tokens)

    def sequences(self, requests: Sequence[Request]) -> list[GeneratedSequence]:
        return [
            GeneratedSequence(
                id=request.id,
                prompt_token_ids=request.prompt_token_ids,
                output_token_ids=self._finished[index][0],
                finish_reason=self._finished[index][1].finish_reason,
                stop_reason=self._finished[index][1].stop_reason,
                text=self._finished[index][1].text,
            )
            for index, request in enumerate(requests)
        ]

    def step(self, schedule: Schedule) -> None:
        parts = schedule.next_step()
        for piece in pieces(parts, _MOST_ROWS):
            self._compute(schedule, piece)
        self._sink.step([(part.running.request.id, part.count) for part in parts])

    def _compute(self, schedule: Schedule, parts: Sequence[Part]) -> None:
        hidden = self._decoder.forward(
            [Span(part.running.slot, part.start, part.token_ids) for part in parts]
        )
        complete: list[tuple[Running, int]] = []
        row = 0
        for part in parts:
            prompt_rows = min(part.end, part.running.prompt_length) - part.start
            if self._captures_prefill and prompt_rows > 0:
                self._capture_prefill(part.running.index, hidden[row : row + prompt_rows])
            row += part.count
            part.running.computed = part.end
            if part.end == len(part.running.tokens):
                complete.append((part.running, row - 1))
        if complete:
            self._choose(schedule, complete, hidden[[last for _, last in complete]])

    def _capture_prefill(self, index: int, hidden: np.ndarray[Any, np.dtype[np.float64]]) -> None:
        for start in range(0, len(hidden), _MOST_LOGIT_ROWS):
            rows = self._decoder.logits(hidden[start : start + _MOST_LOGIT_ROWS])
            self._sink.logits(index, "prefill", rows)

    def _choose(
        self,
        schedule: Schedule,
        complete: Sequence[tuple[Running, int]],
        hidden: np.ndarray[Any, np.dtype[np.float64]],
    ) -> None:
        """Choose the next token of each sequence whose positions are all computed."""
        logits = self._decoder.logits(hidden)
        for number, (running, _) in enumerate(complete):
            request = running.request
            token = choose_token(
                logits[number], request.sampling, request.id, running.output_length
            )
            if self._captures_decode:
                row = logits[number : number + 1]
                self._sink.logits(running.index, "decode", row, chosen=[token])
            running.tokens.append(token)
            self._tokens += 1
            output = running.output
            finish = self._rules[running.index].finish(output)
            if finish is not None:
                self._finished[running.index] = (tuple(output), finish)
                schedule.finish(running)


def _check_products(weights: ModelWeights) -> None:
    """Check the BLAS once on each shape of this model."""
    layer = weights.layers[0]
    linears = {
        "query, key, value": layer.query_key_value,
        "attention output": layer.attention_output,
        "gate, up": layer.gate_up,
        "down": layer.down,
        "head": weights.head,
    }
    for name, linear in linears.items():
        check_product(linear.weights, 1, f"matrix product of the {name} projection")


def _required(files: Mapping[str, Path], name: str) -> Path:
    if name not in files:
        raise InvalidInputError(f"the model has no {name}")
    return files[name]


def _document(files: Mapping[str, Path], name: str) -> Mapping[str, Any]:
    document = strict_json.decode(read_whole(_required(files, name)), name=name)
    if not isinstance(document, dict):
        raise InvalidInputError(f"{name} is not a JSON object")
    return document
