"""`dis lock`: what was pinned, file by file, or what cannot be and why."""

import json
import shutil
from pathlib import Path

import pytest

from command_line import Dis


@pytest.fixture
def config(quickstart: Path, tmp_path: Path) -> Path:
    """Return a copy of the quickstart manifest that a test may change."""
    shutil.copyfile(quickstart, tmp_path / "quickstart.json")
    shutil.copytree(quickstart.with_suffix(""), tmp_path / "quickstart")
    return tmp_path / "quickstart.json"


def test_every_file_is_told_with_its_digest(dis: Dis, config: Path) -> None:
    outcome = dis("lock", config)
    assert outcome.code == 0
    lines = outcome.out.splitlines()
    assert any(line.startswith("model.weight") and "sha256:" in line for line in lines)
    lock = json.loads(config.with_name("quickstart.lock.json").read_bytes())
    assert len(lines) == len(lock["artifacts"])
    assert f"locked {len(lines)} files in" in outcome.err


def test_json_has_the_stated_fields(dis: Dis, config: Path) -> None:
    document = dis("lock", "--config", config, "--json").document
    assert set(document) == {"schema_version", "path", "lock_id", "manifest_id", "artifacts"}
    assert set(document["artifacts"][0]) == {
        "name", "path", "size", "digest", "executable", "digest_source",
    }  # fmt: skip


def test_the_lock_goes_where_output_says(dis: Dis, config: Path, tmp_path: Path) -> None:
    assert dis("lock", config, "--output", "other/x.json").code == 0
    assert (tmp_path / "other" / "x.json").is_file()
    assert not config.with_name("quickstart.lock.json").exists()


def test_locking_again_changes_nothing(dis: Dis, config: Path) -> None:
    first = dis("lock", config, "--json").document
    before = config.with_name("quickstart.lock.json").read_bytes()
    assert dis("lock", config, "--json").document == first
    assert config.with_name("quickstart.lock.json").read_bytes() == before


def test_update_pins_what_is_there_now(dis: Dis, config: Path) -> None:
    before = dis("lock", config, "--json").document["lock_id"]
    prompts = config.parent / "quickstart" / "prompts.json"
    prompts.write_bytes(prompts.read_bytes() + b"\n")
    assert dis("lock", config, "--json").document["lock_id"] == before
    update = dis("lock", config, "--update", "inference.prompt_dataset", "--json")
    assert update.document["lock_id"] != before


def test_an_unknown_artifact_to_update_is_refused(dis: Dis, config: Path) -> None:
    outcome = dis("lock", config, "--update", "model.wieght")
    outcome.check_one_block()
    assert outcome.code == 2


def test_what_cannot_be_pinned_is_told_file_by_file_and_nothing_is_written(
    dis: Dis, config: Path
) -> None:
    (config.parent / "quickstart" / "model" / "model.safetensors").unlink()
    unset = 'model.tokenizer.files=[{"path":"tokenizer.json","digest":"sha256:unset"}]'
    outcome = dis("lock", config, "--set", unset)
    outcome.check_one_block()
    assert outcome.code in {2, 5}
    assert "model.weight" in outcome.err
    assert "tokenizer.json: its digest is unset" in outcome.err
    assert not config.with_name("quickstart.lock.json").exists()
    items = dis("lock", config, "--set", unset, "--json").error["items"]
    assert {item["name"] for item in items} >= {"model.weight", "model.tokenizer"}
    assert set(items[0]) == {"name", "path", "reason", "message", "field"}


def test_a_lock_that_was_edited_is_an_integrity_error(dis: Dis, config: Path) -> None:
    assert dis("lock", config).code == 0
    path = config.with_name("quickstart.lock.json")
    document = json.loads(path.read_bytes())
    document["artifacts"][0]["size"] += 1
    path.write_text(json.dumps(document), encoding="utf-8")
    for argv in (["lock", config], ["realize", config], ["inspect", path]):
        outcome = dis(*argv)
        outcome.check_one_block()
        assert outcome.code == 4


def test_a_lock_that_cannot_be_written_is_an_unfit_environment(dis: Dis, config: Path) -> None:
    outcome = dis("lock", config, "--output", "/proc/dis/x.json")
    outcome.check_one_block()
    assert outcome.code == 5
