"""`dis config show`, `dis help`, `dis schema`: what dis says of itself."""

import json
import re
from pathlib import Path

import pytest

from command_line import ROOT, Dis
from dis_command.config_files import KEYS
from dis_command.exit_codes import EXIT_CODES

SCHEMAS = (
    "manifest", "lock", "diff", "diff-matrix", "diff-older", "diff-weights", "diff-documents", "verify", "bisect",
    "report", "probe",
)  # fmt: skip


def origins(dis: Dis, *argv: str) -> dict[str, tuple[str, str]]:
    settings = dis("config", "show", *argv, "--json").document["settings"]
    return {each["name"]: (each["value"], each["origin"]) for each in settings}


def test_every_setting_says_where_it_comes_from(
    dis: Dis, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    found = origins(dis)
    assert found["store"] == (str(tmp_path / "empty-store"), "DIS_STORE")
    assert found["progress"] == ("auto", "default")
    assert found["pager"] == ("less -FRX", "default")
    assert found["config file"][1] == "XDG_CONFIG_HOME"
    assert found["system file"][1] == "XDG_CONFIG_DIRS"
    assert (found["wait"], found["jobs"][1]) == (("forever", "default"), "default")
    assert "project file" not in found
    monkeypatch.setenv("NO_COLOR", "1")
    monkeypatch.setenv("PAGER", "more")
    monkeypatch.setenv("DIS_DEBUG", "1")
    monkeypatch.setenv("DIS_PROGRESS", "plain")
    monkeypatch.setenv("DIS_JOBS", "3")
    (tmp_path / "dis.toml").write_text("wait = 5\n", encoding="utf-8")
    found = origins(dis)
    assert found["color"] == ("never", "NO_COLOR")
    assert found["pager"] == ("more", "PAGER")
    assert found["debug"] == ("on", "DIS_DEBUG")
    assert found["progress"] == ("plain", "DIS_PROGRESS")
    assert found["jobs"] == ("3", "DIS_JOBS")
    assert found["wait"] == ("5", str(tmp_path / "dis.toml"))
    assert found["project file"][0] == str(tmp_path / "dis.toml")
    flags = ("--store", "/x", "--color", "always", "--progress", "none", "--no-pager", "--debug")
    found = origins(dis, *flags)
    assert found["store"] == ("/x", "--store")
    assert found["color"] == ("always", "--color")
    assert found["pager"] == ("", "--no-pager")
    assert found["debug"] == ("on", "--debug")
    assert origins(dis, "--wait", "1")["wait"] == ("1", "--wait")
    assert origins(dis, "-q")["progress"] == ("none", "--quiet")


def test_every_key_of_the_files_is_shown_with_the_file_it_is_from(dis: Dis, tmp_path: Path) -> None:
    assert set(KEYS) <= set(origins(dis))
    path = tmp_path / "xdg" / "config" / "dis" / "config.toml"
    path.parent.mkdir(parents=True)
    revoked = f"sha256:{'0' * 64}"
    path.write_text(
        f'trust-threshold = 2\nimage-trust = "warn"\nrevoked-keys = ["{revoked}"]\n', "utf-8"
    )
    found = origins(dis)
    assert found["trust-threshold"] == ("2", str(path))
    assert found["image-trust"] == ("warn", str(path))
    assert found["revoked-keys"] == (revoked, str(path))
    assert found["trusted-identities"] == ("none", "default")


def test_the_store_of_config_toml_names_the_file(
    dis: Dis, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("DIS_STORE")
    assert origins(dis)["store"][1] == "XDG_DATA_HOME"
    path = tmp_path / "xdg" / "config" / "dis" / "config.toml"
    path.parent.mkdir(parents=True)
    path.write_text('store = "/from/file"\n', encoding="utf-8")
    assert origins(dis)["store"] == ("/from/file", str(path))


def test_the_text_has_the_origin_when_it_is_asked_for(dis: Dis) -> None:
    assert "DIS_STORE" not in dis("config", "show").out
    assert "(DIS_STORE)" in dis("config", "show", "--origin").out
    assert not Path("empty-store").exists()


def test_a_wrong_setting_is_refused(dis: Dis, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("DIS_PROGRESS", "loud")
    outcome = dis("config", "show")
    outcome.check_one_block()
    assert outcome.code == 2


@pytest.mark.parametrize("words", [["realize"], ["store", "verify"], ["help"], []])
def test_help_prints_what_the_command_prints(dis: Dis, words: list[str]) -> None:
    assert dis("help", *words).out == dis(*words, "--help").out
    path = " ".join(["dis", *words])
    assert dis("help", *words, "--json").document["command"] == path


@pytest.mark.parametrize("words", [["relize"], ["store", "verfy"], ["realize", "more"]])
def test_help_of_nothing_is_refused(dis: Dis, words: list[str]) -> None:
    outcome = dis("help", *words)
    outcome.check_one_block()
    assert outcome.code == 2


def test_the_page_of_exit_codes_has_the_codes_of_the_program(dis: Dis) -> None:
    page = (ROOT / "docs" / "reference" / "exit-codes.md").read_text("utf-8")
    rows = dict(re.findall(r"^\| (\d+) \| (.*) \|$", page, re.MULTILINE))
    assert [int(code) for code in rows] == list(EXIT_CODES)
    for code, text in EXIT_CODES.items():
        assert rows[str(code)].replace("`", "").startswith(text)
    printed = dis("help", "exit-codes").out.splitlines()
    assert [line.split()[0] for line in printed] == [str(code) for code in EXIT_CODES]
    codes = dis("help", "exit-codes", "--json").document["exit_codes"]
    assert {each["code"]: each["meaning"] for each in codes} == EXIT_CODES


@pytest.mark.parametrize("name", SCHEMAS)
def test_the_published_schema_is_the_one_that_is_printed(dis: Dis, name: str) -> None:
    published = (ROOT / "docs" / "reference" / f"{name}.schema.json").read_text("utf-8")
    printed = dis("schema", name).document
    assert json.loads(published) == printed
    assert published == json.dumps(printed, indent=2, ensure_ascii=False) + "\n"


def test_every_published_schema_is_printed(dis: Dis) -> None:
    published = (ROOT / "docs" / "reference").glob("*.schema.json")
    assert sorted(path.name.removesuffix(".schema.json") for path in published) == sorted(SCHEMAS)
    assert dis("schema").document == dis("schema", "manifest").document
    for name in ("lock", "diff", "probe"):
        assert dis("schema", f"--{name}").document == dis("schema", name).document


@pytest.mark.parametrize("arguments", [("lock", "--diff"), ("--lock", "--probe"), ("nothing",)])
def test_one_schema_is_asked_for(dis: Dis, arguments: tuple[str, ...]) -> None:
    outcome = dis("schema", *arguments)
    assert outcome.code == 2
    outcome.check_one_block()


def test_a_manifest_has_only_what_the_schema_has(dis: Dis, quickstart: Path) -> None:
    properties = dis("schema").document["properties"]
    assert set(json.loads(quickstart.read_bytes())) == set(properties)
