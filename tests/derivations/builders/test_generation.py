"""What a generation leaves: results that settings of the work cannot change, and a log that says all."""

import json
import os
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

from dis_derivations.artifacts.safetensors_header import read_header
from dis_store import Store
from dis_store.digest import Digest
from dis_store.errors import IntegrityError
from tiny_runs import realise

LOGITS = 'capture.logits={"enabled":true,"capture_decode":true,"capture_prefill":true}'


def generate(store: Store, config: Path, *overrides: str) -> Digest:
    return realise(store, config, *overrides, target="generation").outputs["results"]


def read(store: Store, results: Digest, name: str) -> Any:
    return json.loads(store.read_bytes(results, name))


def shapes(store: Store, results: Digest) -> dict[str, tuple[str, tuple[int, ...]]]:
    header = read_header(store.file_path(results, "logits.safetensors"))
    return {name: (tensor.dtype, tensor.shape) for name, tensor in header.tensors.items()}


def test_results_hold_the_tokens_and_what_the_engine_says_of_itself(
    store: Store, config: Path
) -> None:
    results = generate(store, config)
    assert [file.path for file in store.files(results)] == ["engine.json", "tokens.json"]
    sequences = read(store, results, "tokens.json")["sequences"]
    assert [sequence["id"] for sequence in sequences] == [f"request-{n:05d}" for n in range(3)]
    assert all(1 <= len(sequence["output_token_ids"]) <= 6 for sequence in sequences)
    assert read(store, results, "engine.json") == {
        "format": 1,
        "engine": "reference",
        "numerics": 1,
        "settings": {
            "max_model_len": read(store, results, "engine.json")["settings"]["max_model_len"]
        },
    }


@pytest.mark.parametrize("size", [1, 3, 8])
def test_no_batch_size_changes_a_bit_of_tokens_or_logits(
    store: Store, config: Path, size: int, tmp_path: Path
) -> None:
    one = generate(store, config, LOGITS)
    with Store.open(tmp_path / "other") as other:
        batched = generate(
            other,
            config,
            LOGITS,
            f"inference.batching.max_num_seqs={size}",
            "inference.batching.max_num_batched_tokens=5",
        )
    assert batched == one


def test_captured_logits_have_a_row_for_every_position(store: Store, config: Path) -> None:
    results = generate(store, config, LOGITS)
    sequences = read(store, results, "tokens.json")["sequences"]
    expected = {}
    for index, sequence in enumerate(sequences):
        expected[f"{index:05d}.decode"] = ("F32", (len(sequence["output_token_ids"]), 300))
        expected[f"{index:05d}.prefill"] = ("F32", (len(sequence["prompt_token_ids"]), 300))
    assert shapes(store, results) == expected


@pytest.mark.parametrize(
    ("dtype", "name"), [("float16", "F16"), ("bfloat16", "BF16"), ("float64", "F64")]
)
def test_logits_are_captured_in_the_type_that_the_manifest_names(
    store: Store, config: Path, dtype: str, name: str
) -> None:
    results = generate(store, config, LOGITS, f"capture.logits.dtype={dtype}")
    assert {found for found, _ in shapes(store, results).values()} == {name}


def test_chosen_only_keeps_one_logit_a_token(store: Store, config: Path) -> None:
    decode = 'capture.logits={"enabled":true,"capture_decode":true,"scope":"chosen_only"}'
    results = generate(store, config, decode)
    sequences = read(store, results, "tokens.json")["sequences"]
    assert shapes(store, results) == {
        f"{index:05d}.decode": ("F32", (len(sequence["output_token_ids"]),))
        for index, sequence in enumerate(sequences)
    }


SAMPLED = (
    "inference.request_template.sampling.temperature=2",
    "inference.request_template.sampling.seed=5",
)


def numbers(store: Store, results: Digest) -> dict[str, NDArray[np.float64]]:
    """Return the captured logits by name, which were captured as float64."""
    path = store.file_path(results, "logits.safetensors")
    header = read_header(path)
    data = path.read_bytes()[header.data_start :]
    return {
        name: np.frombuffer(data[info.begin : info.end], "<f8").reshape(info.shape)
        for name, info in header.tensors.items()
    }


def test_chosen_only_keeps_the_logits_of_sampled_tokens(store: Store, config: Path) -> None:
    capture = 'capture.logits={"enabled":true,"capture_decode":true,"dtype":"float64"}'
    full = generate(store, config, *SAMPLED, capture)
    chosen = generate(store, config, *SAMPLED, capture, "capture.logits.scope=chosen_only")
    sequences = read(store, full, "tokens.json")["sequences"]
    assert read(store, chosen, "tokens.json")["sequences"] == sequences
    rows, kept, greedy = numbers(store, full), numbers(store, chosen), []
    for index, sequence in enumerate(sequences):
        name, tokens = f"{index:05d}.decode", sequence["output_token_ids"]
        assert np.array_equal(kept[name], rows[name][range(len(tokens)), tokens])
        greedy += (rows[name].argmax(axis=1) == tokens).tolist()
    assert not all(greedy)


def test_a_trace_lists_what_each_step_computed(store: Store, config: Path) -> None:
    results = generate(store, config, 'capture.engine_trace={"enabled":true}')
    lines = store.read_bytes(results, "engine_trace.jsonl").decode().splitlines()
    steps = [json.loads(line) for line in lines]
    assert [step["step"] for step in steps] == list(range(len(steps)))
    computed = sum(request["tokens"] for step in steps for request in step["requests"])
    sequences = read(store, results, "tokens.json")["sequences"]
    needed = sum(
        len(sequence["prompt_token_ids"]) + len(sequence["output_token_ids"]) - 1
        for sequence in sequences
    )
    assert computed == needed
    assert max(len(step["requests"]) for step in steps) == 2


def test_the_log_says_what_was_run_on_what(store: Store, config: Path) -> None:
    realised = realise(store, config, target="generation")
    log = json.loads(store.read_bytes(realised.outputs["log"], "run_log.json"))
    sequences = read(store, realised.outputs["results"], "tokens.json")["sequences"]
    assert [record["output_token_ids"] for record in log["records"]] == [
        sequence["output_token_ids"] for sequence in sequences
    ]
    assert [record["prompt_token_count"] for record in log["records"]] == [
        len(sequence["prompt_token_ids"]) for sequence in sequences
    ]
    assert log["batch_trace"]["max_num_seqs"] == 2
    assert log["batch_trace"]["steps"]
    assert {file["path"] for file in log["artifact_integrity"]} >= {
        "model.safetensors",
        "config.json",
    }
    assert all(file["verified"] for file in log["artifact_integrity"])
    assert "numpy" in json.dumps(log["runtime_environment"])


def test_weights_that_rotted_in_the_store_are_found_before_they_are_used(
    store: Store, config: Path
) -> None:
    weights = realise(store, config, target="weights").outputs["out"]
    realise(store, config, target="closure")
    path = store.file_path(weights, "model.safetensors")
    path.chmod(0o644)
    with path.open("r+b") as file:
        file.seek(-1, os.SEEK_END)
        last = file.read(1)
        file.seek(-1, os.SEEK_END)
        file.write(bytes([last[0] ^ 1]))
    with pytest.raises(IntegrityError, match=r"model\.safetensors of the object .* has changed"):
        generate(store, config)
