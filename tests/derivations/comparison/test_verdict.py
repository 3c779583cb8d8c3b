from pathlib import Path

import numpy as np
import pytest

from bundles import Answer, Diff, Run, Tensor, safetensors
from dis_derivations.comparison.diff import diff_bundles

LOGITS = {"00000.decode": Tensor(np.arange(12.0).reshape(3, 4))}
TRACE = [{"step": 0, "requests": [{"id": "first", "tokens": 3}]}, {"step": 1, "requests": []}]


def test_a_run_is_the_same_as_itself(diff: Diff) -> None:
    run = Run(logits=LOGITS, trace=TRACE)

    report = diff(run, run)

    assert report.same
    assert report.bundles_identical
    assert dict(report.examination.status) == {
        "tokens": "identical",
        "logits": "identical",
        "activations": "not captured",
        "engine_trace": "identical",
    }
    assert report.causes == ()
    assert report.notes == ()


def test_another_token_makes_results_different(diff: Diff) -> None:
    report = diff(Run(), Run(answers=(Answer("first", (5, 6, 8)), Answer("second", (8, 9)))))

    assert not report.same
    assert report.examination.status["tokens"] == "differ"
    assert report.to_json()["sequences"]["divergences"] == [
        {"request_id": "first", "position": 2, "token_a": 7, "token_b": 8, "same_prompt": True}
    ]


def test_one_bit_of_a_logit_makes_results_different(diff: Diff) -> None:
    other = np.arange(12.0).reshape(3, 4).astype(np.float32)
    other[2, 1] = np.nextafter(other[2, 1], np.float32(100))

    report = diff(Run(logits=LOGITS), Run(logits={"00000.decode": Tensor(other)}))

    assert report.examination.status == {
        **report.examination.status,
        "tokens": "identical",
        "logits": "differ",
    }
    assert not report.same
    logits = report.to_json()["logits"]
    assert logits["elements_differing"] == 1
    assert logits["max_ulp"] == 1
    assert logits["first_difference"]["element"] == {
        "index": [2, 1],
        "a": 9.0,
        "b": float(other[2, 1]),
        "ulp": 1,
    }


def test_the_sign_of_a_zero_is_a_bit(diff: Diff) -> None:
    zero, minus = (
        {"00000.decode": Tensor(np.array([[number, 1.0]] * 3))} for number in (0.0, -0.0)
    )

    report = diff(Run(logits=zero), Run(logits=minus))

    assert report.examination.status["logits"] == "differ"
    assert report.to_json()["logits"]["max_ulp"] == 0


@pytest.mark.parametrize("observable", ["logits", "activations", "trace"])
def test_a_capture_that_one_run_has_is_not_the_same(diff: Diff, observable: str) -> None:
    having = Run().having(**{observable: TRACE if observable == "trace" else LOGITS})
    name = "engine_trace" if observable == "trace" else observable

    left, right = diff(having, Run()), diff(Run(), having)

    assert left.examination.status[name] == "only in A"
    assert right.examination.status[name] == "only in B"
    assert not left.same
    assert not right.same
    assert [cause.kind for cause in left.causes] == ["capture"]


def test_engine_traces_are_compared_step_by_step(diff: Diff) -> None:
    report = diff(
        Run(trace=TRACE),
        Run(trace=[TRACE[0], {"step": 1, "requests": [{"id": "first", "tokens": 1}]}]),
    )

    trace = report.to_json()["engine_trace"]
    assert report.examination.status["engine_trace"] == "differ"
    assert trace["first_difference"]["step"] == 1
    assert trace["first_difference"]["a"] == '{"requests":[],"step":1}'


def test_a_trace_that_ends_early_differs(diff: Diff) -> None:
    report = diff(Run(trace=TRACE), Run(trace=TRACE[:1]))

    trace = report.to_json()["engine_trace"]
    assert (trace["steps_a"], trace["steps_b"]) == (2, 1)
    assert trace["first_difference"] == {"step": 1, "a": '{"requests":[],"step":1}', "b": None}


def test_requests_that_only_one_run_has_are_named(diff: Diff) -> None:
    report = diff(Run(), Run(answers=(Answer("first", (5, 6, 7)), Answer("third", (1,)))))

    sequences = report.to_json()["sequences"]
    assert (sequences["only_in_a"], sequences["only_in_b"]) == (["second"], ["third"])
    assert sequences["matched"] == sequences["equal"] == 1
    assert not report.same


def test_sequences_are_matched_by_id_whatever_their_order(diff: Diff) -> None:
    logits = {"00000.decode": LOGITS["00000.decode"], "00001.decode": Tensor(np.ones((2, 4)))}
    swapped = {"00001.decode": logits["00000.decode"], "00000.decode": logits["00001.decode"]}
    run = Run(logits=logits)

    report = diff(run, run.having(answers=run.answers[::-1], logits=swapped))

    assert report.same
    assert not report.bundles_identical
    assert "the requests are in different orders; sequences are matched by id" in report.notes


def test_strict_asks_for_the_same_bundles(diff: Diff) -> None:
    report = diff(
        Run(), Run().with_manifest(metadata={"name": "example", "description": "another"})
    )

    assert report.answer(strict=False)
    assert not report.answer(strict=True)
    assert report.causes == ()
    assert [each.kind for each in report.upstream.provenance] == ["description"]


def test_the_log_beside_a_bundle_is_no_part_of_it(tmp_path: Path) -> None:
    a, b = Run().write(tmp_path / "a"), Run().write(tmp_path / "b")
    (tmp_path / "b" / "run_log.json").write_text("{}")

    assert diff_bundles(a, b, store=None).bundles_identical


def test_equal_tokens_with_other_text_are_noted(diff: Diff) -> None:
    one, other = (Run(answers=(Answer("first", (5,), text=text),)) for text in ("a", "b"))

    report = diff(one, other)

    assert report.same
    assert "equal tokens decode to different text in 1 of 1 sequences" in report.notes


def test_results_that_differ_for_no_recorded_reason_are_called_that(diff: Diff) -> None:
    report = diff(Run(answers=(Answer("first", (5,)),)), Run(answers=(Answer("first", (6,)),)))

    assert report.causes == ()
    (note,) = report.notes
    assert note.startswith("not deterministic: nothing recorded upstream differs")
    assert note.endswith("what parted first is the tokens of first, position 0")


def test_a_mock_run_says_so(diff: Diff) -> None:
    mock = Run(engine={"engine": "mock", "numerics": 1, "settings": {}})

    assert diff(mock, mock).notes[0].startswith("MOCK ENGINE")


def test_a_long_capture_is_compared_in_pieces(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("dis_derivations.comparison.tensors.elements.CHUNK_BYTES", 64)
    values = np.arange(3 * 1000.0).reshape(3, 1000)
    other = values.copy()
    other[1, 999] += 1
    other[2, 0] += 2
    a = Run(logits={"00000.decode": Tensor(values)}).write(tmp_path / "a")
    b = Run(logits={"00000.decode": Tensor(other)}).write(tmp_path / "b")

    logits = diff_bundles(a, b, store=None).to_json()["logits"]

    assert logits["elements_compared"] == 3000
    assert logits["elements_differing"] == 2
    assert logits["max_abs_diff"] == 2.0
    assert logits["first_difference"]["element"]["index"] == [1, 999]


def test_the_test_writer_makes_files_of_the_format() -> None:
    data = safetensors({"x": Tensor([[1.0, 2.0]])})

    assert int.from_bytes(data[:8], "little") == len(data) - 8 - 8


@pytest.mark.parametrize("longer", ["a", "b"])
def test_a_bundle_that_is_longer_by_a_byte_is_another_one(
    tmp_path: Path, longer: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("dis_derivations.comparison.diff._CHUNK_BYTES", 1)
    a, b = Run().write(tmp_path / "a"), Run().write(tmp_path / "b")
    with (tmp_path / longer / "tokens.json").open("ab") as stream:
        stream.write(b"\n")

    report = diff_bundles(a, b, store=None)

    assert report.same
    assert not report.bundles_identical


def test_a_subset_of_the_requests_is_not_another_order(diff: Diff) -> None:
    both = Run(answers=(Answer("first", (5,)), Answer("second", (8,)), Answer("third", (9,))))
    subset = both.having(answers=(both.answers[0], both.answers[2]))
    swapped = both.having(answers=(both.answers[1], both.answers[0], both.answers[2]))

    assert not [note for note in diff(both, subset).notes if "order" in note]
    assert [note for note in diff(both, swapped).notes if "order" in note]
