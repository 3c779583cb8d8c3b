"""A probe of the real vLLM on the CPU, with a small random model."""

import json
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from checkpoints import write_checkpoint
from tiny_runs import write_manifest
from vllm_environment import SMALL, vllm_python

PROMPTS = ("abba", "a cab", "babe bead", "dead beef", "add", "a bad cab", "cafe", "faded bead")
# Wide enough that a row of a product is summed in another way alone than among others.
WIDE = replace(SMALL, hidden=1024, intermediate=2048, queries=16, keys=8)
pytestmark = [pytest.mark.slow, pytest.mark.timeout(1800)]


def test_vllm_repeats_itself_and_depends_on_its_batches(
    command_in: Callable[[Path], Any], tmp_path: Path
) -> None:
    config = write_manifest(tmp_path / "tiny", prompts=PROMPTS)
    write_checkpoint(tmp_path / "tiny" / "model", WIDE)
    document = json.loads(config.read_bytes())
    document["runtime"]["execution"]["backend"] = "vllm"
    document["runtime"]["threads"] = {"omp_num_threads": 2, "mkl_num_threads": 2}
    document["vllm"]["engine_args"] |= {"dtype": "bfloat16", "max_model_len": 128}
    document["inference"]["batching"] = {"policy": "fixed", "max_num_seqs": len(PROMPTS)}
    document["inference"]["request_template"]["sampling"]["max_tokens"] = 12
    config.write_text(json.dumps(document), "utf-8")
    dis = command_in(tmp_path).having(extra={"DIS_VLLM_PYTHON": str(vllm_python())})

    checks = "same-process,alone,prefix-cache,reference"
    process = dis.start("probe", config, "--checks", checks, "--json")
    stdout, stderr = process.communicate(timeout=1200)
    assert process.returncode == 1, stderr
    found = {each["check"]: each for each in json.loads(stdout)["checks"]}

    assert found["same-process"]["answer"] == "holds"
    assert found["prefix-cache"]["answer"] == "not run"
    alone = found["alone"]
    assert alone["answer"] == "differs"
    assert 0 < alone["comparison"]["largest_logit_error"] < 1
    assert alone["comparison"]["first_tensor_divergence"]["part"] == "decode"
    reference = found["reference"]["comparison"]
    assert reference["observables"]["logits"] == "differ"
    assert 0 < reference["largest_logit_error"] < 1
