"""Digests that a hub lists, and those that are computed."""

import hashlib
import json
from pathlib import Path

import pytest

from command_line import Dis
from hub_server import Hub
from manifest_documents import smallest_manifest, write_json
from model_directories import write_model
from served_models import MODEL

BLOCKS = ("weights", "tokenizer", "config")


def digest_of(data: bytes) -> str:
    return f"sha256:{hashlib.sha256(data).hexdigest()}"


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
