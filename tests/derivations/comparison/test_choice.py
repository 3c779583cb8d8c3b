"""How close the choice was by which two runs part."""

import numpy as np
import pytest

from bundles import Answer, Diff, Run, Tensor
from dis_derivations.comparison.decode_logits import LogitsRow
from dis_derivations.comparison.divergence import Choice
from dis_derivations.comparison.render_text import render_text
from dis_derivations.comparison.tensors.ulp import FLOAT_FORMATS

ABOVE = float(np.nextafter(np.float32(16), np.float32(17)))


def run(token: int, row: list[float]) -> Run:
    return Run(answers=(Answer("only", (token,)),), logits={"00000.decode": Tensor([row])})


@pytest.mark.parametrize(
    ("row_a", "row_b", "expected"),
    [
        ([0.0, 16.0, 16.0], [0.0, 16.0, ABOVE], "exact tie"),
        ([0.0, ABOVE, 16.0], [0.0, 16.0, ABOVE], "near tie"),
        ([0.0, 16.125, 16.0], [0.0, 16.0, 16.125], "near tie"),
        ([0.0, 16.25, 16.0], [0.0, 16.0, 16.125], "real change"),
        ([0.0, 9.0, 1.0], [0.0, 1.0, 9.0], "real change"),
        ([0.0, 1.0, 1.0], [0.0, 1.0, 1.0], "same logits"),
        ([9.0, 1.0, 1.0], [0.0, 1.0, 2.0], "sampled"),
        ([0.0, 1.0, np.nan], [0.0, np.nan, 1.0], "real change"),
    ],
)
def test_a_choice_is_a_tie_nearly_one_or_none(
    diff: Diff, row_a: list[float], row_b: list[float], expected: Choice
) -> None:
    report = diff(run(1, row_a), run(2, row_b))

    assert report.divergence is not None
    assert report.divergence.choice == expected
    assert report.to_json()["first_divergence"]["choice"] == expected
    shown = {"same logits": "sampling chose", "sampled": "was sampled"}
    assert shown.get(expected, expected.upper()) in render_text(report)


def test_nothing_is_said_of_a_choice_whose_logits_were_not_captured(diff: Diff) -> None:
    report = diff(Run(answers=(Answer("only", (1,)),)), Run(answers=(Answer("only", (2,)),)))

    assert report.divergence is not None
    assert report.divergence.choice is None


def test_every_sequence_that_parts_is_described(diff: Diff) -> None:
    left = tuple(Answer(str(number), (1,)) for number in range(3))
    right = tuple(Answer(str(number), (2,)) for number in range(3))
    tensors = {f"{number:05d}.decode": Tensor([[0.0, 2.0 + number, 1.0]]) for number in range(3)}
    others = {name: Tensor([[0.0, 1.0, 5.0]]) for name in tensors}

    found = diff(Run(answers=left, logits=tensors), Run(answers=right, logits=others)).to_json()

    assert [each["request_id"] for each in found["divergences"]] == ["0", "1", "2"]
    assert [each["logits_a"]["margin"] for each in found["divergences"]] == [1.0, 2.0, 3.0]


def test_the_best_tokens_are_those_of_a_full_sort() -> None:
    values = np.random.default_rng(3).integers(0, 9, 200).astype(np.float32)
    form = FLOAT_FORMATS["F32"]
    row = LogitsRow(form, form.raw(values.tobytes()), values.astype(np.float64))

    expected = sorted(range(200), key=lambda token: (-values[token], token))
    for count in (1, 2, 5, 200):
        assert row.best(count) == tuple(expected[:count])
