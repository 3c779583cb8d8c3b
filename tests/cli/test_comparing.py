"""The commands that compare: diff of any two things and of many runs, bisect, report, golden runs."""

import json
from pathlib import Path

import pytest

from command_line import SHORTER, Dis, Realised

LIMITS = ("--set", "inference.n_prompts=2", "--set", SHORTER)
GOLDEN = 'outputs.golden={{"enabled":true,"path":"{}"}}'


@pytest.mark.usefixtures("realised")
def test_a_page_is_written_and_never_over_anything_else(dis: Dis, tmp_path: Path) -> None:
    outcome = dis("diff", "first", "second", "--html", "deep/diff.html")
    assert outcome.code == 1
    assert "wrote deep/diff.html" in outcome.err
    page = tmp_path / "deep" / "diff.html"
    assert page.read_text("utf-8").startswith("<!DOCTYPE html>")
    assert dis("diff", "first", "second", "--html", "deep/diff.html").code == 1  # the same bytes
    page.write_text("mine", "utf-8")
    refused = dis("diff", "first", "second", "--html", "deep/diff.html")
    refused.check_one_block()
    assert (refused.code, page.read_text("utf-8")) == (2, "mine")
    assert dis("diff", "first", "second", "--html", "deep/diff.html", "--force").code == 1
    assert page.read_text("utf-8") != "mine"


@pytest.mark.usefixtures("realised")
def test_many_runs_are_compared_at_once(dis: Dis) -> None:
    outcome = dis("diff", "--matrix", "first", "second", "first")
    assert outcome.code == 1
    assert outcome.out.startswith("3 runs: 2 clusters\n")
    document = dis("diff", "--matrix", "first", "second", "first", "--json").document
    assert document["clusters"] == [[0, 2], [1]]
    assert dis("diff", "--matrix", "first", "first").code == 0


@pytest.mark.usefixtures("realised")
@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (("first",), "only first is named"),
        (("first", "second", "first"), "more than two things are named"),
        (("--matrix", "first"), "only first is named"),
        (("--matrix", "first", "second", "--strict"), "--matrix goes with neither"),
        (("--matrix", "first", "second", "--html", "x.html"), "--matrix goes with neither"),
    ],
)
def test_what_cannot_be_compared_is_refused(
    dis: Dis, arguments: tuple[str, ...], said: str
) -> None:
    outcome = dis("diff", *arguments)
    outcome.check_one_block()
    assert outcome.code == 2
    assert said in outcome.err


def test_manifests_and_locks_are_compared(dis: Dis, realised: Realised, tmp_path: Path) -> None:
    document = json.loads(realised.config.read_bytes())
    document["metadata"]["description"] = "another"
    (tmp_path / "other.json").write_text(json.dumps(document), "utf-8")

    outcome = dis("diff", realised.config, "other.json")
    assert (outcome.code, "Manifests: THE SAME" in outcome.out) == (0, True)
    assert dis("diff", realised.config, "other.json", "--strict").code == 1
    lock = realised.config.with_name("quickstart.lock.json")
    assert dis("diff", lock, lock, "--json").document["subject"] == "locks"
    mixed = dis("diff", realised.config, lock)
    mixed.check_one_block()
    assert "do not compare" in mixed.err


def test_objects_that_hold_no_weights_are_compared(dis: Dis, realised: Realised) -> None:
    inputs = json.loads((Path(realised.first) / "bundle.json").read_bytes())["inputs"]
    assert dis("diff", inputs["tokenizer"], inputs["tokenizer"]).code == 0
    refused = dis("diff", inputs["tokenizer"], inputs["dataset"])
    refused.check_one_block()
    assert "A is one of the tokenizers, B one of the datasets" in refused.err
    page = dis("diff", inputs["tokenizer"], inputs["tokenizer"], "--html", "x.html")
    page.check_one_block()
    assert "--html is for two runs of dis" in page.err


def test_a_cause_is_found_by_experiment(dis: Dis, own_store: Realised) -> None:
    plan = dis("bisect", "first", "second", "--dry-run", "--json").document
    assert [each["name"] for each in plan["differences"]] == [
        "/inference/request_template/sampling/max_tokens"
    ]
    outcome = dis("bisect", "first", "second")
    assert outcome.code == 0
    assert "because of\n  /inference/request_template/sampling/max_tokens\n" in outcome.out
    document = dis("bisect", "first", "second", "--json", "--budget", "0").document
    assert (document["verdict"], document["built"], document["rest"]) == ("found", 0, None)
    assert own_store.first


@pytest.mark.usefixtures("realised")
def test_runs_that_are_the_same_are_not_bisected(dis: Dis) -> None:
    for options in ((), ("--dry-run",), ("--observable", "logits")):
        outcome = dis("bisect", "first", "first", *options)
        outcome.check_one_block()
        assert (outcome.code, "are the same" in outcome.err) == (2, True)


def test_the_record_of_a_run_is_told_in_three_ways(
    dis: Dis, realised: Realised, tmp_path: Path
) -> None:
    text = dis("report", "first", "--html", "first.html")
    assert text.code == 0
    assert "1 of 1 build made these results on 1 machine" in text.out
    assert Path(realised.first).name in text.out
    page = (tmp_path / "first.html").read_text("utf-8")
    assert Path(realised.first).name in page
    assert "<script" not in page
    document = dis("report", "first", "--json").document
    assert document["kind"] == "vllm.deterministic_run_record"
    assert document["bundle"] == Path(realised.first).name
    assert document["reproductions"]["identical"] == document["reproductions"]["builds"] == 1
    assert {part["name"] for part in document["parts"]} >= {"weights", "tokenizer", "closure"}


def test_a_run_is_compared_with_its_golden_one(dis: Dis, own_store: Realised) -> None:
    call = ("realize", own_store.config, *LIMITS, "--progress", "none")
    same = dis(*call, "--set", GOLDEN.format("first"))
    assert (same.code, "the same results as the golden run first" in same.err) == (0, True)
    other = dis(*call, "--set", GOLDEN.format("second"))
    assert (other.code, other.out.strip()) == (1, str(own_store.path_of("first")))
    assert "the results are NOT those of the golden run second" in other.err
    laid_out = dis("run", *call[1:], "--run-dir", "golden-run")
    assert laid_out.code == 0
    assert (
        dis("run", *call[1:], "--set", GOLDEN.format("golden-run/"), "--run-dir", "again").code == 0
    )
    assert dis("run", *call[1:], "--set", GOLDEN.format("second"), "--run-dir", "again").code == 1


def test_a_golden_run_that_is_not_there_is_refused_and_the_run_is_kept(
    dis: Dis, own_store: Realised
) -> None:
    call = ("realize", own_store.config, *LIMITS, "--progress", "none", "--set")
    outcome = dis(*call, GOLDEN.format("nowhere"))
    outcome.check_one_block()
    assert outcome.code == 2
    assert "outputs.golden cannot be compared with: nothing is called 'nowhere'" in outcome.err
    assert dis(*call, GOLDEN.format("nowhere").replace("true", "false")).code == 0
    closure = f"{own_store.config}#closure"
    assert dis("realize", closure, *call[2:], GOLDEN.format("nowhere")).code == 0
