"""What commands print follows the schemas that are published for it."""

import json
from pathlib import Path
from typing import Any

import pytest

from command_line import ROOT, Dis, Realised
from json_schema import faults
from older_runs import Older, OlderAnswer
from tensor_layouts import Raw, file_of


def schema(name: str) -> dict[str, Any]:
    text = (ROOT / "docs" / "reference" / f"{name}.schema.json").read_text("utf-8")
    document: dict[str, Any] = json.loads(text)
    return document


def check(name: str, document: dict[str, Any]) -> None:
    """Fail unless a document follows its schema, and the schema tells a spoilt one from it."""
    assert faults(document, schema(name)) == []
    assert faults({**document, "more": 1}, schema(name)) != []
    for member in document:
        assert faults({key: document[key] for key in document if key != member}, schema(name)) != []


@pytest.mark.parametrize(
    "refs", [("first", "second"), ("first", "second", "first"), ("first", "first")]
)
def test_a_matrix_follows_its_schema(dis: Dis, realised: Realised, refs: tuple[str, ...]) -> None:
    check("diff-matrix", dis("diff", "--matrix", *refs, "--json").document)


@pytest.mark.parametrize("refs", [("first", "second"), ("first", "first")])
def test_a_grade_follows_its_schema_on_stdout_and_in_its_file(
    dis: Dis, realised: Realised, tmp_path: Path, refs: tuple[str, str]
) -> None:
    printed = dis("verify", *refs, "--output-dir", tmp_path / "out", "--json").document

    check("verify", printed)
    written = json.loads((tmp_path / "out" / "verify_report.json").read_text("utf-8"))
    assert written == printed


def test_a_validation_record_follows_its_schema(
    dis: Dis, own_store: Realised, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path / "personal"))
    check("report", dis("report", "first", "--json").document)
    dis("key", "generate", "laptop")
    dis("sign", "first")

    document = dis("report", "first", "--json").document

    assert document["signatures"]
    check("report", document)


def test_a_bisection_and_its_plan_follow_their_schema(dis: Dis, own_store: Realised) -> None:
    plan = dis("bisect", "first", "second", "--dry-run", "--json").document
    found = dis("bisect", "first", "second", "--json").document

    assert plan["dry_run"] is True
    assert found["verdict"] == "found"
    for document in (plan, found):
        assert faults(document, schema("bisect")) == []
        assert faults({**document, "more": 1}, schema("bisect")) != []


def test_a_comparison_with_an_older_run_follows_its_schema(
    dis: Dis, realised: Realised, tmp_path: Path
) -> None:
    one = Older().write(tmp_path / "one")
    other = Older(answers=(OlderAnswer((5, 9), text="x"),), weights="tuned").write(
        tmp_path / "other"
    )

    for refs in ((one, one), (one, other), ("first", one), (one, "first")):
        check("diff-older", dis("diff", *refs, "--json").document)


def test_a_comparison_of_two_runs_follows_its_schema(dis: Dis, realised: Realised) -> None:
    assert faults(dis("diff", "first", "second", "--json").document, schema("diff")) == []


def test_a_comparison_of_weights_follows_its_schema(
    dis: Dis, own_store: Realised, tmp_path: Path
) -> None:
    one, two = Raw("F32", (1,), b"\0\0\0\0"), Raw("F32", (1,), b"\0\0\x80\x3f")
    for name, tensors in {
        "base": {"same": one, "changed": one, "old name": Raw("U8", (1,), b"a"), "gone": Raw("U8", (2,), b"ab")},
        "tuned": {"same": one, "changed": two, "new name": Raw("U8", (1,), b"a"), "more": Raw("U8", (3,), b"abc")},
    }.items():  # fmt: skip
        directory = tmp_path / name
        directory.mkdir()
        (directory / "model.safetensors").write_bytes(file_of(tensors))
        (directory / "notes.txt").write_text(name)
        assert dis("store", "add", directory, "--name", name).code == 0

    document = dis("diff", "base", "tuned", "--json").document

    members = ("changed", "renamed", "added", "removed", "other_files")
    assert [len(document[each]) for each in members] == [1, 1, 1, 1, 1]
    check("diff-weights", document)


def test_a_comparison_of_other_things_follows_its_schema(
    dis: Dis, own_store: Realised, tmp_path: Path
) -> None:
    manifest = json.loads(own_store.config.read_text("utf-8"))
    manifest["metadata"]["description"] = "in other words"
    (tmp_path / "reworded.json").write_text(json.dumps(manifest))
    inputs = json.loads(dis("cat", "first", "bundle.json").out)["inputs"]
    (tmp_path / "chat_template.jinja").write_text("{{ messages }}")
    assert dis("store", "add", tmp_path / "chat_template.jinja", "--name", "template").code == 0

    for refs in (
        (own_store.config, tmp_path / "reworded.json"),
        (inputs["chat_template"], "template"),
        (inputs["closure"], inputs["closure"]),
    ):
        check("diff-documents", dis("diff", *refs, "--json").document)
