"""A run of more requests than a shard has: interrupted, it goes on where it stopped, and its bundle is the same."""

import json
import signal
from pathlib import Path
from typing import Any

import pytest

import network_errands
from tiny_runs import write_manifest

PROMPTS = tuple(f"abba {number}" for number in range(260))
OFFLINE = "runtime.network_policy=offline_required"


@pytest.fixture
def manifest(tmp_path: Path) -> Path:
    """Return a manifest of 260 requests: shards of 128, 128 and 4."""
    path = write_manifest(tmp_path / "long", prompts=PROMPTS)
    document = json.loads(path.read_text("utf-8"))
    document["inference"]["batching"]["max_num_seqs"] = 64
    path.write_text(json.dumps(document), "utf-8")
    return path


def builds(store: Path, builder: str) -> list[Any]:
    """Return the records of builds of a kind."""
    records = [json.loads(each.read_bytes()) for each in (store / "realisations").rglob("*.json")]
    return [record for record in records if record["builder"] == builder]


@pytest.mark.slow
@pytest.mark.parametrize("end", [signal.SIGINT, signal.SIGKILL])
def test_what_was_finished_is_not_made_again_after_an_interruption(
    dis: Any, manifest: Path, tmp_path: Path, end: signal.Signals
) -> None:
    process = dis.start("realize", manifest, "--progress", "json")
    for line in process.stderr:
        if "shard 1 of 3" in line:
            break
    process.send_signal(end)
    _, stderr = process.communicate(timeout=60)
    assert process.returncode != 0, stderr
    finished = {record["key"] for record in builds(dis.store, "generation")}
    assert 1 <= len(finished) <= 2
    (root,) = dis("root", "list", "--json").json
    assert root["name"].startswith("tiny-generation-unfinished.")
    assert dis("list", "--json").json == []
    again = dis("realize", manifest, "--name", "again")
    assert "unfinished" not in dis("root", "list").stdout
    made = [record["key"] for record in builds(dis.store, "generation")]
    assert len(made) == len(set(made)) == 4  # three shards and the whole
    assert finished < set(made)
    tokens = dis("cat", "again", "tokens.json").json
    assert len(tokens["sequences"]) == len(PROMPTS)
    said = dis("log", "again").stdout
    assert said.count("shard 1 of 3 (requests 0 to 127): taken from the store") == 1
    other = dis.having(store=tmp_path / "other")
    assert Path(other("realize", manifest).stdout.strip()).name == (Path(again.stdout.strip()).name)
    dis("store", "verify", "--all")


def test_shards_without_network_are_remembered_unless_it_was_tried(
    dis: Any, manifest: Path, tmp_path: Path
) -> None:
    code = f"context.derivation.args['first'] and {network_errands.BY_CHILD}"
    planted = network_errands.planted(
        tmp_path / "planted", code, module="requests_slice", builder="RequestsSliceBuilder"
    )
    failed = dis.having(extra=planted)("realize", manifest, "--set", OFFLINE, expect=3)
    assert "error: the build of tiny-generation tried to use the network" in failed.stderr
    assert len(builds(dis.store, "generation")) == len(builds(dis.store, "requests_slice")) == 1
    run = dis("realize", manifest, "--set", OFFLINE, "--json").json
    assert [len(builds(dis.store, each)) for each in ("generation", "requests_slice")] == [4, 3]
    log = dis("log", run["outputs"]["bundle"]["digest"], "--run-log").json
    assert log["determinism_controls"]["network"]["attempts"] == 0
    assert len(log["records"]) == len(PROMPTS)


def test_a_rebuild_makes_the_shards_again_and_says_what_came_of_the_whole(
    dis: Any, manifest: Path
) -> None:
    done = dis("realize", manifest, "--rebuild")
    assert "2 of 2 builds of tiny-generation have the bits of the first one" in (
        done.stdout + done.stderr
    )
    keys = [record["key"] for record in builds(dis.store, "generation")]
    assert [keys.count(key) for key in set(keys)] == [2, 2, 2, 2]
