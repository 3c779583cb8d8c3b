"""The quickstart run under other kernels, thread counts and instruction sets: one bundle."""

import json
import re
from importlib import import_module
from pathlib import Path
from typing import Any

import pytest

ROOT = Path(__file__).parents[2]
QUICKSTART = ROOT / "configs/quickstart.json"

MACHINES = {
    "an old kernel": {"OPENBLAS_CORETYPE": "Nehalem"},
    "another kernel": {"OPENBLAS_CORETYPE": "Haswell"},
    "one thread": {"OPENBLAS_NUM_THREADS": "1"},
    "two threads": {"OPENBLAS_NUM_THREADS": "2"},
    "no vector instructions in numpy": {
        "NPY_DISABLE_CPU_FEATURES": "AVX2 FMA3 AVX512F AVX512CD AVX512_SKX AVX512_CLX AVX512_CNL AVX512_ICL"
    },
    "another hash seed, locale and time zone": {
        "PYTHONHASHSEED": "7",
        "LC_ALL": "C",
        "TZ": "Asia/Kathmandu",
    },
}


def supported(features: str) -> str:
    """Return those of the features that this numpy and this machine know; naming another one is an error to numpy."""
    numpy = import_module("numpy._core._multiarray_umath")
    return " ".join(
        feature
        for feature in features.split()
        if feature in numpy.__cpu_dispatch__ and numpy.__cpu_features__.get(feature)
    )


@pytest.mark.slow
@pytest.mark.parametrize("machine", MACHINES)
def test_every_machine_makes_the_bundle_that_the_readme_states(dis: Any, machine: str) -> None:
    environment = dict(MACHINES[machine])
    if "NPY_DISABLE_CPU_FEATURES" in environment:
        environment["NPY_DISABLE_CPU_FEATURES"] = supported(environment["NPY_DISABLE_CPU_FEATURES"])
    (stated,) = re.findall(r"`([0-9a-f]{64})`", (ROOT / "README.md").read_text("utf-8"))
    answer = dis.having(extra=environment)("realize", QUICKSTART, "--json").json
    assert answer["outputs"]["bundle"]["digest"] == stated


@pytest.mark.slow
@pytest.mark.parametrize("size", [1, 3])
def test_no_batch_size_changes_the_results(shared: Any, dis: Any, size: int) -> None:
    """A batch size is in no key of the reference engine, so the other run needs a store of its own."""
    one = shared("realize", QUICKSTART).stdout.strip()
    other = dis(
        "realize", QUICKSTART, "--set", f"inference.batching.max_num_seqs={size}"
    ).stdout.strip()
    results = [
        json.loads((Path(path) / "bundle.json").read_bytes())["results"] for path in (one, other)
    ]
    assert results[0] == results[1]
