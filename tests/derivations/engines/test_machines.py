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
from model_families import MODELS

_HERE = Path(__file__).resolve().parent
_ROOT = _HERE.parents[2]

SHAPE = CheckpointShape(vocabulary=700, hidden=96, intermediate=640, context=2048)
SHAPES = {"llama": SHAPE, **MODELS}

GOLDEN = {
    "llama": {
        "r1": "20ec702095025eb7b24fbb62919700bede6a60e1021709462a30e19d7efba1b3",
        "r2": "f5965ba149ebcc0804b34650bb0c896e98be9c2c6b88786128c3e5f522509452",
        "r17": "99599ab68ffb1b7f4c264d78f6f9abc45d224006c243ed003f331480b0cab2ea",
        "r1100": "50a324592af314f835a48901edeab706255cab059ecc13960c8d33c6d9d3ebeb",
        "s5": "2a85986e1b12171eece271dbf1f70d93d35156f85bb6bd59b3a7aa580e202429",
    },
    "mistral": {
        "r1": "4c96d816b17e8a3b84b033afb91d4b4275ae3dcb52e328cbd9d2d0b956e057b4",
        "r2": "c9df73bb126513a3cf94d7c02069e67fc48a885dc780fd53bea6b2c473f1f0b6",
        "r17": "ef96a99ba477b07f9bf3df440375594465a20ef88704d4e1ecaa2df930a26902",
        "r1100": "f174ab2bd66b5e0102599a38624b45c9ec1d4bb4b1e3a2a1e0bb55a8be474b8a",
        "s5": "850c75f8845e1b73a47aa47e561ff6450e8f5ead9f7450abef7daf7fcf229cf7",
    },
    "qwen2": {
        "r1": "f1e2ad127d2f5cf2d0457c35ec8dc658885437fce0fa319b3900b532ea867ee1",
        "r2": "2dc782ed6eb3e846c19f5bef26881b50a22dab351f2afeb3a3cd8a1129c0f893",
        "r17": "4ef7b03f3af54be8784949b26c3477a83e377937bc8b13db67458bea403905b1",
        "r1100": "0b6c920ce9b07aece282a60706fdb966158e38427887309e90173d72453d1c86",
        "s5": "b7dd66b33e65a15a6bef008a4a19c04b848b991a26744b3ab3f2b909dc09f6ba",
    },
    "qwen3": {
        "r1": "c5eb120924dc977bfbc584455f394b8056ee5c932d95cf72ae4d0d200e199aa5",
        "r2": "d1c86b4386a1a8eb5c14567e2e4bfade6a20f7dfa7b98ec64ea52e526a2ec439",
        "r17": "a0217b2160c2a8541d324f243f56e9327f05290e9330ad5b394c5d73eb65174d",
        "r1100": "d3a133ced9f836c5991785d396b8f985627c6b12637dbc17a72517c4524aef95",
        "s5": "42c38fbbf68b61c8b120abdbf154ff33e82dae5e6ea898e011fcb2cf403d3974",
    },
    "smollm3": {
        "r1": "dfab516ac1fff2a4a982abaed768d6dd7cc99e181f5b06447de0b1ba285ea8b9",
        "r2": "c26bdc78f8df5950907b011a771ec7e7b15b3cf1dd82b91c78e31fae224b1217",
        "r17": "7ce6f2555b94e8f9f4861da9a4a6123ebc47e8c7319dd804e6e251e9fe7d083e",
        "r1100": "58fac1229cb0d289fb29b918d8b3b5c0dd70d1c47bef6b464c3c28b9d0580588",
        "s5": "44a5ea48105da8a150c7b66e817b6e90161ac22dfece8796650135bf0f0988da",
    },
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
def models(tmp_path_factory: pytest.TempPathFactory) -> Path:
    directory = tmp_path_factory.mktemp("models")
    for name, shape in SHAPES.items():
        write_checkpoint(directory / name, shape, seed=5)
    return directory


def report(models: Path, **settings: str) -> dict[str, Any]:
    path = os.pathsep.join(str(_ROOT / part) for part in ("store", "derivations", "tests/support"))
    done = subprocess.run(
        [sys.executable, "-W", "error", _HERE / "digest_script.py", models],
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
def test_every_blas_kernel_gives_the_same_bits(models: Path, kernel: str) -> None:
    machine = openblas_or_skip()
    names, needed = KERNELS[kernel]
    missing = needed - set(machine["cpu_features"])
    if missing:
        pytest.skip(f"this CPU has no {', '.join(sorted(missing))}")

    found = report(models, OPENBLAS_CORETYPE=kernel)

    assert found["blas"]["kernel"] in names, "OpenBLAS did not take the kernel asked for"
    assert found["digests"] == GOLDEN


def test_the_kernels_tried_differ(tmp_path: Path) -> None:
    machine = openblas_or_skip()
    if machine["machine"] not in {"x86_64", "AMD64"}:
        pytest.skip("on this architecture OpenBLAS may have one kernel only")
    kernels = {
        report(tmp_path, OPENBLAS_CORETYPE=kernel)["blas"]["kernel"]
        for kernel in ("Prescott", "Nehalem")
    }
    assert len(kernels) == 2


@pytest.mark.parametrize("threads", ["1", "2"])
def test_every_thread_count_gives_the_same_bits(models: Path, threads: str) -> None:
    openblas_or_skip()
    found = report(models, OPENBLAS_NUM_THREADS=threads)
    assert found["blas"]["threads"] == int(threads)
    assert found["digests"] == GOLDEN


def test_numpy_without_optional_cpu_features_gives_the_same_bits(models: Path) -> None:
    optional = np.show_config(mode="dicts")["SIMD Extensions"].get("found", [])
    if not optional:
        pytest.skip("this CPU has no feature that numpy could leave unused")
    found = report(models, NPY_DISABLE_CPU_FEATURES=" ".join(optional))
    assert not set(optional) & set(found["cpu_features"])
    assert found["digests"] == GOLDEN


def test_a_library_that_does_not_open_once_more_is_left_out_and_ends_no_run(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    openblas_or_skip()

    def refuse(_path: str) -> None:
        # The loader's errors have no number.
        raise OSError("cannot open shared object file: Interrupted system call")

    monkeypatch.setattr("ctypes.CDLL", refuse)
    assert "kernel" not in describe_machine()["blas"]
