"""An engine in a worker, behind the interface that all engines share."""

import itertools
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, NoReturn, Self, TypeVar

from dis_derivations.engines.child.frames import PROTOCOL, FrameError
from dis_derivations.engines.child.messages import (
    Failed,
    Generated,
    Hello,
    Message,
    Opened,
    Said,
    Step,
    Tensor,
    parse,
)
from dis_derivations.engines.child.pipes import WorkerGoneError, WorkerSilentError
from dis_derivations.engines.child.rows import token_bytes, widened
from dis_derivations.engines.child.worker import Worker
from dis_derivations.engines.model_files import ModelEnds
from dis_derivations.engines.protocol import (
    Batching,
    CaptureSink,
    GeneratedSequence,
    Progress,
    Request,
)
from dis_derivations.engines.reference.stopping import Finish, StopRule
from dis_store.errors import BuildError, UnfitEnvironmentError

if TYPE_CHECKING:
    from types import TracebackType

_Taken = TypeVar("_Taken")


class ChildEngine:
    """A loaded model in a worker; a context manager, which ends the worker.

    Args:
        name: What messages call the engine.
        process: Its worker, just started.
        ends: What ends its sequences.
        note: Told what the worker says, a line each.
        meet: Shown what the worker says of itself before it loads anything; raises if it is the wrong one.
    """

    def __init__(
        self,
        name: str,
        process: Worker,
        ends: ModelEnds,
        note: Callable[[str], None],
        meet: Callable[[Hello], None] = lambda _: None,
    ) -> None:
        self._name = name
        self._process = process
        self._ends = ends
        self._note = note
        self._meet = meet
        self._opened: Opened | None = None
        self._gave_up = False  # the worker has said so, and ends by itself

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: "TracebackType | None",
    ) -> None:
        if kind is not None or self._gave_up:
            self._process.kill()
            return
        try:
            self._send({"type": "shutdown"})
        finally:
            self._process.close()

    def open(self, model: str, settings: Mapping[str, Any]) -> None:
        """Load the model.

        Args:
            model: The model's directory, as the worker sees it.
            settings: What the worker is told; its program says what it takes.

        Raises:
            UnfitEnvironmentError: The engine says that it cannot load this model so.
            BuildError: It failed, or it is not what was to be started.
        """
        hello = self._receive()
        if not isinstance(hello, Hello):
            self._out_of_turn(hello)
        self._note(f"{hello.program} started, {hello.interpreter['python']}")
        self._meet(hello)
        self._send(
            {"type": "open", "protocol": PROTOCOL, "model": model, "settings": dict(settings)}
        )
        opened = self._receive()
        if not isinstance(opened, Opened):
            self._out_of_turn(opened)
        self._opened = opened

    def identity(self) -> Mapping[str, Any]:
        """Return what the engine said of itself that may be compared."""
        return self._loaded.identity

    def environment(self) -> Mapping[str, Any]:
        """Return what the engine observed beside it; for the log."""
        return self._loaded.environment

    def experiment(self) -> Mapping[str, Any]:
        """Return what `engine.json` says beside it where this is no run of a manifest: nothing."""
        return {}

    def output(self) -> bytes:
        """Return what the worker wrote to its standard output and error."""
        return self._process.output()

    def generate(
        self,
        requests: Sequence[Request],
        batching: Batching,
        sink: CaptureSink,
        on_progress: Callable[[Progress], None],
    ) -> list[GeneratedSequence]:
        """Return one sequence a request, in the order of the requests.

        Requests run in groups of `max_num_seqs`, in order; a group begins when the one before it has ended, so that
        what is in a batch with a request depends on its group alone.

        Raises:
            UnfitEnvironmentError: The engine says that it cannot run these requests.
            BuildError: It failed, or computed otherwise than it was told.
        """
        if not requests:
            return []
        generation = _Generation(requests, self._ends, sink)
        self._send(*_generate_message(requests, batching, self._ends, sink))
        while not isinstance(message := self._receive(), Generated):
            match message:
                case Tensor():
                    self._believe(generation.take_rows, message)
                case Step():
                    self._believe(generation.take_step, message)
                    on_progress(generation.progress())
                    if generation.steered:
                        self._send({"type": "go_on", "stop": generation.stopping()})
                case _:
                    self._out_of_turn(message)
        self._check_end(message)
        return self._believe(generation.sequences)

    @property
    def _loaded(self) -> Opened:
        if self._opened is None:
            raise ValueError("the engine is asked before it is opened")
        return self._opened

    def _check_end(self, end: Generated) -> None:
        if end.preemptions:
            raise BuildError(
                f"{self._name} threw requests out of the batch {end.preemptions} times and computed them again",
                cause="so its batches were not those of the manifest: the memory for keys and values was too small",
                hint="lower inference.batching.max_num_seqs or vllm.engine_args.max_model_len",
            )
        if end.cached_tokens:
            raise BuildError(
                f"{self._name} took {end.cached_tokens} positions from earlier requests in place of computing them",
                cause="so what a request gives depends on those before it",
                hint="leave vllm.engine_args.enable_prefix_caching at false",
            )

    def _send(self, header: Mapping[str, Any], payload: bytes = b"") -> None:
        try:
            self._process.pipes.send(header, payload)
        except (WorkerGoneError, WorkerSilentError, FrameError) as error:
            if isinstance(error, WorkerGoneError):
                self._receive_farewell()  # it may have said why before it ended
            self._give_up(error)

    def _receive_farewell(self) -> None:
        try:
            while True:
                self._receive_raw()
        except (WorkerGoneError, WorkerSilentError, FrameError):
            return

    def _receive(self) -> Message:
        """Return the next message that is not mere talk; what the worker gives up with is raised."""
        while True:
            try:
                message = self._receive_raw()
            except (WorkerGoneError, WorkerSilentError, FrameError) as error:
                self._give_up(error)
            if not isinstance(message, Said):
                return message

    def _receive_raw(self) -> Message:
        message = parse(*self._process.pipes.receive())
        if isinstance(message, Said):
            self._note(message.text)
        if isinstance(message, Failed):
            self._gave_up = True
            self._note(message.trace)
            kind = UnfitEnvironmentError if message.refused else BuildError
            raise kind(f"the engine {self._name} failed", cause=message.error)
        return message

    def _give_up(self, error: Exception) -> NoReturn:
        what, cause, hint = f"the worker of the engine {self._name} failed", str(error), None
        if isinstance(error, WorkerGoneError):
            end = self._process.ended()
            what, cause, hint = f"the worker of the engine {self._name} ended", end.words, end.hint
        elif isinstance(error, WorkerSilentError):
            what = f"the worker of the engine {self._name} hangs"
            cause = "nothing came from it for longer than runtime.execution.timeout_seconds allows"
        self._process.kill()
        if line := self._process.last_line():
            cause = f"{cause}\nits last line: {line:.400}"
        raise BuildError(what, cause=cause, hint=hint) from error

    def _out_of_turn(self, message: Message) -> NoReturn:
        name = type(message).__name__.lower()
        self._give_up(FrameError(f"a message {name!r}, which is not what comes now"))

    def _believe(self, take: Callable[..., _Taken], *message: Message) -> _Taken:
        try:
            return take(*message)
        except ValueError as error:
            self._give_up(FrameError(str(error)))


def _generate_message(
    requests: Sequence[Request], batching: Batching, ends: ModelEnds, sink: CaptureSink
) -> tuple[dict[str, Any], bytes]:
    header = {
        "type": "generate",
        "requests": [
            {
                "id": request.id,
                "prompt_tokens": len(request.prompt_token_ids),
                # As text: what a number looks like in JSON must not depend on who writes it.
                "temperature": repr(float(request.sampling.temperature)),
                "top_p": repr(float(request.sampling.top_p)),
                "top_k": max(request.sampling.top_k, 0),
                "seed": request.sampling.seed,
                "max_tokens": min(
                    request.sampling.max_tokens, ends.context - len(request.prompt_token_ids)
                ),
                "stop_token_ids": sorted({*ends.end_token_ids, *request.stop.token_ids}),
            }
            for request in requests
        ],
        "group": batching.max_num_seqs,
        "steered": _is_steered(requests),
        "logits": [phase for phase in ("prefill", "decode") if sink.wants(phase)],
        "layers": list(sink.layers),
    }
    return header, token_bytes(
        itertools.chain.from_iterable(request.prompt_token_ids for request in requests)
    )


def _is_steered(requests: Sequence[Request]) -> bool:
    """Whether dis looks at each step for texts that end a sequence: the worker decodes nothing."""
    return any(request.stop.sequences for request in requests)


@dataclass
class _Sequence:
    output: list[int] = field(default_factory=list)
    finish: Finish | None = None


class _Generation:
    """The state of one call of `generate`, as far as the worker has told it; a contradiction is a ValueError."""

    def __init__(self, requests: Sequence[Request], ends: ModelEnds, sink: CaptureSink) -> None:
        self.steered = _is_steered(requests)
        self._requests = requests
        self._rules = [
            StopRule(each, ends.end_token_ids, ends.context, ends.decode) for each in requests
        ]
        self._sink = sink
        self._sequences = [_Sequence() for _ in requests]
        self._decoded: list[Tensor] = []
        self._stopping: list[int] = []
        self._tokens = 0

    def progress(self) -> Progress:
        finished = sum(each.finish is not None for each in self._sequences)
        return Progress(finished, len(self._sequences), self._tokens)

    def stopping(self) -> list[int]:
        """Return the requests that the last step ended though the engine does not know."""
        return self._stopping

    def take_rows(self, tensor: Tensor) -> None:
        """Take captured rows; logits that a token is chosen from wait for the token."""
        self._running(tensor.request)
        if tensor.kind == "activations":
            layer = tensor.layer if tensor.layer is not None else 0
            self._sink.activations(tensor.request, tensor.phase, layer, widened(tensor))
        elif tensor.phase == "prefill":
            self._sink.logits(tensor.request, "prefill", widened(tensor))
        else:
            self._decoded.append(tensor)

    def take_step(self, step: Step) -> None:
        chosen = dict(step.tokens)
        finished = dict(step.finished)
        for tensor in self._decoded:
            tokens = chosen.get(tensor.request, ())
            if len(tokens) != tensor.shape[0]:
                raise ValueError(f"{tensor.shape[0]} rows of logits for {len(tokens)} tokens")
            self._sink.logits(tensor.request, "decode", widened(tensor), chosen=tokens)
        self._decoded = []
        self._stopping = []
        for index, tokens in chosen.items():
            self._take_tokens(index, tokens, ended=index in finished)
        if not finished.keys() <= chosen.keys():
            raise ValueError("a request ended in a step that chose no token for it")
        computed = [(self._requests[index].id, count) for index, count in step.computed]
        self._sink.step(computed)

    def _take_tokens(self, index: int, tokens: Sequence[int], *, ended: bool) -> None:
        sequence, rule = self._running(index), self._rules[index]
        for number, token in enumerate(tokens):
            sequence.output.append(token)
            self._tokens += 1
            looks = ended or bool(self._requests[index].stop.sequences)
            finish = rule.finish(sequence.output) if looks else None
            if finish is None and ended and number == len(tokens) - 1:
                raise ValueError(f"request {self._requests[index].id} ended for no known reason")
            sequence.finish = finish
            if finish is not None:
                if not ended:
                    self._stopping.append(index)
                return

    def _running(self, index: int) -> _Sequence:
        if index >= len(self._sequences) or self._sequences[index].finish is not None:
            raise ValueError(f"something of request number {index}, which does not run")
        return self._sequences[index]

    def sequences(self) -> list[GeneratedSequence]:
        return [
            GeneratedSequence(
                id=request.id,
                prompt_token_ids=request.prompt_token_ids,
                output_token_ids=tuple(sequence.output),
                finish_reason=finish.finish_reason,
                stop_reason=finish.stop_reason,
                text=finish.text,
            )
            for request, sequence in zip(self._requests, self._sequences, strict=True)
            for finish in [_ended(request, sequence)]
        ]


def _ended(request: Request, sequence: _Sequence) -> Finish:
    if sequence.finish is None:
        raise ValueError(f"request {request.id} did not end")
    return sequence.finish
