"""From a name on a hub to a run: init, lock, realize, and what happens when the hub changes, fails or is gone."""

import hashlib
import json
from pathlib import Path
from typing import Any

import pytest

from command_line import Dis
from hub_runs import move_branch
from hub_server import Hub
from run_shelf import make_writable
from served_models import MODEL, NAME, fill_cache


def lock_of(manifest: Path) -> Any:
    return json.loads(manifest.with_suffix(".lock.json").read_bytes())


def bundle(dis: Dis, manifest: Path, *argv: str) -> str:
    """Realise a run and return the digest of its bundle."""
    outcome = dis("realize", manifest, "--quiet", *argv)
    assert outcome.code == 0, outcome.err
    return Path(outcome.out.strip()).name


def test_init_looks_at_the_hub(dis: Dis, hub: Hub, manifest: Path) -> None:
    document = json.loads(manifest.read_bytes())
    assert document["model"]["weights"]["source"] == {
        "type": "huggingface",
        "repo": NAME,
        "revision": "main",
    }
    assert document["inference"]["requests"][0]["kind"] == "chat"
    assert (
        document["vllm"]["engine_args"]["max_model_len"]
        == json.loads((MODEL / "config.json").read_bytes())["max_position_embeddings"]
    )
    assert hub.requests("", "cdn") == []


def test_a_branch_is_locked_by_its_commit_and_every_digest_is_computed(
    dis: Dis, hub: Hub, manifest: Path
) -> None:
    assert dis("lock", manifest).code == 0
    lock = lock_of(manifest)
    commit = hub.repositories[NAME].refs["main"]
    assert {source["commit"] for source in lock["sources"].values()} == {commit}
    assert set(lock["sources"]) == {
        "model.weight", "model.tokenizer", "model.config", "model.chat_template",
    }  # fmt: skip
    for file in lock["artifacts"]:
        data = (MODEL / file["path"]).read_bytes()
        assert file["digest"] == f"sha256:{hashlib.sha256(data).hexdigest()}"
        assert file["digest_source"] == "computed"
        assert file["retrieval"]["revision"] == "main"
    assert json.loads(manifest.read_bytes())["model"]["weights"]["source"]["revision"] == "main"


def test_a_branch_and_its_commit_make_the_same_lock(dis: Dis, hub: Hub, manifest: Path) -> None:
    branch = dis("lock", manifest, "--json").document["lock_id"]
    commit = hub.repositories[NAME].refs["main"]
    pinned = dis(
        "lock", manifest, "--set", f"model.weights.source.revision={commit}",
        "--output", "other.lock.json", "--json",
    )  # fmt: skip
    assert pinned.document["lock_id"] == branch


def test_a_hub_and_a_directory_make_the_same_bundle(
    dis: Dis, hub: Hub, manifest: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    commit = hub.repositories[NAME].refs["main"]
    pin = ("--set", f"model.weights.source.revision={commit}")
    from_hub = bundle(dis, manifest, *pin)
    monkeypatch.setenv("DIS_STORE", str(tmp_path / "another-store"))
    hub.seen.clear()
    local = ("--set", f"model.weights.source.local_path={MODEL}")
    place = ("--set", "artifacts.lockfile=local.lock.json")
    assert bundle(dis, manifest, *pin, *local, *place) == from_hub
    assert hub.seen == []
    make_writable(tmp_path / "another-store")


def test_what_is_locked_is_realised_whatever_the_branch_names_now(
    dis: Dis, hub: Hub, manifest: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    before = bundle(dis, manifest)
    move_branch(hub, **{"config.json": b"{}"})
    monkeypatch.setenv("DIS_STORE", str(tmp_path / "another-store"))
    assert bundle(dis, manifest, "--locked") == before
    make_writable(tmp_path / "another-store")


def test_with_the_hub_gone_the_cache_is_enough(
    dis: Dis, hub: Hub, manifest: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    before = bundle(dis, manifest)
    fill_cache(tmp_path / "hf", hub)
    hub.seen.clear()
    hub.fail("", lambda handler: handler.refuse(503))
    monkeypatch.setenv("DIS_STORE", str(tmp_path / "another-store"))
    assert bundle(dis, manifest, "--locked") == before
    assert hub.seen == []
    make_writable(tmp_path / "another-store")


def test_offline_nothing_is_asked_and_what_is_missing_is_named(
    dis: Dis, hub: Hub, manifest: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert dis("lock", manifest).code == 0
    hub.seen.clear()
    monkeypatch.setenv("HF_HUB_OFFLINE", "1")
    assert dis("realize", manifest, "--quiet").code == 0  # the store has everything
    monkeypatch.setenv("DIS_STORE", str(tmp_path / "another-store"))
    outcome = dis("realize", manifest, "--quiet", "-j", "1")
    outcome.check_one_block()
    assert outcome.code == 3
    assert "not in the cache" in outcome.err
    assert "unset HF_HUB_OFFLINE" in outcome.err
    assert hub.seen == []
    fill_cache(tmp_path / "hf", hub)
    assert dis("realize", manifest, "--quiet").code == 0
    make_writable(tmp_path / "another-store")


def test_offline_nothing_can_be_locked(
    dis: Dis, hub: Hub, manifest: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    fill_cache(tmp_path / "hf", hub)
    monkeypatch.setenv("HF_HUB_OFFLINE", "1")
    outcome = dis("lock", manifest)
    outcome.check_one_block()
    assert outcome.code == 5
    assert "HF_HUB_OFFLINE forbids it" in outcome.err


def test_the_files_of_one_repository_are_refused_once(
    dis: Dis, hub: Hub, manifest: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("HF_TOKEN")
    outcome = dis("lock", manifest)
    outcome.check_one_block()
    assert outcome.code == 5
    assert outcome.err.count("Access to model org/fox is restricted") == 1
    assert "HF_TOKEN" in outcome.err
    (item,) = dis("lock", manifest, "--json").error["items"]
    assert (item["name"], item["path"], item["reason"]) == (
        "model.weight", NAME, "source_unavailable",
    )  # fmt: skip


def test_a_model_that_no_engine_runs_is_refused_before_its_weights_are_fetched(
    dis: Dis, hub: Hub, manifest: Path
) -> None:
    move_branch(hub, **{"config.json": b'{"model_type": "mamba"}'})
    hub.seen.clear()
    outcome = dis("realize", manifest)
    outcome.check_one_block()
    assert outcome.code == 5
    assert "mamba" in outcome.err
    assert hub.requests("", "cdn") == []


def test_a_locked_model_that_no_engine_runs_is_refused_when_its_configuration_is_here(
    dis: Dis, hub: Hub, manifest: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Locking asks for no engine, so the lock may be that of such a model; its weights stay where they are."""
    move_branch(hub, **{"config.json": b'{"model_type": "mamba"}'})
    assert dis("lock", manifest, "--no-fetch").code == 0
    hub.seen.clear()
    for store in ("empty-store", "another-store"):
        monkeypatch.setenv("DIS_STORE", str(tmp_path / store))
        outcome = dis("realize", manifest, "-q", "-j", "1")
        outcome.check_one_block()
        assert outcome.code == 5
        assert "model_type 'mamba'" in outcome.err
        assert dis("realize", manifest, "--dry-run").code == 5
    assert [each for each in hub.seen if "model.safetensors" in str(each)] == []
    make_writable(tmp_path / "another-store")


def test_a_declared_digest_that_the_hub_does_not_have_is_refused_before_it_is_fetched(
    dis: Dis, hub: Hub, manifest: Path
) -> None:
    declared = f'model.weights.files=[{{"path":"model.safetensors","digest":"{"ab" * 32}"}}]'
    outcome = dis("lock", manifest, "--set", declared)
    outcome.check_one_block()
    assert outcome.code == 4
    assert "ab" * 32 in outcome.err
    assert hub.requests("", "cdn") == []


def test_what_the_store_has_is_not_fetched_again(
    dis: Dis, hub: Hub, manifest: Path, tmp_path: Path
) -> None:
    assert dis("lock", manifest).code == 0
    manifest.with_suffix(".lock.json").unlink()
    hub.seen.clear()
    assert dis("lock", manifest).code == 0
    assert hub.requests("", "cdn") == []


def test_update_moves_one_artifact_and_no_other(dis: Dis, hub: Hub, manifest: Path) -> None:
    assert dis("lock", manifest).code == 0
    was = hub.repositories[NAME].refs["main"]
    now = move_branch(hub, **{"generation_config.json": b"{}"})
    assert dis("lock", manifest).code == 0
    assert {source["commit"] for source in lock_of(manifest)["sources"].values()} == {was}
    assert dis("lock", manifest, "--update", "model.config").code == 0
    commits = {name: source["commit"] for name, source in lock_of(manifest)["sources"].items()}
    assert commits == {
        "model.weight": was, "model.tokenizer": was, "model.chat_template": was, "model.config": now,
    }  # fmt: skip
    assert dis("realize", manifest, "--quiet", "--locked").code == 0
