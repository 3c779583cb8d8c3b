"""What of an engine in a process of its own is part of which derivation."""

from pathlib import Path
from typing import Any

import pytest

from dis_derivations.engines.registry import REFERENCE, VLLM
from dis_derivations.graph.compilation import compile_graph
from dis_derivations.graph.derivation import Derivation
from dis_derivations.graph.engine_process import EngineEnvironment, engine_variables
from dis_derivations.graph.graph import Graph
from dis_derivations.lock.document import Lock, LockedFile
from dis_derivations.manifest.loading import load_manifest
from dis_store.digest import Sha256

QUICKSTART = Path(__file__).parents[3] / "configs/quickstart.json"
FILES = tuple(
    LockedFile(name, path, 1, Sha256.of(path.encode()), False, "computed", {})
    for name, path in (
        ("model.weight", "model.safetensors"),
        ("model.tokenizer", "tokenizer.json"),
        ("model.config", "config.json"),
        ("inference.prompt_dataset", "dataset.json"),
    )
)
INSTALLED = EngineEnvironment({"kind": "installed", "digest": "ab" * 32})


def compiled(*overrides: str, environment: EngineEnvironment | None = INSTALLED) -> Graph:
    loaded = load_manifest(QUICKSTART, ["runtime.execution.backend=vllm", *overrides])
    lock = Lock(loaded.manifest_id, "2026-01-01T00:00:00Z", FILES, {})
    return compile_graph(loaded, lock, engine_environment=environment)


def derivation(graph: Graph, name: str) -> Derivation:
    return graph.derivations[graph.target(name)]


def changed(one: Graph, other: Graph) -> set[str]:
    return {name for name in one.targets if one.targets[name] != other.targets.get(name)}


def test_the_closure_says_what_the_engine_is_made_of_and_how_it_is_run() -> None:
    args = derivation(compiled("vllm.engine_args.dtype=bfloat16"), "closure").args
    assert args["environment"] == {"kind": "installed", "digest": "ab" * 32}
    assert args["engine"]["settings"]["dtype"] == "bfloat16"
    assert args["engine"]["variables"]["VLLM_ENABLE_V1_MULTIPROCESSING"] == "0"
    assert args["engine"]["variables"]["PYTHONHASHSEED"] == "0"


def test_another_environment_costs_a_generation_and_no_requests() -> None:
    other = EngineEnvironment({"kind": "installed", "digest": "cd" * 32})
    assert changed(compiled(), compiled(environment=other)) == {"closure", "generation", "run"}


def test_nothing_answers_for_an_engine_that_nobody_knows() -> None:
    first, second = (
        compiled(environment=EngineEnvironment({"kind": "unpinned"}, occasion=word))
        for word in ("a", "b")
    )
    assert changed(first, second) == {"generation", "run"}
    assert derivation(first, "generation").args["occasion"] == "a"
    assert "occasion" not in derivation(compiled(), "generation").args


def test_a_manifest_is_for_accelerators_when_it_wants_their_vendor() -> None:
    wanted = compiled("hardware.constraints.accelerator_vendor=nvidia")
    for name in ("generation", "run"):
        assert derivation(compiled(), name).platform == "cpu"
        assert derivation(wanted, name).platform == "cuda"
    # Bits of the reference engine depend on no machine, whatever is wanted.
    assert (
        REFERENCE.platform_of({"hardware": {"constraints": {"accelerator_vendor": "nvidia"}}})
        == "any"
    )


@pytest.mark.parametrize(
    ("change", "targets"),
    [
        ("inference.batching.max_num_seqs=3", {"generation", "run"}),
        ("vllm.env.ONEDNN_MAX_CPU_ISA=AVX2", {"closure", "generation", "run"}),
        ("vllm.engine_args.model=another-name", {"run"}),
        ('capture.activations={"enabled":true,"hooks":["layers.1"]}', {"generation", "run"}),
    ],
)
def test_a_change_reaches_what_it_can_change(change: str, targets: set[str]) -> None:
    assert changed(compiled(), compiled(change)) == targets


def test_an_engine_that_is_part_of_dis_has_no_process() -> None:
    document: dict[str, Any] = {"runtime": {"env": {"A": "1"}}, "vllm": {"env": {"B": "1"}}}
    assert engine_variables(REFERENCE, document) == {}
    assert engine_variables(VLLM, document)["B"] == "1"
