"""Making the results and the log of a generation out of those of its shards, in bounded memory."""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

from dis_derivations.artifacts.safetensors_merging import Part, merge_safetensors
from dis_derivations.graph.sharding import Shard
from dis_derivations.realisation.building import BuildContext, RealisedInput
from dis_derivations.realisation.events import Measure
from dis_derivations.runs.bundle import (
    ACTIVATIONS_FILE,
    ENGINE_DOCUMENT,
    LOGITS_FILE,
    TOKENS_DOCUMENT,
    TRACE_FILE,
)
from dis_derivations.runs.recording import renumbered
from dis_derivations.runs.run_directory import RUN_LOG
from dis_store import TreeWriter, canonical_json, strict_json
from dis_store.environment import reading

_SHARD_LOGS = "shards"


@dataclass(frozen=True)
class FinishedShard:
    """A shard and its results."""

    shard: Shard
    results: RealisedInput


def merge_results(context: BuildContext, shards: Sequence[FinishedShard], tree: TreeWriter) -> None:
    """Write into `tree` the files that one generation of all requests would have made, byte for byte.

    Args:
        context: The build.
        shards: All of the run, in order; what their engines say of themselves is the same.
        tree: The results.
    """
    store = context.store
    first = shards[0].results.object
    captured = {file.path for file in store.files(first)}
    tree.write_bytes(ENGINE_DOCUMENT, store.read_bytes(first, ENGINE_DOCUMENT))
    with tree.create(TOKENS_DOCUMENT) as file:
        file.write(b'{"format":1,"sequences":[')
        for piece in _joined(_sequences(context, shards)):
            file.write(piece)
        file.write(b"]}")
    for name in (LOGITS_FILE, ACTIVATIONS_FILE):
        if name in captured:
            _merge_tensors(context, shards, name, tree)
    if TRACE_FILE in captured:
        with tree.create(TRACE_FILE) as file:
            for line in _trace(context, shards):
                file.write(line)


def _sequences(context: BuildContext, shards: Iterable[FinishedShard]) -> Iterator[bytes]:
    """Yield the sequences of each shard, encoded, without the brackets around them."""
    for each in shards:
        context.check_interrupted()
        data = context.store.read_bytes(each.results.object, TOKENS_DOCUMENT)
        yield _elements(strict_json.decode(data, name=TOKENS_DOCUMENT)["sequences"])


def _merge_tensors(
    context: BuildContext, shards: Sequence[FinishedShard], name: str, tree: TreeWriter
) -> None:
    parts = [
        Part(
            context.store.file_path(each.results.object, name),
            partial(renumbered, first=each.shard.first),
        )
        for each in shards
    ]
    total = sum(part.path.stat().st_size for part in parts)
    gauge = context.gauge("merging the shards", Measure("bytes", 0, total))
    context.store.check_room(total)
    with tree.create(name) as file:

        def write(data: bytes) -> None:
            file.write(data)
            gauge.add(len(data))

        merge_safetensors(parts, write, context.check_interrupted)


def _trace(context: BuildContext, shards: Iterable[FinishedShard]) -> Iterator[bytes]:
    number = 0
    for each in shards:
        path = context.store.file_path(each.results.object, TRACE_FILE)
        with reading(path), path.open("rb") as file:
            for line in file:
                context.check_interrupted()
                step = strict_json.decode(line, name=TRACE_FILE)
                yield canonical_json.encode({**step, "step": number}) + b"\n"
                number += 1


def merge_logs(context: BuildContext, shards: Sequence[FinishedShard]) -> None:
    """Give the log of the generation what those of its shards say, and references to them.

    What was measured, and may differ between shards that were made at other times, is that of the last shard.
    """
    records: list[bytes] = []
    steps: list[bytes] = []
    step_count = 0
    seconds = {"load_seconds": 0.0, "generate_seconds": 0.0}
    document: dict[str, Any] = {}
    for each in shards:
        log = each.results.log
        if log is None or RUN_LOG not in {file.path for file in context.store.files(log)}:
            continue  # taken from elsewhere without one
        context.log_files[f"{_SHARD_LOGS}/{each.shard.label}"] = log
        document = strict_json.decode(context.store.read_bytes(log, RUN_LOG), name=RUN_LOG)
        records.append(
            _elements(
                {**record, "prompt_index": each.shard.first + record["prompt_index"]}
                for record in document["records"]
            )
        )
        made = document["batch_trace"]["steps"]
        steps.append(
            _elements({**step, "step": step_count + number} for number, step in enumerate(made))
        )
        step_count += len(made)
        for name in seconds:
            seconds[name] += document["timings"][name]
    if not document:
        return
    trace = {**_encoded(document["batch_trace"]), "steps": _list(steps)}
    members = {
        **_encoded(document),
        "records": _list(records),
        "batch_trace": _object(trace),
        "timings": canonical_json.encode(seconds),
    }
    context.log_files[RUN_LOG] = _object(members)


def _encoded(document: Mapping[str, Any]) -> dict[str, bytes]:
    return {name: canonical_json.encode(value) for name, value in document.items()}


def _elements(values: Iterable[Any]) -> bytes:
    """Return a list's encoding without its brackets."""
    return canonical_json.encode(list(values))[1:-1]


def _joined(pieces: Iterable[bytes]) -> Iterator[bytes]:
    """Yield pieces that are not empty, with commas between them."""
    comma = b""
    for piece in pieces:
        if piece:
            yield comma + piece
            comma = b","


def _list(pieces: Iterable[bytes]) -> bytes:
    return b"[" + b"".join(_joined(pieces)) + b"]"


def _object(members: Mapping[str, bytes]) -> bytes:
    """Return an object whose values are encoded already; its keys are ASCII."""
    pairs = (canonical_json.encode(name) + b":" + members[name] for name in sorted(members))
    return b"{" + b",".join(pairs) + b"}"
