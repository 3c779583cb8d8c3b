import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from bundles import Answer, Diff, Run, Tensor
from dis_derivations.comparison.render_text import render_text
from dis_derivations.comparison.report_json import tensor_index

ONE = (Answer("only", (5, 6, 7)),)


def run(part: str, values: object, *, dtype: str = "F32", answers: tuple[Answer, ...] = ONE) -> Run:
    return Run(answers=answers, logits={f"00000.{part}": Tensor(values, dtype)})


def test_rows_after_the_tokens_part_are_not_compared(diff: Diff) -> None:
    base = np.zeros((3, 4))
    other = base.copy()
    other[1, 2], other[2, 3] = 1.0, 50.0

    report = diff(run("decode", base), run("decode", other, answers=(Answer("only", (5, 2, 3)),)))

    logits = report.to_json()["logits"]
    assert logits["elements_compared"] == 8
    assert logits["max_abs_diff"] == 1.0
    assert logits["different"][0]["elements_not_comparable"] == 4
    assert "from row 2 on" in logits["different"][0]["reason"]


def test_rows_after_the_tokens_part_still_make_logits_different(diff: Diff) -> None:
    other = np.zeros((3, 4))
    other[2, 3] = 1.0

    report = diff(
        run("decode", np.zeros((3, 4))), run("decode", other, answers=(Answer("only", (5, 2, 3)),))
    )

    assert report.examination.status["logits"] == "differ"
    assert report.to_json()["logits"]["elements_differing"] == 0


def test_logits_of_chosen_tokens_are_compared_only_while_the_tokens_agree(diff: Diff) -> None:
    left, right = [1.0, 2.0, 3.0], [1.0, 9.0, 9.0]

    report = diff(run("decode", left), run("decode", right, answers=(Answer("only", (5, 2, 3)),)))

    logits = report.to_json()["logits"]
    assert (logits["elements_compared"], logits["elements_differing"]) == (1, 0)


def test_prefill_rows_are_compared_while_the_prompts_agree(diff: Diff) -> None:
    answers = (Answer("only", (5, 6, 7), prompt=(1, 2, 9)),)
    left, right = np.zeros((3, 2)), np.ones((3, 2))

    report = diff(run("prefill", left), run("prefill", right, answers=answers))

    assert report.to_json()["logits"]["elements_compared"] == 4


def test_nothing_decoded_from_different_prompts_is_compared(diff: Diff) -> None:
    answers = (Answer("only", (5, 6, 7), prompt=(9, 2, 3)),)

    report = diff(run("decode", np.zeros((3, 2))), run("decode", np.ones((3, 2)), answers=answers))

    assert report.examination.status["logits"] == "differ"
    assert report.to_json()["logits"]["elements_compared"] == 0


def test_another_dtype_is_a_difference_without_distances(diff: Diff) -> None:
    report = diff(run("decode", np.ones((3, 2))), run("decode", np.ones((3, 2)), dtype="F16"))

    different = report.to_json()["logits"]["different"][0]
    assert different["reason"] == "A has F32 and B has F16"
    assert different["max_ulp"] is None


def test_another_vocabulary_is_a_difference_without_distances(diff: Diff) -> None:
    report = diff(run("decode", np.ones((3, 2))), run("decode", np.ones((3, 3))))

    assert "shape" in report.to_json()["logits"]["different"][0]["reason"]


def test_a_shorter_answer_is_compared_as_far_as_it_goes(diff: Diff) -> None:
    report = diff(
        run("decode", np.ones((3, 2))),
        run("decode", np.ones((2, 2)), answers=(Answer("only", (5, 6)),)),
    )

    different = report.to_json()["logits"]["different"][0]
    assert report.to_json()["logits"]["elements_compared"] == 4
    assert different["elements_not_comparable"] == 2


def test_a_tensor_that_one_run_lacks_is_named(diff: Diff) -> None:
    both = {"00000.decode": Tensor(np.ones((3, 2))), "00000.prefill": Tensor(np.ones((3, 2)))}

    left = diff(Run(answers=ONE, logits=both), run("decode", np.ones((3, 2))))
    right = diff(run("decode", np.ones((3, 2))), Run(answers=ONE, logits=both))

    assert left.to_json()["logits"]["first_difference"]["reason"] == "only A has it"
    assert right.to_json()["logits"]["first_difference"]["reason"] == "only B has it"


def test_the_first_difference_is_the_first_in_request_order_and_time(diff: Diff) -> None:
    answers = (Answer("first", (5,)), Answer("second", (6,)))
    names = ("00000.decode", "00000.prefill", "00001.prefill")
    left = {name: Tensor(np.zeros((1, 2))) for name in names}
    right = {name: Tensor(np.ones((1, 2))) for name in names}

    report = diff(Run(answers=answers, logits=left), Run(answers=answers, logits=right))

    order = [
        (each["request_id"], each["tensor"]) for each in report.to_json()["logits"]["different"]
    ]
    assert order == [("first", "prefill"), ("first", "decode"), ("second", "prefill")]


def test_nan_is_counted_and_has_no_distance(diff: Diff) -> None:
    report = diff(run("decode", [[math.nan, 1.0]] * 3), run("decode", [[1.0, 1.0]] * 3))

    logits = report.to_json()["logits"]
    assert logits["elements_with_nan"] == 3
    assert logits["max_ulp"] is None
    assert logits["max_abs_diff"] is None
    assert logits["first_difference"]["element"] == {
        "index": [0, 0],
        "a": "NaN",
        "b": 1.0,
        "ulp": None,
    }


def test_the_same_nan_is_the_same(diff: Diff) -> None:
    nan = run("decode", [[math.nan, math.inf]] * 3)

    assert diff(nan, nan).same


def test_infinity_has_a_distance_in_steps_and_none_in_numbers(diff: Diff) -> None:
    largest = float(np.finfo(np.float32).max)

    report = diff(run("decode", [[math.inf]] * 3), run("decode", [[largest]] * 3))

    assert report.to_json()["logits"]["max_ulp"] == 1
    assert report.to_json()["logits"]["max_abs_diff"] is None


def test_bf16_is_read_by_its_own_format(diff: Diff) -> None:
    report = diff(
        run("decode", [[0x3F80]] * 3, dtype="BF16"), run("decode", [[0x3F81]] * 3, dtype="BF16")
    )

    element = report.to_json()["logits"]["first_difference"]["element"]
    assert element == {"index": [0, 0], "a": 1.0, "b": 1.0078125, "ulp": 1}


def test_a_float64_distance_beyond_safe_integers_is_text(diff: Diff) -> None:
    report = diff(
        run("decode", [[-1e308]] * 3, dtype="F64"), run("decode", [[1e308]] * 3, dtype="F64")
    )

    assert int(report.to_json()["logits"]["max_ulp"]) > 2**53
    assert report.to_json()["logits"]["max_abs_diff"] == "Infinity"


def test_activations_of_any_name_and_type_are_compared(diff: Diff) -> None:
    left = {"layer.0": Tensor([[1, 2], [3, 4]], "I32"), "layer.1": Tensor(1.0)}
    right = {"layer.0": Tensor([[1, 2], [3, 5]], "I32"), "layer.1": Tensor(2.0)}

    report = diff(Run(activations=left), Run(activations=right))

    found = report.to_json()["activations"]
    assert found["elements_differing"] == 2
    assert found["first_difference"]["element"] == {
        "index": [1, 1],
        "a": None,
        "b": None,
        "ulp": None,
    }


def test_activations_of_requests_that_part_are_not_compared(diff: Diff) -> None:
    left = Run(answers=ONE, activations={"00000.layer": Tensor(np.zeros((3, 2)))})
    right = Run(
        answers=(Answer("only", (5, 6, 8)),), activations={"00000.layer": Tensor(np.ones((3, 2)))}
    )

    assert diff(left, right).to_json()["activations"]["elements_compared"] == 0


def test_layers_are_compared_up_to_where_the_tokens_part(diff: Diff) -> None:
    def run(output: tuple[int, ...], **last_rows: float) -> Run:
        tensors = {
            f"00000.{phase}.layer.007": Tensor([[0, 0], [0, 0], [value, value]])
            for phase, value in last_rows.items()
        }
        return Run(answers=(Answer("only", output),), activations=tensors)

    # The third token of the answer is another one, so what was computed with it is another question.
    one, other = run((5, 6, 7), prefill=1, decode=1), run((5, 6, 8), prefill=2, decode=2)
    found = diff(one, other).to_json()["activations"]

    assert found["elements_compared"] == 6 + 4
    assert found["elements_differing"] == 2
    assert found["first_difference"]["tensor"] == "prefill.layer.007"
    assert found["first_difference"]["element"]["index"] == [2, 0]


def test_the_layer_in_which_answers_begin_to_part_is_named_although_they_do(diff: Diff) -> None:
    one, other = (np.zeros((3, 2)) for _ in range(2))
    other[1, 1] = 1
    left, right = (
        Run(
            answers=(Answer("only", output),),
            activations={
                "00000.decode.layer.000": Tensor(np.zeros((3, 2))),
                "00000.decode.layer.003": Tensor(values),
            },
        )
        for output, values in (((5, 6, 7), one), ((5, 6, 8), other))
    )

    report = diff(left, right)

    assert "Where the activations first differ" in render_text(report)
    assert "only decode.layer.003, position 1, " in render_text(report)
    assert "activations of only decode.layer.003, row 1" in report.notes[-1]


@given(st.lists(st.integers(1, 6), min_size=0, max_size=4), st.data())
def test_an_index_is_the_one_of_the_element(shape: list[int], data: st.DataObject) -> None:
    element = data.draw(st.integers(0, math.prod(shape) - 1))

    expected = [int(place) for place in np.unravel_index(element, shape)] if shape else []
    assert tensor_index(element, shape) == expected


@pytest.mark.parametrize("values", [np.zeros((3, 0)), np.zeros((0, 4))])
def test_empty_tensors_are_the_same(diff: Diff, values: object) -> None:
    assert diff(run("decode", values), run("decode", values)).same
