"""What of a manifest reaches which derivation: editing a word must not cost a generation."""

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from dis_derivations.engines.registry import engine_kind
from dis_derivations.graph.compilation import capture_plan, compile_graph, without_extensions
from dis_derivations.graph.graph import Graph
from dis_derivations.lock.document import Lock, LockedFile
from dis_derivations.manifest.loading import load_manifest
from dis_store.digest import Sha256
from dis_store.errors import InvalidInputError, UnfitEnvironmentError

QUICKSTART = Path(__file__).parents[3] / "configs/quickstart.json"
ORDER = ["weights", "tokenizer", "config", "dataset", "requests", "closure", "generation", "run"]

Compile = Callable[..., Graph]


def locked(name: str, path: str, content: str = "x") -> LockedFile:
    return LockedFile(name, path, 1, Sha256.of(content.encode()), False, "computed", {})


FILES = (
    locked("model.weight", "model.safetensors"),
    locked("model.tokenizer", "tokenizer.json"),
    locked("model.config", "config.json"),
    locked("inference.prompt_dataset", "dataset.json"),
)


@pytest.fixture
def compiled(tmp_path: Path) -> Compile:
    """Return a function that compiles the quickstart manifest with overrides and a made-up lock."""

    def make(*overrides: str, files: tuple[LockedFile, ...] = FILES) -> Graph:
        loaded = load_manifest(QUICKSTART, overrides)
        return compile_graph(loaded, Lock(loaded.manifest_id, "2026-01-01T00:00:00Z", files, {}))

    return make


def changed(one: Graph, other: Graph) -> set[str]:
    return {name for name in one.targets if one.targets[name] != other.targets.get(name)}


def test_the_graph_has_a_target_for_every_step_in_order(compiled: Compile) -> None:
    graph = compiled()
    assert list(graph.targets) == ORDER
    assert [graph.derivations[graph.targets[name]].builder for name in ORDER] == [
        "files"
    ] * 4 + ORDER[4:]


def test_compiling_twice_gives_the_same_graph(compiled: Compile) -> None:
    assert compiled().targets == compiled().targets


@pytest.mark.parametrize(
    "override",
    [
        "metadata.description=Another text",
        'metadata.owners=["someone"]',
        "x_note=1",
        "runtime.env.EXTRA=on",
        "determinism.strict_hardware=true",
    ],
)
def test_what_cannot_change_a_result_reaches_the_run_alone(
    compiled: Compile, override: str
) -> None:
    assert changed(compiled(), compiled(override)) == {"run"}


@pytest.mark.parametrize(
    "override",
    ["outputs.directory=elsewhere", "artifacts.lockfile=other.json", "artifacts.store.path=x"],
)
def test_what_only_says_where_reaches_nothing(compiled: Compile, override: str) -> None:
    assert changed(compiled(), compiled(override)) == set()


def test_a_name_is_a_label_of_every_derivation_and_part_of_no_key(compiled: Compile) -> None:
    one, other = compiled(), compiled("metadata.name=renamed")
    for name in ORDER[:-1]:
        before = one.derivations[one.targets[name]]
        after = other.derivations[other.targets[name]]
        assert after.name == f"renamed-{name}"
        assert (before.builder, before.args) == (after.builder, after.args)


def test_a_batch_size_reaches_no_step_of_an_engine_whose_bits_it_cannot_change(
    compiled: Compile,
) -> None:
    assert changed(compiled(), compiled("inference.batching.max_num_seqs=2")) == {"run"}


def test_a_batch_size_counts_when_the_batches_are_captured(compiled: Compile) -> None:
    trace = 'capture.engine_trace={"enabled":true,"events":[]}'
    assert changed(compiled(trace), compiled(trace, "inference.batching.max_num_seqs=2")) == {
        "generation",
        "run",
    }


def test_a_longer_answer_tokenises_and_generates_again(compiled: Compile) -> None:
    override = "inference.request_template.sampling.max_tokens=3"
    assert changed(compiled(), compiled(override)) == {"requests", "generation", "run"}


def test_a_context_length_counts_and_an_unknown_engine_argument_does_not(compiled: Compile) -> None:
    assert changed(compiled(), compiled("vllm.engine_args.max_model_len=128")) == {
        "closure",
        "generation",
        "run",
    }
    assert changed(compiled(), compiled("vllm.engine_args.gpu_memory_utilization=0.5")) == {"run"}


def test_other_weights_reach_everything_but_the_requests(compiled: Compile) -> None:
    other = (locked("model.weight", "model.safetensors", "other"), *FILES[1:])
    assert changed(compiled(), compiled(files=other)) == {"weights", "closure", "generation", "run"}


GGUF = (locked("model.weight", "tiny/m.gguf"), FILES[3])


def test_a_gguf_file_is_converted_into_the_parts_that_the_rest_is_made_of(
    compiled: Compile,
) -> None:
    graph = compiled(files=GGUF)
    assert list(graph.targets) == ["weights", "dataset", "conversion", *ORDER[4:]]
    conversion = graph.derivations[graph.targets["conversion"]]
    assert (conversion.builder, conversion.args, conversion.platform) == ("gguf", {}, "any")
    assert conversion.inputs["gguf"].derivation == graph.targets["weights"]
    parts = {"weights", "tokenizer", "config", "chat_template"}
    assert set(conversion.compared) == parts == set(conversion.outputs) - {"log"}
    for name, used in (
        ("closure", parts),
        ("requests", {"tokenizer", "chat_template"}),
        ("run", parts),
    ):
        inputs = graph.derivations[graph.targets[name]].inputs
        for part in used:
            assert (inputs[part].derivation, inputs[part].output) == (conversion.digest, part)


def test_parts_of_the_model_that_a_lock_has_come_before_those_of_a_gguf_file(
    compiled: Compile,
) -> None:
    graph = compiled(files=(*GGUF, FILES[1]))
    closure = graph.derivations[graph.targets["closure"]]
    assert closure.inputs["tokenizer"].derivation == graph.targets["tokenizer"]
    assert closure.inputs["config"].derivation == graph.targets["conversion"]


def test_a_gguf_file_among_others_is_not_converted(compiled: Compile) -> None:
    with pytest.raises(InvalidInputError, match="has no tokenizer, config"):
        compiled(files=(*GGUF, locked("model.weight", "more.gguf")))


def test_a_lock_without_a_needed_artifact_is_refused(compiled: Compile) -> None:
    with pytest.raises(InvalidInputError, match="has no weights"):
        compiled(files=FILES[1:])


@pytest.mark.parametrize(
    ("backend", "platform"),
    [
        ("reference", "any"),
        ("mock", "any"),
        ("transformers", "cpu"),
        ("vllm", "cpu"),
        ("openai_compatible", "server"),
    ],
)
def test_the_engine_of_a_manifest_is_the_one_that_generates(
    compiled: Compile, backend: str, platform: str
) -> None:
    override = f"runtime.execution.backend={backend}"
    extra = (
        ("runtime.execution.base_url=http://127.0.0.1:8000",)
        if backend == "openai_compatible"
        else ()
    )
    graph = compiled(override, *extra)
    generation = graph.derivations[graph.target("generation")]
    assert (generation.args["engine"], generation.platform) == (backend, platform)


def test_an_engine_that_this_version_does_not_have_is_refused_by_name() -> None:
    with pytest.raises(UnfitEnvironmentError, match="'fancy' is not available"):
        engine_kind("fancy")


def test_the_graph_holds_no_path_of_this_machine(compiled: Compile) -> None:
    graph = compiled()
    here = str(Path(__file__).parents[3])
    records = [derivation.encode() for _, derivation in graph]
    assert not [record for record in records if here.encode() in record]
    assert not [record for record in records if b"local_path" in record]


@pytest.mark.parametrize(
    ("block", "plan"),
    [
        ({}, {"logits": None, "engine_trace": False}),
        (
            {"logits": {"enabled": False, "dtype": "float16"}},
            {"logits": None, "engine_trace": False},
        ),
        (
            {
                "logits": {"enabled": True, "capture_decode": True},
                "engine_trace": {"enabled": True},
            },
            {
                "logits": {"scope": "full", "dtype": "float32", "prefill": False, "decode": True},
                "engine_trace": True,
            },
        ),
    ],
)
def test_the_capture_plan_has_every_default_filled_in(
    block: dict[str, Any], plan: dict[str, Any]
) -> None:
    assert capture_plan(block) == plan


def test_notes_of_the_author_are_dropped_at_every_depth() -> None:
    value = {"a": [{"x_note": 1, "b": 2}], "x_top": {}, "c": {"x_in": 1}}
    assert json.dumps(without_extensions(value)) == '{"a": [{"b": 2}], "c": {}}'
