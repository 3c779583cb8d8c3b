"""Running requests on an engine, and recording what comes of it as the results and the log of a generation."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from dis_derivations.builders.loaded_engine import EngineOnDemand
from dis_derivations.engines.protocol import GeneratedSequence, Progress, Request
from dis_derivations.realisation.building import BuildContext
from dis_derivations.realisation.events import Measure
from dis_derivations.realisation.gauge import Gauge
from dis_derivations.runs.bundle import ENGINE_DOCUMENT, TOKENS_DOCUMENT
from dis_derivations.runs.recording import ResultRecorder
from dis_derivations.runs.run_directory import RUN_LOG
from dis_store import canonical_json
from dis_store.digest import Digest


@dataclass
class Course:
    """How far a run has come, over all of its shards.

    Attributes:
        requests: How many the run has.
        finished: How many of them belong to generations that have ended.
        tokens: How many tokens those have made here.
    """

    gauge: Gauge
    requests: int
    finished: int = 0
    tokens: int = 0
    _now: Progress = field(default=Progress(0, 0, 0), init=False)

    @classmethod
    def of(cls, context: BuildContext, requests: int) -> "Course":
        """Begin to show the course of a build."""
        gauge = context.gauge("generating", Measure("requests", 0, requests), Measure("tokens", 0))
        return cls(gauge, requests)

    def show(self, progress: Progress) -> None:
        """Show how far the generation of now has come."""
        self._now = progress
        self.gauge.show(
            Measure("requests", self.finished + progress.finished, self.requests),
            Measure("tokens", self.tokens + progress.tokens),
        )

    def end_part(self, requests: int) -> None:
        """Count a generation of so many requests as ended."""
        self.finished, self.tokens = self.finished + requests, self.tokens + self._now.tokens
        self.show(Progress(0, 0, 0))


def generate(
    context: BuildContext, source: EngineOnDemand, requests: Sequence[Request], course: Course
) -> Digest:
    """Run requests, and return the results; the log of the build is told what there is to say.

    Raises:
        IntegrityError: A file of the model is not what the closure says.
        UnfitEnvironmentError: The engine cannot run this model or these requests.
        BuildError: The engine failed.
    """
    first = not source.is_loaded
    loaded = source.loaded()
    engine, batching = loaded.engine, source.batching
    with (
        context.store.new_tree() as tree,
        ResultRecorder(context.derivation.args["capture"]) as recorder,
    ):
        began = context.log.seconds()
        known = "" if first else " already"
        context.log.write(
            f"{source.document['engine']['name']} engine loaded{known}; {len(requests)} requests"
        )
        sequences = engine.generate(requests, batching, recorder, _listener(context, course))
        generated = context.log.seconds()
        tree.write_bytes(TOKENS_DOCUMENT, _tokens_document(sequences))
        identity = {**engine.identity(), **_environment(source.document)}
        tree.write_bytes(ENGINE_DOCUMENT, canonical_json.encode({"format": 1, **identity}))
        recorder.write_captures(tree)
        results = tree.register()
        steps = recorder.steps
        environment = dict(engine.environment())
    context.log_files[RUN_LOG] = canonical_json.encode(
        {
            "records": _records(sequences),
            "runtime_environment": environment,
            "determinism_controls": {"engine": identity},
            "artifact_integrity": loaded.integrity,
            "batch_trace": {
                "policy": "fixed",
                "max_num_seqs": batching.max_num_seqs,
                "max_num_batched_tokens": batching.max_num_batched_tokens,
                "steps": steps,
            },
            "timings": {
                "load_seconds": loaded.seconds if first else 0.0,
                "generate_seconds": generated - began,
            },
        }
    )
    return results


def _environment(closure: Mapping[str, Any]) -> dict[str, Any]:
    """Return what the engine is made of, for an engine that is no part of dis."""
    return {"environment": closure["environment"]} if "environment" in closure else {}


def _listener(context: BuildContext, course: Course) -> Callable[[Progress], None]:
    """Return a listener that logs each finished request and ends the generation on an interruption."""
    finished = 0

    def listen(progress: Progress) -> None:
        nonlocal finished
        context.check_interrupted()
        course.show(progress)
        if progress.finished != finished:
            finished = progress.finished
            context.log.write(
                f"{progress.finished} of {progress.requests} requests finished, {progress.tokens} tokens"
            )

    return listen


def _tokens_document(sequences: Sequence[GeneratedSequence]) -> bytes:
    return canonical_json.encode(
        {
            "format": 1,
            "sequences": [
                {
                    "id": sequence.id,
                    "prompt_token_ids": list(sequence.prompt_token_ids),
                    "output_token_ids": list(sequence.output_token_ids),
                    "finish_reason": sequence.finish_reason,
                    "stop_reason": sequence.stop_reason,
                    "text": sequence.text,
                }
                for sequence in sequences
            ],
        }
    )


def _records(sequences: Sequence[GeneratedSequence]) -> list[dict[str, Any]]:
    return [
        {
            "prompt_index": index,
            "request_id": sequence.id,
            "prompt_token_ids": list(sequence.prompt_token_ids),
            "prompt_token_count": len(sequence.prompt_token_ids),
            "output_token_ids": list(sequence.output_token_ids),
            "output_token_count": len(sequence.output_token_ids),
            "finish_reason": sequence.finish_reason,
        }
        for index, sequence in enumerate(sequences)
    ]
