"""`dis init`: what it writes realises unedited, or it says what stands in the way."""

import json
import shutil
from pathlib import Path

import pytest

from command_line import ROOT, Dis
from model_directories import write_model

MODEL = ROOT / "configs" / "quickstart" / "model"
COMMIT = "0123456789abcdef0123456789abcdef01234567"


def test_what_init_writes_realises_unedited(dis: Dis, tmp_path: Path) -> None:
    shutil.copytree(MODEL, tmp_path / "my model")
    outcome = dis("init", "--model-dir", "my model")
    assert (outcome.code, outcome.out) == (0, "my-model.json\n")
    assert "it can be realised as it is: dis realize my-model.json" in outcome.err
    manifest = json.loads((tmp_path / "my-model.json").read_bytes())
    assert manifest["model"]["weights"]["source"]["local_path"] == "my model"
    assert manifest["inference"]["requests"][0]["kind"] == "chat"
    realised = dis("realize", "my-model.json", "--name", "mine", "--quiet")
    assert (realised.code, realised.err) == (0, "")
    assert "answer: A fox is a mammal." in dis("show", "mine").out


def test_in_a_checkout_the_quickstart_model_is_taken(
    dis: Dis, quickstart: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    checkout = tmp_path / "checkout"
    (checkout / "deep").mkdir(parents=True)
    (checkout / "configs").symlink_to(quickstart.parent)
    monkeypatch.chdir(checkout / "deep")
    outcome = dis("init", "--json")
    assert outcome.document["ready"] is True
    assert outcome.document["name"] == "quickstart-model"
    assert (checkout / "deep" / "quickstart-model.json").is_file()


def test_elsewhere_a_model_must_be_named(dis: Dis, tmp_path: Path) -> None:
    outcome = dis("init")
    outcome.check_one_block()
    assert outcome.code == 2
    assert "--model-dir DIR" in outcome.err
    assert not list(tmp_path.glob("*.json"))


@pytest.mark.parametrize("directory", ["nowhere", "empty"])
def test_a_directory_that_is_no_model_is_refused(dis: Dis, tmp_path: Path, directory: str) -> None:
    (tmp_path / "empty").mkdir()
    outcome = dis("init", "--model-dir", directory)
    outcome.check_one_block()
    assert outcome.code == 2


def test_a_file_is_never_replaced_unless_it_is_asked_for(dis: Dis, tmp_path: Path) -> None:
    (tmp_path / "mine.json").write_text("mine", encoding="utf-8")
    outcome = dis("init", "--model-dir", MODEL, "--output", "mine.json")
    outcome.check_one_block()
    assert outcome.code == 2
    assert "--force" in outcome.err
    assert (tmp_path / "mine.json").read_text("utf-8") == "mine"
    assert [path.name for path in tmp_path.iterdir() if "mine" in path.name] == ["mine.json"]
    assert dis("init", "--model-dir", MODEL, "--output", "mine.json", "--force").code == 0
    assert json.loads((tmp_path / "mine.json").read_bytes())["schema_version"] == 1


def test_what_stands_in_the_way_is_said(dis: Dis, tmp_path: Path) -> None:
    write_model(tmp_path / "strange")
    (tmp_path / "strange" / "config.json").write_text('{"model_type":"mamba"}', encoding="utf-8")
    outcome = dis("init", "--model-dir", "strange")
    assert outcome.code == 0
    assert "it cannot be realised yet:" in outcome.err
    assert "mamba" in outcome.err
    document = dis("init", "--model-dir", "strange", "--force", "--json").document
    assert document["ready"] is False
    assert set(document["remaining"][0]) == {"what", "cause", "hint"}


def test_a_model_of_a_hub_that_cannot_be_reached_is_written_all_the_same(
    dis: Dis, tmp_path: Path
) -> None:
    outcome = dis("init", "--model-id", "org/Some-Name", "--output", "hub.json")
    assert (outcome.code, outcome.out) == (0, "hub.json\n")
    assert "org/Some-Name at 'main' cannot be had from the hub" in outcome.err
    source = json.loads((tmp_path / "hub.json").read_bytes())["model"]["weights"]["source"]
    assert source == {"type": "huggingface", "repo": "org/Some-Name", "revision": "main"}


def test_a_model_of_a_hub_whose_files_are_here_is_ready(dis: Dis, tmp_path: Path) -> None:
    argv = ("--model-id", "org/Some-Name", "--model-revision", COMMIT, "--model-dir", MODEL)
    document = dis("init", *argv, "--json").document
    assert (document["path"], document["ready"]) == ("some-name.json", True)
    model = json.loads((tmp_path / "some-name.json").read_bytes())["model"]
    assert model["weights"]["source"]["revision"] == COMMIT
    assert model["weights"]["files"] == [{"path": "model.safetensors"}]
    assert dis("lock", "some-name.json").code == 0


def test_a_revision_without_a_model_is_wrong_usage(dis: Dis) -> None:
    outcome = dis("init", "--model-revision", COMMIT)
    outcome.check_one_block()
    assert outcome.code == 2


@pytest.mark.parametrize("name", ["no name at all", "../org", "", "https://huggingface.co/org/x"])
def test_what_no_repository_can_be_called_is_refused_and_nothing_is_written(
    dis: Dis, tmp_path: Path, name: str
) -> None:
    outcome = dis("init", "--model-id", name, "--output", "hub.json")
    outcome.check_one_block()
    assert outcome.code == 2
    assert "is not the name of a repository" in outcome.err
    assert not (tmp_path / "hub.json").exists()
