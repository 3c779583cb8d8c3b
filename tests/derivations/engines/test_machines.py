"""One digest of all tokens and logits on every BLAS kernel, thread count, CPU feature set."""

import json
import os
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from checkpoints import CheckpointShape, write_checkpoint
from dis_derivations.engines.reference.machine import describe_machine

_HERE = Path(__file__).resolve().parent
_ROOT = _HERE.parents[2]

SHAPE = CheckpointShape(vocabulary=700, hidden=96, intermediate=640, context=2048)

GOLDEN = {
    "r1": "20ec702095025eb7b24fbb62919700bede6a60e1021709462a30e19d7efba1b3",
    "r2": "f5965ba149ebcc0804b34650bb0c896e98be9c2c6b88786128c3e5f522509452",
    "r17": "99599ab68ffb1b7f4c264d78f6f9abc45d224006c243ed003f331480b0cab2ea",
    "r1100": "50a324592af314f835a48901edeab706255cab059ecc13960c8d33c6d9d3ebeb",
}
"""Another digest here means other results for users: raise NUMERICS_VERSION with it."""

KERNELS = {
    # requested: what OpenBLAS may call it, the CPU features it needs
    "Prescott": ({"Katmai", "Prescott"}, {"SSE3"}),
    "Nehalem": ({"Nehalem"}, {"SSE42"}),
    "Sandybridge": ({"Sandybridge"}, {"AVX"}),
    "Haswell": ({"Haswell"}, {"AVX2", "FMA3"}),
    "Zen": ({"Zen", "Haswell"}, {"AVX2", "FMA3"}),
    "SkylakeX": ({"SkylakeX"}, {"AVX512F", "AVX512DQ", "AVX512BW", "AVX512VL"}),
    "Cooperlake": ({"Cooperlake", "SkylakeX"}, {"AVX512_SKX", "AVX512BF16"}),
    "SapphireRapids": ({"SapphireRapids", "Cooperlake", "SkylakeX"}, {"AVX512_SPR"}),
    "ARMV8": ({"armv8"}, {"ASIMD"}),
    "NEOVERSEN1": ({"neoversen1"}, {"ASIMDHP", "ASIMDDP"}),
}


@pytest.fixture(scope="module")
def model(tmp_path_factory: pytest.TempPathFactory) -> Path:
    directory = tmp_path_factory.mktemp("model")
    write_checkpoint(directory, SHAPE, seed=5)
    return directory


def report(model: Path, **settings: str) -> dict[str, Any]:
    path = os.pathsep.join(str(_ROOT / part) for part in ("store", "derivations", "tests/support"))
    done = subprocess.run(
        [sys.executable, "-W", "error", _HERE / "digest_script.py", model],
        env={**os.environ, "PYTHONPATH": path, **settings},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr[-3000:]
    answer: dict[str, Any] = json.loads(done.stdout)
    return answer


def openblas_or_skip() -> Mapping[str, Any]:
    machine = describe_machine()
    if "kernel" not in machine["blas"]:
        pytest.skip(f"numpy computes with {machine['blas'].get('name')}, not with OpenBLAS")
    return machine


@pytest.mark.parametrize("kernel", KERNELS)
def test_every_blas_kernel_gives_the_same_bits(model: Path, kernel: str) -> None:
    machine = openblas_or_skip()
    names, needed = KERNELS[kernel]
    missing = needed - set(machine["cpu_features"])
    if missing:
        pytest.skip(f"this CPU has no {', '.join(sorted(missing))}")

    found = report(model, OPENBLAS_CORETYPE=kernel)

    assert found["blas"]["kernel"] in names, "OpenBLAS did not take the kernel asked for"
    assert found["digests"] == GOLDEN


def test_the_kernels_tried_differ(model: Path) -> None:
    machine = openblas_or_skip()
    if machine["machine"] not in {"x86_64", "AMD64"}:
        pytest.skip("on this architecture OpenBLAS may have one kernel only")
    kernels = {
        report(model, OPENBLAS_CORETYPE=kernel)["blas"]["kernel"]
        for kernel in ("Prescott", "Nehalem")
    }
    assert len(kernels) == 2


@pytest.mark.parametrize("threads", ["1", "2"])
def test_every_thread_count_gives_the_same_bits(model: Path, threads: str) -> None:
    openblas_or_skip()
    found = report(model, OPENBLAS_NUM_THREADS=threads)
    assert found["blas"]["threads"] == int(threads)
    assert found["digests"] == GOLDEN


def test_numpy_without_optional_cpu_features_gives_the_same_bits(model: Path) -> None:
    optional = np.show_config(mode="dicts")["SIMD Extensions"].get("found", [])
    if not optional:
        pytest.skip("this CPU has no feature that numpy could leave unused")
    found = report(model, NPY_DISABLE_CPU_FEATURES=" ".join(optional))
    assert not set(optional) & set(found["cpu_features"])
    assert found["digests"] == GOLDEN
