"""From a name on a hub to a run: init, lock, realize, and what happens when the hub changes, fails or is gone."""

import hashlib
import json
import os
import subprocess
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from command_line import Dis
from hub_server import Hub, Served
from manifest_documents import smallest_manifest, write_json
from model_directories import write_model
from run_shelf import make_writable
from served_models import MODEL, NAME, TOKEN, fill_cache, serving

BLOCKS = ("weights", "tokenizer", "config")


@pytest.fixture
def hub(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Hub]:
    with serving(tmp_path / "hf", monkeypatch) as running:
        yield running


@pytest.fixture
def manifest(dis: Dis, hub: Hub, tmp_path: Path) -> Path:
    """Return a manifest of the served model, at its branch `main`."""
    outcome = dis("init", "--model-id", NAME, "--output", "fox.json")
    assert outcome.code == 0, outcome.err
    assert "it can be realised as it is" in outcome.err
    return tmp_path / "fox.json"


def digest_of(data: bytes) -> str:
    return f"sha256:{hashlib.sha256(data).hexdigest()}"


def lock_of(manifest: Path) -> Any:
    return json.loads(manifest.with_suffix(".lock.json").read_bytes())


def bundle(dis: Dis, manifest: Path, *argv: str) -> str:
    """Realise a run and return the digest of its bundle."""
    outcome = dis("realize", manifest, "--quiet", *argv)
    assert outcome.code == 0, outcome.err
    return Path(outcome.out.strip()).name


def move_branch(hub: Hub, **files: bytes) -> str:
    """Add a commit in which some small files are others, and return it."""
    repository = hub.repositories[NAME]
    before = repository.commits[repository.refs["main"]]
    changed = {name: Served(data, lfs=False) for name, data in files.items()}
    return hub.add(NAME, {**before, **changed}, token=TOKEN)


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


class TestWithoutFetching:
    """`dis lock --no-fetch`."""

    def test_digests_are_those_that_the_hub_publishes(
        self, dis: Dis, hub: Hub, manifest: Path
    ) -> None:
        outcome = dis("lock", manifest, "--no-fetch", "--json")
        assert outcome.code == 0
        origins = {file["path"]: file["digest_source"] for file in outcome.document["artifacts"]}
        assert origins == {
            "model.safetensors": "published",
            "tokenizer.json": "published",
            "tokenizer_config.json": "computed",
            "special_tokens_map.json": "computed",
            "config.json": "computed",
            "generation_config.json": "computed",
            "chat_template.jinja": "computed",
        }
        assert hub.requests("", "cdn") == []
        assert dis("realize", manifest, "--quiet", "--locked").code == 0

    def test_the_lock_is_the_one_that_fetching_makes(
        self, dis: Dis, hub: Hub, manifest: Path
    ) -> None:
        published = dis("lock", manifest, "--no-fetch", "--json").document["lock_id"]
        fetched = dis("lock", manifest, "--output", "other.lock.json", "--json")
        assert fetched.document["lock_id"] == published

    def test_what_was_published_and_is_not_true_is_refused_when_it_arrives(
        self, dis: Dis, hub: Hub, manifest: Path
    ) -> None:
        assert dis("lock", manifest, "--no-fetch").code == 0
        weights = (MODEL / "model.safetensors").read_bytes()
        hub.storage[hashlib.sha256(weights).hexdigest()] = bytes(len(weights))
        outcome = dis("realize", manifest, "--quiet", "-j", "1")
        outcome.check_one_block()
        assert outcome.code == 4
        assert hashlib.sha256(weights).hexdigest() in outcome.err
        assert hashlib.sha256(bytes(len(weights))).hexdigest() in outcome.err

    def test_a_dry_run_says_that_nothing_would_be_read(
        self, dis: Dis, hub: Hub, manifest: Path
    ) -> None:
        document = dis("lock", manifest, "--no-fetch", "--dry-run", "--json").document
        assert (document["reads"], document["written"]) == ([], True)


class TestCheck:
    """`dis lock --check`."""

    def test_nothing_differs(self, dis: Dis, hub: Hub, manifest: Path) -> None:
        assert dis("lock", manifest).code == 0
        before = manifest.with_suffix(".lock.json").read_bytes()
        outcome = dis("lock", manifest, "--check")
        assert (outcome.code, outcome.out) == (0, "")
        document = dis("lock", manifest, "--check", "--json").document
        assert (document["current"], document["findings"]) == (True, [])
        assert manifest.with_suffix(".lock.json").read_bytes() == before

    def test_a_branch_that_moved_is_told_with_what_it_changes(
        self, dis: Dis, hub: Hub, manifest: Path
    ) -> None:
        assert dis("lock", manifest).code == 0
        before, was = (
            manifest.with_suffix(".lock.json").read_bytes(),
            hub.repositories[NAME].refs["main"],
        )
        now = move_branch(hub, **{"config.json": b"{}", "added_tokens.json": b"{}"})
        outcome = dis("lock", manifest, "--check")
        assert outcome.code == 1
        assert f"model.weight: 'main' is {now} now, and was {was}" in outcome.out
        assert "model.config config.json:" in outcome.out
        assert "model.tokenizer added_tokens.json: it is there now" in outcome.out
        assert manifest.with_suffix(".lock.json").read_bytes() == before
        findings = dis("lock", manifest, "--check", "--json").document["findings"]
        kinds = {(found["name"], found["path"], found["kind"]) for found in findings}
        assert kinds == {
            ("model.weight", None, "commit"),
            ("model.tokenizer", None, "commit"),
            ("model.config", None, "commit"),
            ("model.chat_template", None, "commit"),
            ("model.config", "config.json", "digest"),
            ("model.tokenizer", "added_tokens.json", "added"),
        }

    def test_a_small_file_of_the_same_size_is_told_apart_by_its_blob(
        self, dis: Dis, hub: Hub, manifest: Path
    ) -> None:
        assert dis("lock", manifest).code == 0
        config = (MODEL / "generation_config.json").read_bytes()
        move_branch(hub, **{"generation_config.json": config.replace(b" ", b"\t", 1)})
        assert (
            "model.config generation_config.json: it is git blob"
            in dis("lock", manifest, "--check").out
        )

    def test_a_tag_that_was_pushed_again_is_told(self, dis: Dis, hub: Hub, manifest: Path) -> None:
        repository = hub.repositories[NAME]
        repository.refs["v1"] = repository.refs["main"]
        tag = ("--set", "model.weights.source.revision=v1")
        assert dis("lock", manifest, *tag).code == 0
        assert dis("lock", manifest, *tag, "--check").code == 0
        repository.refs["v1"] = move_branch(hub, **{"README.md": b"new"})
        outcome = dis("lock", manifest, *tag, "--check")
        assert outcome.code == 1
        assert "'v1' is" in outcome.out

    def test_a_hub_with_other_bytes_at_the_same_commit_is_told(
        self, dis: Dis, hub: Hub, manifest: Path
    ) -> None:
        assert dis("lock", manifest).code == 0
        repository = hub.repositories[NAME]
        files = repository.commits[repository.refs["main"]]
        weights = files["model.safetensors"]
        files["model.safetensors"] = replace(weights, data=weights.data[:-1] + b"\0")
        del files["chat_template.jinja"]
        outcome = dis("lock", manifest, "--check")
        assert outcome.code == 1
        assert "model.weight model.safetensors: it is sha256:" in outcome.out
        assert "model.chat_template chat_template.jinja: org/fox has no such file" in outcome.out

    def test_what_cannot_be_looked_at_is_not_passed(
        self, dis: Dis, hub: Hub, manifest: Path
    ) -> None:
        assert dis("lock", manifest).code == 0
        hub.fail("/api/", lambda handler: handler.refuse(500))
        outcome = dis("lock", manifest, "--check")
        outcome.check_one_block()
        assert outcome.code == 5
        assert "4 of 4 artifacts could not be looked at" in outcome.err

    def test_files_on_this_machine_are_read(self, dis: Dis, hub: Hub, quickstart: Path) -> None:
        assert dis("lock", quickstart, "--output", "q.lock.json").code == 0
        place = ("--output", "q.lock.json")
        assert dis("lock", quickstart, *place, "--check").code == 0
        prompts = quickstart.parent / "quickstart/prompts.json"
        before = prompts.read_bytes()
        try:
            prompts.write_bytes(before + b"\n")
            outcome = dis("lock", quickstart, *place, "--check")
            assert outcome.code == 1
            assert hashlib.sha256(before + b"\n").hexdigest() in outcome.out
            prompts.unlink()
            outcome = dis("lock", quickstart, *place, "--check")
            assert outcome.code == 1
            assert "inference.prompt_dataset dataset.json: there is no file" in outcome.out
        finally:
            prompts.write_bytes(before)

    def test_a_source_that_changed_in_the_manifest_is_told(
        self, dis: Dis, hub: Hub, manifest: Path
    ) -> None:
        assert dis("lock", manifest).code == 0
        outcome = dis("lock", manifest, "--check", "--set", "model.weights.source.revision=v2")
        assert outcome.code == 1
        assert "model.weight: the manifest names another source" in outcome.out

    def test_without_a_lock_there_is_nothing_to_check(
        self, dis: Dis, hub: Hub, manifest: Path
    ) -> None:
        outcome = dis("lock", manifest, "--check")
        outcome.check_one_block()
        assert outcome.code == 2

    @pytest.mark.parametrize(
        "other", [("--update", "model.weight"), ("--dry-run",), ("--no-fetch",)]
    )
    def test_it_stands_by_itself(
        self, dis: Dis, hub: Hub, manifest: Path, other: tuple[str, ...]
    ) -> None:
        outcome = dis("lock", manifest, "--check", *other)
        outcome.check_one_block()
        assert outcome.code == 2


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


def holders(secret: str, *places: Path) -> list[Path]:
    """Return the files that hold a text."""
    return [
        path
        for place in places
        for path in place.rglob("*")
        if path.is_file() and not path.is_symlink() and secret.encode() in path.read_bytes()
    ]


class TestCanary:
    """The token of a hub is nowhere but on the way to that hub."""

    def test_it_is_in_no_file(
        self, dis: Dis, hub: Hub, manifest: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        assert dis("lock", manifest).code == 0
        outcome = dis("run", manifest, "--run-dir", "laid-out", "--verbose")
        assert outcome.code == 0
        assert dis("realize", manifest, "--rebuild", "--name", "fox").code == 0
        assert dis("bundle", "fox", "--output", "fox.tar.gz").code == 0
        assert TOKEN not in outcome.out + outcome.err
        subprocess.run(["tar", "-xzf", "fox.tar.gz", "--one-top-level=unpacked"], check=True)
        assert [seen for seen in hub.requests("", "hub") if TOKEN in str(seen.headers)]
        assert [seen for seen in hub.requests("", "cdn") if TOKEN in str(seen)] == []
        assert holders(TOKEN, tmp_path) == []
        assert holders("very-secret-signature", tmp_path) == []

    @pytest.mark.parametrize(
        "part", ["/revision/", "/tree/", "/resolve/", "/signed/"], ids=lambda part: part.strip("/")
    )
    @pytest.mark.parametrize("status", [401, 403, 500])
    def test_it_is_in_no_error(
        self, dis: Dis, hub: Hub, manifest: Path, tmp_path: Path, part: str, status: int
    ) -> None:
        host = "cdn" if part == "/signed/" else "hub"
        hub.fail(part, lambda handler: handler.refuse(status, "Bad", f"sent {TOKEN}"), host=host)
        for argv in (("--debug",), ("--json", "--debug"), ("--progress", "json", "--debug")):
            outcome = dis("lock", manifest, *argv)
            assert outcome.code in {3, 5}
            assert TOKEN not in outcome.out + outcome.err
            assert "very-secret-signature" not in outcome.out + outcome.err
        assert holders(TOKEN, tmp_path) == []

    def test_it_is_on_no_command_line(
        self, hub: Hub, manifest: Path, tmp_path: Path, python: str
    ) -> None:
        """A process of the command and all its children, looked at while the hub keeps them waiting."""
        seen: list[str] = []

        def look(_handler: object) -> bool:
            for process in Path("/proc").glob("[0-9]*"):
                try:
                    line = (process / "cmdline").read_bytes()
                except OSError:
                    continue
                if b"dis_command" in line:
                    seen.append(line.decode())
            return True

        hub.fail("/signed/", look, host="cdn")
        finished = subprocess.run(
            [python, "-m", "dis_command", "realize", str(manifest), "--quiet"],
            capture_output=True, text=True, check=False, env=os.environ,
        )  # fmt: skip
        assert finished.returncode == 0, finished.stderr
        assert seen
        assert [line for line in seen if TOKEN in line] == []
        assert TOKEN not in finished.stdout + finished.stderr


class TestDigestBootstrap:
    """`dis digest-bootstrap`."""

    @pytest.fixture
    def local(self, tmp_path: Path) -> Path:
        """Return a manifest of a directory, in which digests are left open in every way."""
        write_model(tmp_path / "here/model")
        files = [
            {"path": "tokenizer.json", "digest": "sha256:unset"},
            {"path": "tokenizer_config.json", "x_note": "kept"},
        ]
        document = smallest_manifest(model__tokenizer__files=files)
        return write_json(tmp_path / "here/m.json", document)

    def test_the_steps_of_the_older_tool(self, dis: Dis, hub: Hub, manifest: Path) -> None:
        outcome = dis("digest-bootstrap", "--config", manifest, "--in-place", "--write-lock")
        assert outcome.code == 0, outcome.err
        model = json.loads(manifest.read_bytes())["model"]
        files = [
            *(entry for block in BLOCKS for entry in model[block]["files"]),
            model["chat_template"]["file"],
        ]
        assert {entry["path"]: entry["digest"] for entry in files} == {
            path.name: digest_of(path.read_bytes()) for path in MODEL.iterdir()
        }
        before = manifest.with_suffix(".lock.json").read_bytes()
        assert dis("lock", manifest).code == 0
        assert manifest.with_suffix(".lock.json").read_bytes() == before
        assert dis("realize", manifest, "--quiet", "--locked").code == 0

    def test_what_is_missing_is_filled_and_the_rest_is_as_it_was(
        self, dis: Dis, local: Path
    ) -> None:
        before = json.loads(local.read_bytes())
        document = dis("digest-bootstrap", local, "--in-place", "--json").document
        after = json.loads(local.read_bytes())
        assert {found["path"]: found["before"] for found in document["filled"]} == {
            "model.safetensors": None,
            "tokenizer.json": "sha256:unset",
            "tokenizer_config.json": None,
            "config.json": None,
            "generation_config.json": None,
            "chat_template.jinja": None,
        }
        first, second = after["model"]["tokenizer"]["files"]
        assert first == {"path": "tokenizer.json", "digest": digest_of(b"{}\n")}
        assert second == {
            "path": "tokenizer_config.json", "x_note": "kept", "digest": digest_of(b"{}\n"),
        }  # fmt: skip
        assert after.pop("model")["weights"]["source"] == before.pop("model")["weights"]["source"]
        assert after == before
        assert dis("digest-bootstrap", local, "--in-place", "--json").document["filled"] == []

    def test_another_file_elsewhere_finds_the_same_model(
        self, dis: Dis, local: Path, tmp_path: Path
    ) -> None:
        before = local.read_bytes()
        outcome = dis("digest-bootstrap", local, "--output", "there/deep/m.json", "--write-lock")
        assert outcome.code == 0, outcome.err
        assert local.read_bytes() == before
        written = tmp_path / "there/deep/m.json"
        source = json.loads(written.read_bytes())["model"]["weights"]["source"]
        assert source["local_path"] == "../../here/model"
        assert dis("lock", written).code == 0
        again = dis("digest-bootstrap", local, "--output", "there/deep/m.json")
        assert again.code == 0  # the same content
        written.write_text("mine", "utf-8")
        refused = dis("digest-bootstrap", local, "--output", "there/deep/m.json")
        refused.check_one_block()
        assert refused.code == 2
        assert written.read_text("utf-8") == "mine"
        assert dis("digest-bootstrap", local, "--output", written, "--force").code == 0

    def test_what_a_base_lists_is_written_out(self, dis: Dis, local: Path, tmp_path: Path) -> None:
        child = write_json(tmp_path / "child.json", {"x_base_manifest": "here/m.json"})
        base = local.read_bytes()
        assert dis("digest-bootstrap", child, "--in-place").code == 0
        document = json.loads(child.read_bytes())
        assert document["x_base_manifest"] == "here/m.json"
        assert document["model"]["tokenizer"]["files"][1]["x_note"] == "kept"
        assert local.read_bytes() == base
        assert dis("lock", child).code == 0

    def test_a_digest_that_is_not_true_is_kept_unless_it_is_to_be_replaced(
        self, dis: Dis, local: Path
    ) -> None:
        document = json.loads(local.read_bytes())
        document["model"]["config"] = {"files": [{"path": "config.json", "digest": "ab" * 32}]}
        write_json(local, document)
        before = local.read_bytes()
        outcome = dis("digest-bootstrap", local, "--in-place", "--write-lock")
        outcome.check_one_block()
        assert outcome.code == 4
        assert (local.read_bytes(), local.with_suffix(".lock.json").exists()) == (before, False)
        replaced = dis("digest-bootstrap", local, "--in-place", "--replace-existing", "--json")
        filled = {found["path"]: found["before"] for found in replaced.document["filled"]}
        assert filled["config.json"] == "ab" * 32
        entries = json.loads(local.read_bytes())["model"]["config"]["files"]
        assert entries == [{"path": "config.json", "digest": digest_of(b"{}\n")}]

    def test_a_digest_that_was_made_up_is_refused_or_replaced(self, dis: Dis, local: Path) -> None:
        document = json.loads(local.read_bytes())
        preimage = {
            "kind": "bootstrap_model_digest",
            "field_path": "model.config.files[0].digest",
            "repo": "",
            "revision": "",
            "relative_path": "config.json",
        }
        text = json.dumps(preimage, sort_keys=True, separators=(",", ":"))
        entry = {"path": "config.json", "digest": digest_of(text.encode())}
        document["model"]["config"] = {"files": [entry]}
        write_json(local, document)
        outcome = dis("digest-bootstrap", local, "--in-place")
        outcome.check_one_block()
        assert outcome.code == 2
        assert "invented" in outcome.err
        assert "--replace-existing" in outcome.err
        assert dis("digest-bootstrap", local, "--in-place", "--replace-existing").code == 0
        assert dis("lock", local).code == 0

    def test_what_has_no_bytes_is_told_item_by_item_and_nothing_is_written(
        self, dis: Dis, local: Path
    ) -> None:
        (local.parent / "model/tokenizer.json").unlink()
        (local.parent / "model/config.json").unlink()
        before = local.read_bytes()
        outcome = dis("digest-bootstrap", local, "--in-place", "--write-lock")
        outcome.check_one_block()
        assert outcome.code == 5
        assert "model.tokenizer tokenizer.json: there is no file" in outcome.err
        assert "model.config config.json" in outcome.err
        assert local.read_bytes() == before
        assert sorted(path.name for path in local.parent.iterdir()) == ["m.json", "model"]

    @pytest.mark.parametrize("where", [(), ("--in-place", "--output", "x.json")])
    def test_it_must_be_said_where_the_manifest_goes(
        self, dis: Dis, local: Path, where: tuple[str, ...]
    ) -> None:
        outcome = dis("digest-bootstrap", local, *where)
        outcome.check_one_block()
        assert outcome.code == 2

    def test_the_digest_of_the_prompts_is_filled_too(
        self, dis: Dis, quickstart: Path, tmp_path: Path
    ) -> None:
        assert dis("digest-bootstrap", quickstart, "--output", "q.json").code == 0
        document = json.loads((tmp_path / "q.json").read_bytes())
        prompts = (quickstart.parent / "quickstart/prompts.json").read_bytes()
        assert document["inference"]["dataset"]["digest"] == digest_of(prompts)
        assert dis("lock", "q.json").code == 0
