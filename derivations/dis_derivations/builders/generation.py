"""The `generation` builder: the expensive step, in which an engine runs the requests on a closure."""

from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

from dis_derivations.builders.closure import (
    CLOSURE_DOCUMENT,
    ENVIRONMENT_DIRECTORY,
    MODEL_DIRECTORY,
)
from dis_derivations.builders.engine_opening import opened_engine
from dis_derivations.builders.requests import REQUESTS_DOCUMENT
from dis_derivations.engines.protocol import Batching, GeneratedSequence, Progress
from dis_derivations.realisation.building import BuildContext
from dis_derivations.realisation.events import Measure
from dis_derivations.runs.bundle import ENGINE_DOCUMENT, TOKENS_DOCUMENT
from dis_derivations.runs.recording import ResultRecorder
from dis_derivations.runs.run_directory import RUN_LOG
from dis_store import canonical_json, strict_json
from dis_store.contents import changed
from dis_store.digest import Digest
from dis_store.hashing import hash_descriptor


class GenerationBuilder:
    """Makes `results`: tokens, what the engine says about itself, and the captures that were asked for."""

    version = 1

    def build(self, context: BuildContext) -> Mapping[str, Digest]:
        """Run every request.

        Raises:
            IntegrityError: A file of the model is not what the closure says.
            UnfitEnvironmentError: The engine cannot run this model or these requests.
            BuildError: The engine failed.
        """
        from dis_derivations.tokenization.requests_document import parse_requests

        store, closure = context.store, context.inputs["closure"].object
        files, integrity = _verified_model(context, closure)
        document = strict_json.decode(
            store.read_bytes(closure, CLOSURE_DOCUMENT), name=CLOSURE_DOCUMENT
        )
        requests = parse_requests(
            store.read_bytes(context.inputs["requests"].object, REQUESTS_DOCUMENT)
        )
        batching = Batching(
            **context.derivation.args.get("batching", context.hints.get("batching", {}))
        )
        with (
            opened_engine(context, document, files, batching) as engine,
            store.new_tree() as tree,
            ResultRecorder(context.derivation.args["capture"]) as recorder,
        ):
            loaded = context.log.seconds()
            context.log.write(
                f"{document['engine']['name']} engine loaded; {len(requests)} requests"
            )
            sequences = engine.generate(
                requests, batching, recorder, _progress(context, len(requests))
            )
            generated = context.log.seconds()
            tree.write_bytes(TOKENS_DOCUMENT, _tokens_document(sequences))
            identity = {**engine.identity(), **_environment(document)}
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
                "artifact_integrity": integrity,
                "batch_trace": {
                    "policy": "fixed",
                    "max_num_seqs": batching.max_num_seqs,
                    "max_num_batched_tokens": batching.max_num_batched_tokens,
                    "steps": steps,
                },
                "timings": {"load_seconds": loaded, "generate_seconds": generated - loaded},
            }
        )
        return {"results": results}


def _environment(closure: Mapping[str, Any]) -> dict[str, Any]:
    """Return what the engine is made of, for an engine that is no part of dis."""
    return {"environment": closure["environment"]} if "environment" in closure else {}


def _verified_model(
    context: BuildContext, closure: Digest
) -> tuple[dict[str, Path], list[dict[str, Any]]]:
    """Return the model's files by name, and the record of their check; those of an environment are checked as well."""
    from blake3 import blake3

    places = (f"{MODEL_DIRECTORY}/", f"{ENVIRONMENT_DIRECTORY}/")
    parts = [file for file in context.store.files(closure) if file.path.startswith(places)]
    gauge = context.gauge(
        "verifying the model", Measure("bytes", 0, sum(file.size for file in parts))
    )

    def count(amount: int) -> None:
        context.check_interrupted()
        gauge.add(amount)

    files: dict[str, Path] = {}
    record: list[dict[str, Any]] = []
    for file in parts:
        context.check_interrupted()
        with file.real.open("rb") as opened:
            found = hash_descriptor(opened.fileno(), threads=blake3.AUTO, on_bytes=count)[1]
        if found != file.blake3:
            raise changed(file, f"its BLAKE3 is {found}, and must be {file.blake3}")
        if not file.path.startswith(places[0]):
            continue  # of an environment, which has thousands, none is named
        name = file.path.removeprefix(f"{MODEL_DIRECTORY}/")
        files[name] = file.real
        record.append(
            {"path": name, "blake3": str(file.blake3), "size": file.size, "verified": True}
        )
    return files, record


def _progress(context: BuildContext, count: int) -> Callable[[Progress], None]:
    """Return a listener that logs each finished request and ends the generation on an interruption."""
    finished = 0
    gauge = context.gauge("generating", Measure("requests", 0, count), Measure("tokens", 0))

    def listen(progress: Progress) -> None:
        nonlocal finished
        context.check_interrupted()
        gauge.show(
            Measure("requests", progress.finished, progress.requests),
            Measure("tokens", progress.tokens),
        )
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
