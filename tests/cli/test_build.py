"""`dis build`: the runtime closure and its description."""

import json
import shutil
from pathlib import Path

from command_line import Dis, Realised


def test_build_describes_the_closure(dis: Dis, realised: Realised) -> None:
    outcome = dis("build", "--config", realised.config, "--progress", "none")
    assert outcome.code == 0
    document = outcome.document
    assert document["kind"] == "vllm.runtime_closure"
    assert document["engine"]["name"] == "reference"
    lock = json.loads(realised.config.with_name("quickstart.lock.json").read_bytes())
    assert document["lock_id"] == lock["lock_id"]
    assert document["size"] == sum(each["size"] for each in document["objects"])
    sizes = {each["path"]: each["size"] for each in document["files"]}
    weights = realised.config.with_name("quickstart") / "model" / "model.safetensors"
    assert sizes["model/model.safetensors"] == weights.stat().st_size
    info = dis("path-info", "-r", document["closure"], "--json").document
    assert [each["digest"] for each in info] == [each["digest"] for each in document["objects"]]


def test_build_writes_the_same_description_every_time(
    dis: Dis, own_store: Realised, tmp_path: Path
) -> None:
    shutil.copytree(own_store.config.parent, tmp_path / "configs")
    argv = ("build", "configs/quickstart.json", "--progress", "none")
    assert dis(*argv, "--output", "a.json").out == "a.json\n"
    assert dis(*argv, "--output", "b.json", "--update-lock", "--name", "kept").code == 0
    assert (tmp_path / "a.json").read_bytes() == (tmp_path / "b.json").read_bytes()
    described = json.loads((tmp_path / "a.json").read_bytes())
    assert dis(*argv, "--json").document == described
    assert dis("why-alive", described["closure"]).out.startswith("named root kept: ")
