"""A machine's facts against a manifest's hardware constraints."""

from typing import Any

import pytest

from dis_derivations.runs.hardware_conformance import unmet_constraints

CPU = {"cpu": {"architecture": "x86_64"}}


def gpu(model: str = "NVIDIA A100-SXM4-80GB", capability: str = "8.0") -> dict[str, Any]:
    return {"vendor": "nvidia", "model": model, "compute_capability": capability}


def with_gpus(*gpus: dict[str, Any]) -> dict[str, Any]:
    return {**CPU, "accelerators": list(gpus)}


@pytest.mark.parametrize(
    "constraints",
    [
        {},
        {"cpu_arch": "x86_64"},
        {"cpu_arch": "AMD64"},
        {"accelerator_vendor": "nvidia"},
        {"accelerator_vendor": "NVIDIA", "gpu_arch_min_cc": "8.0", "gpu_arch_max_cc": "8.0"},
        {"gpu_arch_min_cc": "7.5"},
        {"gpu_arch_max_cc": "10.0"},
        {"allowed_gpu_models": []},
        {"allowed_gpu_models": ["H100", "A100"]},
        {"allowed_gpu_models": ["NVIDIA A100-SXM4-80GB"]},
        {"allowed_gpu_models": ["nvidia a100 sxm4 80gb"]},
        {"allowed_gpu_models": None, "cpu_arch": None},
    ],
)
def test_a_machine_that_meets_its_constraints(constraints: dict[str, Any]) -> None:
    assert unmet_constraints(with_gpus(gpu(), gpu()), constraints) == []


@pytest.mark.parametrize(
    ("constraints", "sentence"),
    [
        ({"cpu_arch": "aarch64"}, "cpu_arch: the CPU is x86_64, and must be aarch64"),
        ({"accelerator_vendor": "amd"}, "accelerator_vendor: an accelerator is of nvidia, and must be of amd"),
        ({"gpu_arch_min_cc": "9.0"}, "gpu_arch_min_cc: the compute capability is 8.0, and must be at least 9.0"),
        ({"gpu_arch_max_cc": "7.5"}, "gpu_arch_max_cc: the compute capability is 8.0, and must be at most 7.5"),
        ({"allowed_gpu_models": ["A10", "H100"]},
         "allowed_gpu_models: an accelerator is NVIDIA A100-SXM4-80GB, and must be A10 or H100"),
        ({"something_new": 1}, "something_new: not compared with the facts of this platform"),
    ],
)  # fmt: skip
def test_each_constraint_that_is_not_met_is_a_sentence(
    constraints: dict[str, Any], sentence: str
) -> None:
    assert unmet_constraints(with_gpus(gpu()), constraints) == [sentence]


def test_one_accelerator_that_differs_is_enough() -> None:
    found = unmet_constraints(
        with_gpus(gpu(), gpu("NVIDIA H100 80GB HBM3", "9.0")),
        {"allowed_gpu_models": ["A100"], "gpu_arch_max_cc": "8.9"},
    )
    assert len(found) == 2
    assert all("H100" in each or "9.0" in each for each in found)


def test_capabilities_are_compared_as_versions() -> None:
    assert unmet_constraints(with_gpus(gpu(capability="10.0")), {"gpu_arch_min_cc": "9.0"}) == []


def test_a_run_on_the_cpu_meets_no_constraint_of_accelerators() -> None:
    constraints = {
        "accelerator_vendor": "nvidia",
        "gpu_arch_min_cc": "8.0",
        "gpu_arch_max_cc": "9.0",
        "allowed_gpu_models": ["A100"],
    }
    found = unmet_constraints(CPU, constraints)
    assert len(found) == 4
    assert all("used the CPU" in each for each in found)


def test_what_the_facts_do_not_tell_is_not_met() -> None:
    assert unmet_constraints({}, {"cpu_arch": "x86_64"}) == [
        "cpu_arch: the CPU is unknown, and must be x86_64"
    ]
