"""The engine vllm through the command: the real one in the slow tier, and what is refused without it."""

import json
import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from checkpoints import write_checkpoint
from effort import in_stress_alone
from tiny_runs import write_manifest
from vllm_environment import SMALL, vllm_python

slow = [pytest.mark.slow, pytest.mark.timeout(1800)]


def manifest(place: Path, **changes: Any) -> Path:
    """Write a manifest of a small random model for vLLM on the CPU."""
    path = write_manifest(place, prompts=("abba", "a cab", "babe bead", "dead beef"))
    write_checkpoint(place / "model", SMALL)
    document = json.loads(path.read_text("utf-8"))
    document["runtime"]["execution"]["backend"] = "vllm"
    document["runtime"]["network_policy"] = "offline_required"
    document["runtime"]["threads"] = {"omp_num_threads": 2, "mkl_num_threads": 2}
    document["vllm"]["engine_args"] |= {"dtype": "float32", "max_model_len": 128}
    document["inference"]["batching"] = {"policy": "fixed", "max_num_seqs": 4}
    document["capture"] = {
        "tokens": True,
        "logits": {"enabled": True, "capture_prefill": True, "capture_decode": True},
        "activations": {"enabled": True, "hooks": ["layers.1"]},
        "engine_trace": {"enabled": True},
    }
    path.write_text(json.dumps({**document, **changes}), "utf-8")
    return path


class Realised:
    """A store with runs of the small model, each made by the real vLLM."""

    def __init__(self, dis: Any, config: Path) -> None:
        self.config = config
        self.dis = dis.having(extra={"DIS_VLLM_PYTHON": str(vllm_python())})
        self.rebuilt = self.realise("together", "--rebuild")
        self.realise("alone", "--set", "inference.batching.max_num_seqs=1")
        capped = ("ATEN_CPU_CAPABILITY=avx2", "ONEDNN_MAX_CPU_ISA=AVX2")
        self.realise("capped", *(f"--set=vllm.env.{each}" for each in capped))

    def realise(self, name: str, *options: str) -> Any:
        process = self.dis.start("realize", self.config, "--name", name, "--json", *options)
        stdout, stderr = process.communicate(timeout=1200)
        assert process.returncode == 0, stderr
        return json.loads(stdout)

    def document(self, name: str, path: str) -> Any:
        return self.dis("cat", name, path).json


@pytest.fixture(scope="module")
def realised(
    command_in: Callable[[Path], Any], tmp_path_factory: pytest.TempPathFactory
) -> Realised:
    place = tmp_path_factory.mktemp("vllm")
    return Realised(command_in(place), manifest(place / "tiny"))


class TestReal:
    pytestmark = slow

    def test_a_run_rebuilt_in_a_new_process_has_the_bits_of_the_first(
        self, realised: Realised
    ) -> None:
        found = realised.rebuilt["reproductions"]
        assert (found["builds"], found["identical"]) == (2, 2)
        files = realised.dis("ls", "together").stdout
        for name in ("logits.safetensors", "activations.safetensors", "engine_trace.jsonl"):
            assert name in files

    def test_the_bundle_says_what_ran(self, realised: Realised) -> None:
        bundle = realised.document("together", "bundle.json")
        assert bundle["grade"] == "conformant"
        assert bundle["engine"]["engine"] == "vllm"
        assert bundle["engine"]["environment"]["kind"] == "installed"
        assert bundle["platform"]["class"] == "cpu"
        assert bundle["platform"]["facts"]["cpu"]["threads"] == 2
        assert set(bundle["capture"].values()) == {"captured"}
        # Where vLLM is installed is nobody's business, nor which machine this was.
        text = json.dumps(bundle)
        assert ".cache/vllm" not in text
        assert os.uname().nodename not in text

    def test_the_trace_has_the_batches_of_the_manifest(self, realised: Realised) -> None:
        lines = realised.dis("cat", "together", "engine_trace.jsonl").stdout.splitlines()
        first, *later = [json.loads(line)["requests"] for line in lines]
        assert len(first) == 4
        assert all(each["tokens"] == 1 for step in later for each in step)
        alone = realised.dis("cat", "alone", "engine_trace.jsonl").stdout.splitlines()
        assert all(len(json.loads(line)["requests"]) == 1 for line in alone)

    def test_another_batch_size_is_named_as_the_cause(self, realised: Realised) -> None:
        found = realised.dis("diff", "together", "alone", "--json", expect=1).json
        assert [cause["kind"] for cause in found["causes"]] == ["batching"]

    def test_a_capped_instruction_set_is_other_hardware(
        self, realised: Realised, tmp_path: Path
    ) -> None:
        pair = ("--bundle-a", "together", "--bundle-b", "capped", "--output-dir", tmp_path)
        finished = realised.dis("verify", *pair, "--json", expect=1)
        assert finished.json["grade"] == "non_conformant_hardware"
        facts = realised.document("capped", "bundle.json")["platform"]["facts"]["cpu"]
        assert facts["instruction_set"]["aten"] == "avx2"
        assert facts["instruction_set"]["onednn"] == "avx2"

    def test_a_run_in_shards_loads_vllm_once_and_begins_with_those_of_a_shorter_run(
        self, realised: Realised, tmp_path: Path
    ) -> None:
        config = manifest(tmp_path / "long")
        prompts = tuple(f"abba {number}" for number in range(136))
        (config.parent / "prompts.txt").write_text("\n".join(prompts) + "\n", "utf-8")
        options = ("--set", "inference.n_prompts=136", "--set", "metadata.name=long")
        found = realised.dis("realize", config, *options, "--name", "long")
        said = realised.dis("log", "long").stdout
        assert "136 requests in 2 shards" in said
        assert (said.count("vllm started"), said.count("engine loaded already")) == (1, 1)
        steps = realised.dis("cat", "long", "engine_trace.jsonl").stdout.splitlines()
        assert [json.loads(line)["step"] for line in steps] == list(range(len(steps)))
        shorter = ("--set", "inference.n_prompts=128", "--set", "metadata.name=long")
        planned = realised.dis("realize", config, *shorter, "--json", "--dry-run").json
        assert "generation" in [build["builder"] for build in planned["builds"]]
        again = realised.dis("realize", config, *shorter, "--name", "shorter")
        assert "importing vLLM" not in again.stderr
        assert found.stdout != again.stdout

    def test_what_is_known_is_not_run_again(self, realised: Realised) -> None:
        assert realised.realise("again")["cached"] is True

    def test_the_log_keeps_what_vllm_said(self, realised: Realised) -> None:
        text = realised.dis("log", "together").stdout
        assert "vllm started, cpython 3" in text
        assert "network: no attempt" in text


class TestBisection:
    """Seven more starts of vLLM."""

    pytestmark = in_stress_alone

    def test_of_a_batch_size_and_an_instruction_set_bisection_finds_the_batch_size(
        self, realised: Realised
    ) -> None:
        # In bfloat16 the batch size changes bits; the cap on PyTorch's own kernels does not.
        narrow = ("--set", "vllm.engine_args.dtype=bfloat16")
        changed = ("inference.batching.max_num_seqs=1", "vllm.env.ATEN_CPU_CAPABILITY=avx2")
        realised.realise("narrow", *narrow)
        realised.realise("changed", *narrow, *(f"--set={each}" for each in changed))
        named = realised.dis.having(extra={})
        found = named(
            *("bisect", "narrow", "changed", "--observable", "logits", "--json"),
            *("--vllm-python", str(vllm_python())),
        ).json
        outcomes = {tuple(each["from_b"]): each["outcome"] for each in found["experiments"]}
        assert found["guilty"] == ["/inference/batching/max_num_seqs"]
        assert outcomes["/vllm/env",] == "agrees"
        assert outcomes["/inference/batching/max_num_seqs",] == "parts"


def refused(dis: Any, config: Path, *options: str) -> Any:
    """Return the error of a realisation that must end before anything is made."""
    finished = dis("realize", config, *options, "--json", expect=5)
    assert not config.with_name("tiny.lock.json").exists() or "lock" in finished.stderr
    return json.loads(finished.stderr.splitlines()[-1])["error"]


def test_without_an_interpreter_it_is_said_how_to_name_one(dis: Any, tmp_path: Path) -> None:
    error = refused(dis, manifest(tmp_path / "tiny"))
    assert "not known where vllm is installed" in error["what"]
    assert "--vllm-python PATH" in error["hint"]


def test_an_interpreter_that_is_none_is_refused(dis: Any, tmp_path: Path) -> None:
    refused(dis, manifest(tmp_path / "tiny"), "--vllm-python", str(tmp_path / "python"))


def test_a_machine_that_strict_hardware_does_not_allow_is_refused_before_all(
    dis: Any, tmp_path: Path
) -> None:
    config = manifest(
        tmp_path / "tiny",
        determinism={"strict_hardware": True},
        hardware={"constraints": {"cpu_arch": "riscv64"}},
    )
    error = refused(dis, config)
    assert error["what"] == "this machine is not one that the manifest allows"
    assert "must be riscv64" in error["cause"]
    assert not config.with_name("tiny.lock.json").exists()


def test_batch_invariance_on_the_cpu_is_refused_before_all(dis: Any, tmp_path: Path) -> None:
    config = manifest(tmp_path / "tiny")
    error = refused(dis, config, "--set", 'vllm.env.VLLM_BATCH_INVARIANT="1"')
    assert "on the CPU vLLM does not start with batch-invariant kernels" in error["cause"]
    assert not config.with_name("tiny.lock.json").exists()


def test_an_accelerator_that_is_not_there_is_refused_before_all(dis: Any, tmp_path: Path) -> None:
    config = manifest(tmp_path / "tiny", hardware={"constraints": {"accelerator_vendor": "nvidia"}})
    error = refused(dis, config)
    assert "NVIDIA" in error["what"]


def test_a_project_cannot_name_the_interpreter(dis: Any, tmp_path: Path) -> None:
    config = manifest(tmp_path / "tiny")
    (config.parent / "dis.toml").write_text('vllm_python = "/tmp/evil"\n', "utf-8")
    finished = dis.having(cwd=config.parent)("realize", config, expect=2)
    assert "may not set vllm_python" in finished.stderr
