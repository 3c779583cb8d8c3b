"""Facts about machines: what is read of a CPU, and of what a driver tells.

There is no NVIDIA accelerator where these tests run, so its driver is a stand-in: what is tested is how its answers are
read, and not that a driver gives them.
"""

import os
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from dis_derivations.graph.derivation import PlatformClass
from dis_derivations.realisation.cpu_facts import architecture, cpu_facts
from dis_derivations.realisation.nvidia_facts import nvidia_facts
from dis_derivations.realisation.platform_facts import measure
from dis_store import canonical_json
from dis_store.errors import UnfitEnvironmentError

CPUINFO = """processor\t: 0
vendor_id\t: GenuineIntel
cpu family\t: 6
model\t\t: 143
model name\t: Intel(R) Xeon(R) Platinum
cpu MHz\t\t: 2100.000
flags\t\t: fpu sse4_2 avx avx2 fma avx512f avx512_bf16 amx_tile constant_tsc

processor\t: 1
vendor_id\t: GenuineIntel
model name\t: another
"""


@pytest.fixture
def cpuinfo(tmp_path: Path) -> Path:
    path = tmp_path / "cpuinfo"
    path.write_text(CPUINFO, "utf-8")
    return path


def test_of_a_cpu_counts_what_chooses_code(cpuinfo: Path) -> None:
    assert cpu_facts({"OMP_NUM_THREADS": "3"}, cpuinfo) == {
        "architecture": architecture(),
        "vendor": "GenuineIntel",
        "model": "Intel(R) Xeon(R) Platinum",
        "family": "6",
        "model_number": "143",
        "instruction_set": {
            "flags": ["amx_tile", "avx", "avx2", "avx512_bf16", "avx512f", "fma", "sse4_2"],
            "aten": "native",
            "mkl": "native",
            "onednn": "native",
        },
        "threads": 3,
    }


@pytest.mark.parametrize(
    ("name", "library"),
    [
        ("ATEN_CPU_CAPABILITY", "aten"),
        ("ONEDNN_MAX_CPU_ISA", "onednn"),
        ("DNNL_MAX_CPU_ISA", "onednn"),
        ("MKL_ENABLE_INSTRUCTIONS", "mkl"),
        ("MKL_CBWR", "mkl"),
    ],
)
def test_a_cap_is_a_fact(cpuinfo: Path, name: str, library: str) -> None:
    plain, capped = (
        cpu_facts(variables, cpuinfo)["instruction_set"] for variables in ({}, {name: "AVX2"})
    )
    assert capped == {**plain, library: "avx2"}


@pytest.mark.parametrize("said", ["", "0", "many", "-1"])
def test_without_a_number_each_processor_has_a_thread(cpuinfo: Path, said: str) -> None:
    found = cpu_facts({"OMP_NUM_THREADS": said}, cpuinfo)["threads"]
    assert found == len(os.sched_getaffinity(0))


def test_a_kernel_that_tells_nothing_still_gives_facts(tmp_path: Path) -> None:
    found = cpu_facts({}, tmp_path / "nothing")
    assert found["model"] == ""
    assert found["instruction_set"]["flags"] == []


def test_the_facts_of_this_machine_are_the_same_twice_and_plain_json() -> None:
    first, second = measure("cpu", {}), measure("cpu", {})
    assert canonical_json.encode(dict(first)) == canonical_json.encode(dict(second))
    assert set(first) == {"cpu"}
    assert measure("any") == {}


class FakeNvmlError(Exception):
    pass


def nvml(*names: str | bytes, fails: str = "") -> Any:
    def answer(function: str, value: Any) -> Any:
        def call(*arguments: Any) -> Any:
            if function == fails:
                raise FakeNvmlError("Driver Not Loaded")
            return value(*arguments) if callable(value) else value

        return call

    shut: list[int] = []
    return SimpleNamespace(
        NVMLError=FakeNvmlError,
        nvmlInit=answer("nvmlInit", None),
        nvmlShutdown=lambda: shut.append(1),
        nvmlDeviceGetCount=answer("nvmlDeviceGetCount", len(names)),
        nvmlDeviceGetHandleByIndex=answer("nvmlDeviceGetHandleByIndex", lambda index: index),
        nvmlDeviceGetName=answer("nvmlDeviceGetName", lambda handle: names[handle]),
        nvmlDeviceGetCudaComputeCapability=answer("nvmlDeviceGetCudaComputeCapability", (9, 0)),
        nvmlSystemGetDriverVersion=answer("nvmlSystemGetDriverVersion", "570.86.15"),
        shut=shut,
    )


def test_of_accelerators_count_model_capability_number_and_driver() -> None:
    library = nvml("NVIDIA H100", b"NVIDIA H200")
    assert nvidia_facts({}, library) == {
        "accelerators": [
            {"vendor": "nvidia", "model": "NVIDIA H100", "compute_capability": "9.0"},
            {"vendor": "nvidia", "model": "NVIDIA H200", "compute_capability": "9.0"},
        ],
        "driver": "570.86.15",
    }
    assert library.shut == [1]


@pytest.mark.parametrize(
    ("named", "models"),
    [("1", ["b"]), ("2, 0", ["c", "a"]), ("0,9,1", ["a"])],
)
def test_only_accelerators_that_the_engine_sees_count(named: str, models: list[str]) -> None:
    found = nvidia_facts({"CUDA_VISIBLE_DEVICES": named}, nvml("a", "b", "c"))
    assert [each["model"] for each in found["accelerators"]] == models


@pytest.mark.parametrize(
    ("library", "named", "said"),
    [
        (nvml(fails="nvmlInit"), None, "no NVIDIA driver"),
        (nvml("a", fails="nvmlDeviceGetName"), None, "did not tell"),
        (nvml(), None, "no NVIDIA accelerator"),
        (nvml("a"), "", "no NVIDIA accelerator"),
        (nvml("a"), "GPU-4a6b", "by number"),
    ],
)
def test_a_machine_without_accelerators_is_told(library: Any, named: str | None, said: str) -> None:
    variables = {} if named is None else {"CUDA_VISIBLE_DEVICES": named}
    with pytest.raises(UnfitEnvironmentError) as caught:
        nvidia_facts(variables, library)
    assert said in str(caught.value)


@pytest.mark.parametrize("platform", ["any", "server"])
def test_nothing_of_this_machine_counts_for_what_is_computed_anywhere_or_elsewhere(
    platform: PlatformClass,
) -> None:
    assert measure(platform) == {}
