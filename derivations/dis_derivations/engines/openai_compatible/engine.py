"""A vLLM server behind the interface that all engines share: one request after the other, each sent once."""

from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

from dis_derivations.engines.model_files import (
    ModelEnds,
    model_ends,
    read_config,
    vocabulary_size,
)
from dis_derivations.engines.openai_compatible.asking import AGAIN, Server
from dis_derivations.engines.openai_compatible.completions import (
    Completion,
    answer_limit,
    completion_request,
    parse_completion,
)
from dis_derivations.engines.openai_compatible.identity import read_server
from dis_derivations.engines.protocol import (
    Batching,
    CaptureSink,
    GeneratedSequence,
    Progress,
    Request,
)
from dis_derivations.engines.reference.stopping import Finish, StopRule
from dis_derivations.engines.request_checks import check_requests
from dis_store.errors import BuildError, UnsupportedError

NUMERICS_VERSION = 1
"""Raised whenever what dis tells a server changes, and with it may bits."""

DEFAULT_PATIENCE = 600.0
_RAW_LOGITS = "raw_logits"
_NO_BOUND = -1


def open_server(
    spec: Mapping[str, Any],
    files: Mapping[str, Path],
    environment: Mapping[str, Any],
    server: Server,
) -> "ServerEngine":
    """Look whether a server is still what a closure says.

    Args:
        spec: The `engine` of the closure.
        files: The files of the model, of which configuration and tokenizer are read.
        environment: The `environment` of the closure: what the server told when the build was planned.
        server: Asks it.

    Raises:
        InvalidInputError: A file of the model is missing or malformed.
        BuildError: The server cannot be reached, or has become another one.
    """
    config = read_config(files)
    ends = model_ends(files, config, spec["settings"].get("max_model_len"))
    told = read_server(server, environment["model"]["id"])
    changed = [name for name, value in told.items() if environment.get(name) != value]
    if changed:
        raise BuildError(
            f"the server {server.name} is not the one that the build was planned with",
            cause=f"it tells something else of its {', '.join(changed)} now",
            hint=AGAIN,
        )
    return ServerEngine(server, told, vocabulary_size(config), ends)


class ServerEngine:
    """A server that has the model loaded."""

    def __init__(
        self, server: Server, told: Mapping[str, Any], vocabulary: int | None, ends: ModelEnds
    ) -> None:
        self._server = server
        self._told = told
        self._vocabulary = vocabulary
        self._ends = ends
        self._fingerprint: str | None = None
        self._has_answered = False
        self._log_probabilities: dict[str, list[float]] = {}

    def identity(self) -> dict[str, Any]:
        """Return what may be compared; what the server told of itself is in the closure."""
        return {
            "engine": "openai_compatible",
            "numerics": NUMERICS_VERSION,
            "settings": {
                "end_token_ids": sorted(self._ends.end_token_ids),
                "max_model_len": self._ends.context,
            },
            "batching": {"requests_at_a_time": 1},
            "fingerprint": self._fingerprint,
        }

    def environment(self) -> dict[str, Any]:
        """Return the values of the chosen tokens as the server told them; for the log."""
        return {
            "chosen_log_probabilities": dict(self._log_probabilities),
            "logprobs_mode": (self._told["settings"] or {}).get("logprobs_mode"),
        }

    def generate(
        self,
        requests: Sequence[Request],
        batching: Batching,
        sink: CaptureSink,
        on_progress: Callable[[Progress], None],
    ) -> list[GeneratedSequence]:
        """Return one sequence a request, in the order of the requests, which are sent one after the other.

        Raises:
            InvalidInputError: A request does not fit the model.
            UnfitEnvironmentError: The server does not give the captures that are asked for.
            BuildError: It cannot be reached, dies, or answers what cannot be believed.
        """
        del batching  # what is in a batch of a server, it decides alone
        check_requests(requests, self._vocabulary, self._ends.context)
        logprobs = self._logprobs(sink)
        self._log_probabilities = {}
        sequences: list[GeneratedSequence] = []
        tokens = 0
        for index, request in enumerate(requests):
            completion, finish = self._ask(request, logprobs)
            tokens += len(completion.token_ids)
            if completion.logits is not None:
                sink.logits(index, "decode", completion.logits, chosen=completion.token_ids)
            self._log_probabilities[request.id] = list(completion.log_probabilities)
            sequences.append(
                GeneratedSequence(
                    id=request.id,
                    prompt_token_ids=request.prompt_token_ids,
                    output_token_ids=completion.token_ids,
                    finish_reason=finish.finish_reason,
                    stop_reason=finish.stop_reason,
                    text=finish.text,
                )
            )
            on_progress(Progress(len(sequences), len(requests), tokens))
        return sequences

    def _logprobs(self, sink: CaptureSink) -> int:
        """Return how many values are asked for at each step."""
        if sink.wants("prefill") or sink.layers:
            raise UnsupportedError(
                "a server tells neither logits of prompts nor what layers put out"
            )
        if not sink.wants("decode"):
            return 0
        settings = self._told["settings"] or {}
        most = settings.get("max_logprobs")
        enough = self._vocabulary is not None and (
            most == _NO_BOUND or (isinstance(most, int) and most >= self._vocabulary)
        )
        if settings.get("logprobs_mode") != _RAW_LOGITS or not enough:
            raise UnsupportedError(
                f"the server {self._server.name} does not say that it tells its logits",
                cause="/server_info must say logprobs_mode raw_logits, and max_logprobs for the whole vocabulary",
                hint="start it with --logprobs-mode raw_logits --max-logprobs -1 and VLLM_SERVER_DEV_MODE=1, or run "
                "with --set capture.logits.enabled=false",
            )
        return self._vocabulary or 0

    def _ask(self, request: Request, logprobs: int) -> tuple[Completion, Finish]:
        most = min(request.sampling.max_tokens, self._ends.context - len(request.prompt_token_ids))
        ends = sorted({*self._ends.end_token_ids, *request.stop.token_ids})
        asked = completion_request(request, self._told["model"]["id"], most, ends, logprobs)
        answer = self._server.complete(asked, answer_limit(most, logprobs), f"request {request.id}")
        try:
            completion = parse_completion(answer, asked, self._vocabulary)
            self._check_fingerprint(completion)
            return completion, self._finish(request, completion)
        except ValueError as error:
            raise BuildError(
                f"the answer of the server {self._server.name} to request {request.id} is refused",
                cause=str(error),
            ) from error

    def _check_fingerprint(self, completion: Completion) -> None:
        if self._has_answered and completion.fingerprint != self._fingerprint:
            raise ValueError(
                f"its fingerprint is {completion.fingerprint!r:.80}, and was {self._fingerprint!r:.80}: "
                "another server answers"
            )
        self._fingerprint, self._has_answered = completion.fingerprint, True

    def _finish(self, request: Request, completion: Completion) -> Finish:
        """Return how a sequence ended by dis's own rule, which the server must have kept."""
        rule = StopRule(request, self._ends.end_token_ids, self._ends.context, self._ends.decode)
        tokens = completion.token_ids
        for length in range(1, len(tokens)):
            if rule.finish(tokens[:length]) is not None:
                raise ValueError(f"it goes on for {len(tokens) - length} tokens after its end")
        finish = rule.finish(tokens)
        if finish is None or finish.finish_reason != completion.finish_reason:
            raise ValueError(f"it ends with {completion.finish_reason!r} where nothing ends it")
        return finish
