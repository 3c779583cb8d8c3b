"""Runs of deterministic_inference.cli are compared in what they hold; what they lack is unknown, never equal."""

import contextlib
import json
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from bundles import Answer, Run, Tensor
from dis_derivations.comparison.older.comparison import diff_sides
from dis_derivations.comparison.older.rendering import render_older
from dis_derivations.comparison.older.report import OlderReport
from dis_derivations.comparison.older.side import side_of_bundle, side_of_older
from dis_derivations.runs.bundle_documents import load_bundle
from dis_derivations.runs.older_run import OlderDirectory, load_older_run
from dis_store.errors import DisError, InvalidInputError
from older_runs import Older, OlderAnswer

Compare = Callable[[Older | Run, Older | Run], OlderReport]
OTHER = OlderAnswer((5, 9, 7))


@pytest.fixture
def compare(tmp_path: Path) -> Compare:
    def made(a: Older | Run, b: Older | Run) -> OlderReport:
        sides = []
        for name, run in (("a", a), ("b", b)):
            directory = tmp_path / name
            shutil.rmtree(directory, ignore_errors=True)
            if isinstance(run, Older):
                sides.append(side_of_older(load_older_run(OlderDirectory(run.write(directory)))))
            else:
                sides.append(side_of_bundle(load_bundle(run.write(directory)), None))
        return diff_sides(*sides)

    return made


def standings(report: OlderReport) -> dict[str, str]:
    return {each.name: each.standing for each in report.subjects}


def findings(report: OlderReport) -> dict[str, str]:
    return {name: each.finding for name, each in report.observed.items()}


def test_two_older_runs_with_the_same_tokens_are_the_same_whatever_the_time(
    compare: Compare,
) -> None:
    report = compare(Older(), Older().having(time="2026-02-22T00:00:00Z"))

    assert report.same
    assert report.verdict == "the same"
    assert findings(report) == {
        "tokens": "identical",
        "prompts": "identical",
        "texts": "unknown",
        "logits": "unknown",
        "activations": "unknown",
        "engine_trace": "unknown",
    }
    assert not report.answer(strict=True)


def test_nothing_upstream_is_called_identical(compare: Compare) -> None:
    found = standings(compare(Older(), Older()))

    assert set(found.values()) == {"declared alike", "unknown"}
    assert found["weights"] == "declared alike"
    assert found["engine"] == found["chat template"] == "unknown"


def test_tokens_that_part_are_shown_where_they_do(compare: Compare) -> None:
    report = compare(Older(), Older(answers=(OTHER,)))

    assert report.verdict == "different"
    (divergence,) = report.divergences
    assert divergence.position == 1
    text = render_older(report, ("a", "b"))
    assert "Results: DIFFERENT" in text
    assert "output position 1" in text
    assert "Unknown" in text


def test_what_differs_upstream_is_named(compare: Compare) -> None:
    other = Older(
        weights="tuned",
        gpu="NVIDIA A100",
        sampling={"max_tokens": 3, "seed": 2, "temperature": 0, "top_k": 50, "top_p": 1},
        backend="mock",
    )

    report = compare(Older(), other)

    found = standings(report)
    assert {name for name, standing in found.items() if standing == "differ"} == {
        "weights", "hardware", "sampling",
    }  # fmt: skip
    (seed,) = next(each.changes for each in report.subjects if each.name == "sampling")
    assert (seed.name, seed.old, seed.new) == ("/req-0001/sampling/seed", 1.0, 2.0)
    assert [each.change.name for each in report.manifest] == ["/runtime/execution/backend"]
    assert any("MOCK" in note for note in report.notes)


def test_bytes_in_the_place_of_token_ids_are_no_prompt(compare: Compare) -> None:
    asked = OlderAnswer((5, 6, 7), prompt=tuple(b"hello"))

    report = compare(Older(answers=(asked,)), Older())

    assert findings(report)["prompts"] == "unknown"
    assert "UTF-8 bytes" in report.observed["prompts"].account


def test_text_is_compared_where_the_tool_decoded_it(compare: Compare) -> None:
    one, other = (Older(answers=(OlderAnswer((5, 6, 7), text=text),)) for text in ("a b", "a c"))

    assert findings(compare(one, one))["texts"] == "identical"
    report = compare(one, other)
    assert findings(report)["texts"] == "differ"
    assert report.same


def test_an_older_run_and_a_run_of_dis(compare: Compare) -> None:
    answers = (Answer("mine", (5, 6, 7), text="a b c"),)

    report = compare(Older(), Run(answers=answers))

    assert report.same
    assert report.a.tool == "deterministic_inference.cli"
    assert report.b.engine == "reference"
    assert findings(report)["texts"] == "unknown"
    assert standings(report)["weights"] == "declared alike"
    assert standings(report)["hardware"] == "unknown"
    assert any("matched by their places" in note for note in report.notes)
    assert "made by dis, engine reference" in render_older(report, ("a", "b"))


def test_what_only_the_run_of_dis_captured_is_not_shown_to_be_the_same(compare: Compare) -> None:
    captured = Run(
        answers=(Answer("req-0001", (5, 6, 7)),), logits={"00000.decode": Tensor([[1.0]] * 3)}
    )

    for a, b, finding in ((Older(), captured, "only in B"), (captured, Older(), "only in A")):
        report = compare(a, b)
        assert findings(report)["logits"] == finding
        assert report.verdict == "not shown to be the same"
        assert not report.same


def test_a_run_without_a_lock_or_a_manifest_has_unknown_files(tmp_path: Path) -> None:
    lacking = Older().write(tmp_path / "a", without=("lock.used.json", "manifest.used.json"))
    whole = Older().write(tmp_path / "b")
    sides = [side_of_older(load_older_run(OlderDirectory(each))) for each in (lacking, whole)]

    report = diff_sides(*sides)

    assert standings(report)["weights"] == "unknown"
    assert any("A has no lock.used.json" in note for note in report.notes)


def test_the_log_stands_in_for_tokens_that_were_written_elsewhere(tmp_path: Path) -> None:
    run = load_older_run(OlderDirectory(Older().write(tmp_path / "a", without=("tokens.json",))))

    assert run.sequences[0].output_token_ids == (5, 6, 7)
    assert not run.sequences[0].text_is_known


def _without(key: str) -> Callable[[Any], Any]:
    return lambda document: {name: value for name, value in document.items() if name != key}


def _sequence(**members: Any) -> Callable[[Any], Any]:
    return lambda document: {
        **document,
        "sequences": [{**document["sequences"][0], **members}],
    }


BAD = {
    "no run id": ("bundle.json", _without("run_id"), "/run_id is missing"),
    "a token that is text": (
        "tokens.json", _sequence(output_token_ids=["5"]), "/sequences/0/output_token_ids",
    ),
    "a negative token": (
        "tokens.json", _sequence(prompt_token_ids=[-1]), "/sequences/0/prompt_token_ids",
    ),
    "a sequence too many": (
        "tokens.json", lambda it: {**it, "sequences": it["sequences"] * 2}, "/decoded_output_text",
    ),
    "a conversation that is none": (
        "tokens.json", lambda it: {**it, "conversations": [3]}, "/conversations/0",
    ),
    "a log of another run": (
        "run_log.json",
        lambda it: {**it, "records": [{**it["records"][0], "output_token_ids": [1],
                                       "output_token_sha256": "x"}]},
        "/records/0/output_token_sha256",
    ),
    "a lock of another run": ("lock.used.json", lambda it: {**it, "lock_id": "0" * 64}, "/lock_id"),
    "a lock whose files are text": (
        "lock.used.json", lambda it: {**it, "artifacts": ["x"]}, "/artifacts/0",
    ),
    "a list": ("tokens.json", lambda _: [], "must be an object"),
    "a later format": ("bundle.json", lambda it: {**it, "schema_version": 2}, "/schema_version"),
}  # fmt: skip


@pytest.mark.parametrize("what", BAD)
def test_a_bad_file_is_named_with_the_place_in_it(tmp_path: Path, what: str) -> None:
    name, spoil, place = BAD[what]
    directory = Older().write(tmp_path / "older")
    path = directory / name
    path.write_text(json.dumps(spoil(json.loads(path.read_text("utf-8")))), "utf-8")

    with pytest.raises(InvalidInputError) as refusal:
        load_older_run(OlderDirectory(directory))

    assert name in refusal.value.what or name in (refusal.value.cause or "")
    assert place in f"{refusal.value.what} {refusal.value.cause}"
    assert str(directory) in refusal.value.what


@given(st.data())
def test_no_change_of_a_file_makes_another_error(
    tmp_path_factory: pytest.TempPathFactory, data: st.DataObject
) -> None:
    directory = Older().write(tmp_path_factory.mktemp("older"))
    path = directory / data.draw(st.sampled_from(sorted(Older().documents())))
    content = bytearray(path.read_bytes())
    place = data.draw(st.integers(0, len(content) - 1))
    content[place : place + data.draw(st.integers(0, 9))] = data.draw(st.binary(max_size=9))
    path.write_bytes(content)

    with contextlib.suppress(DisError):
        side_of_older(load_older_run(OlderDirectory(directory)))
