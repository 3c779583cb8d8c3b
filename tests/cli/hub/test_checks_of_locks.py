"""Locks compared with what a hub has now."""

import hashlib
from dataclasses import replace
from pathlib import Path

import pytest

from command_line import Dis
from hub_runs import move_branch
from hub_server import Hub
from served_models import MODEL, NAME


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
