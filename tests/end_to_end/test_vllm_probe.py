"""A probe of the real vLLM on the CPU, with a small random model."""

import json
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from checkpoints import write_checkpoint
from effort import in_stress_alone
from tiny_runs import write_manifest
from vllm_environment import SMALL, vllm_python

PROMPTS = ("abba", "a cab", "babe bead", "dead beef", "add", "a bad cab", "cafe", "faded bead")
# Wide enough that a row of a product is summed in another way alone than among others.
WIDE = replace(SMALL, hidden=1024, intermediate=2048, queries=16, keys=8)
pytestmark = [*in_stress_alone, pytest.mark.timeout(1800)]


@pytest.fixture
def dis(command_in: Callable[[Path], Any], tmp_path: Path) -> Any:
    return command_in(tmp_path).having(extra={"DIS_VLLM_PYTHON": str(vllm_python())})


def manifest(directory: Path, prompts: tuple[str, ...], **engine_args: object) -> Path:
    config = write_manifest(directory, prompts=prompts)
    write_checkpoint(directory / "model", WIDE)
    document = json.loads(config.read_bytes())
    document["runtime"]["execution"]["backend"] = "vllm"
    document["runtime"]["threads"] = {"omp_num_threads": 2, "mkl_num_threads": 2}
    document["vllm"]["engine_args"] |= {"dtype": "bfloat16", "max_model_len": 128, **engine_args}
    document["inference"]["batching"] = {"policy": "fixed", "max_num_seqs": len(prompts)}
    document["inference"]["request_template"]["sampling"]["max_tokens"] = 12
    config.write_text(json.dumps(document), "utf-8")
    return config


def checked(dis: Any, config: Path, checks: str) -> tuple[int, dict[str, Any]]:
    process = dis.start("probe", config, "--checks", checks, "--json")
    stdout, stderr = process.communicate(timeout=1500)
    assert process.returncode in {0, 1}, stderr
    found = {each["check"]: each for each in json.loads(stdout)["checks"]}
    return process.returncode, found


def test_vllm_repeats_itself_and_depends_on_its_batches(dis: Any, tmp_path: Path) -> None:
    config = manifest(tmp_path / "tiny", PROMPTS)
    # Its prompts fill no block of the cache, not even a small one.
    code, found = checked(dis, config, "same-process,alone,prefix-cache,reference")

    assert code == 1
    assert found["same-process"]["answer"] == "holds"
    cache = found["prefix-cache"]
    assert cache["answer"] == "not run"
    assert [" ".join(each["reason"].split()[4:7]) for each in cache["failed_experiments"]] == [
        "blocks of 128",
        "blocks of 32",
    ]
    alone = found["alone"]
    assert alone["answer"] == "differs"
    assert 0 < alone["comparison"]["largest_logit_error"] < 1
    assert alone["comparison"]["first_tensor_divergence"]["part"] == "decode"
    reference = found["reference"]["comparison"]
    assert reference["observables"]["logits"] == "differ"
    assert 0 < reference["largest_logit_error"] < 1


def test_vllm_answers_from_a_warm_prefix_cache_in_a_probe_and_nowhere_else(
    dis: Any, tmp_path: Path
) -> None:
    prompts = tuple(f"{prompt} a bad cab faded bead cafe add dead beef" * 2 for prompt in PROMPTS)
    config = manifest(tmp_path / "tiny", prompts, block_size=32)
    code, found = checked(dis, config, "prefix-cache")

    check = found["prefix-cache"]
    assert check["experiment"] == {"kind": "warm prefix cache", "fields": {}}
    cache = check["prefix_cache"]
    assert cache["cached_tokens"] >= 32 * len(prompts)
    assert cache["cached_tokens"] % 32 == 0
    assert cache["first_cached_tokens"] < cache["cached_tokens"]
    same = [
        all(status in {"identical", "not captured"} for status in each["observables"].values())
        for each in (check["comparison"], cache["comparison"])
    ]
    assert check["answer"] == ("holds" if all(same) else "differs")
    assert code == (0 if all(same) else 1)
    # Rows of logits are those of the tokens that were chosen from them, though not all positions were computed.
    assert check["comparison"]["sequences"] == len(prompts)
    assert (check["comparison"]["largest_logit_error"] or 0) < 1

    def engine(bundle: str) -> dict[str, Any]:
        document: dict[str, Any] = json.loads(dis("cat", bundle, "engine.json").stdout)
        return document

    warm = engine(check["bundle"])
    assert warm["experiment"] == {
        "kind": "warm prefix cache",
        "cached_tokens": cache["cached_tokens"],
    }
    assert warm["settings"]["enable_prefix_caching"] is True
    assert warm["overridden"] == {}
    ordinary = engine(cache["uncached_bundle"])
    assert "experiment" not in ordinary
    assert ordinary["settings"]["enable_prefix_caching"] is False
    assert "EXPERIMENT OF A PROBE" in dis("show", check["bundle"]).stdout
    pair = ("--bundle-a", check["bundle"], "--bundle-b", check["bundle"])
    graded = dis("verify", *pair, expect=None)
    assert "non_conformant_software" in graded.stdout
