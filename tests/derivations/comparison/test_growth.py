"""How the difference of logits grows until the tokens part."""

import numpy as np

from bundles import Answer, Diff, Run, Tensor
from dis_derivations.comparison.render_text import render_text

BASE = np.full((6, 4), 2.0, np.float32)


def run(output: tuple[int, ...], rows: np.ndarray, **changes: object) -> Run:
    return Run(answers=(Answer("only", output),), logits={"00000.decode": Tensor(rows)}).having(
        **changes
    )


def moved(*places: tuple[int, float]) -> np.ndarray:
    rows = BASE.copy()
    for row, amount in places:
        rows[row, 1] += amount
    return rows


def test_the_error_is_told_step_by_step_from_where_it_begins(diff: Diff) -> None:
    other = moved((2, 0.5), (4, 1.0), (5, 8.0))

    (curve,) = diff(run((1,) * 6, BASE), run((1, 1, 1, 1, 2, 1), other)).curves

    assert curve.parts_at == 4
    assert [(step.position, step.differing, step.max_abs) for step in curve.steps] == [
        (2, 1, 0.5),
        (3, 0, None),
        (4, 1, 1.0),
    ]


def test_sequences_with_equal_tokens_have_a_curve_to_their_end(diff: Diff) -> None:
    report = diff(run((1,) * 6, BASE), run((1,) * 6, moved((5, 0.25))))

    (curve,) = report.curves
    assert (curve.parts_at, [step.position for step in curve.steps]) == (None, [5])
    assert 'How the logits of "only" part (the tokens never part)' in render_text(report)


def test_equal_logits_have_no_curve(diff: Diff) -> None:
    assert diff(run((1,) * 6, BASE), run((1,) * 6, BASE)).curves == ()


def test_logits_of_other_prompts_are_not_followed(diff: Diff) -> None:
    other = run((1,) * 6, moved((0, 1.0))).having(answers=(Answer("only", (1,) * 6, prompt=(9,)),))

    assert diff(run((1,) * 6, BASE), other).curves == ()


def test_the_logits_of_chosen_tokens_are_followed_to_the_last_equal_token(diff: Diff) -> None:
    left, right = BASE[:, 1], moved((1, 0.5), (4, 1.0))[:, 1]

    (curve,) = diff(run((1,) * 6, left), run((1, 1, 1, 1, 2, 1), right)).curves

    assert [step.position for step in curve.steps] == [1, 2, 3]


def test_the_report_has_every_curve_and_the_text_the_first(diff: Diff) -> None:
    answers = tuple(Answer(str(number), (1,) * 6) for number in range(3))
    left = {f"{number:05d}.decode": Tensor(BASE) for number in range(3)}
    right = {name: Tensor(moved((3, 0.5))) for name in left}

    report = diff(Run(answers=answers, logits=left), Run(answers=answers, logits=right))

    assert [each["request_id"] for each in report.to_json()["logit_error"]] == ["0", "1", "2"]
    assert "… and 2 more sequences (--json has them)" in render_text(report)


def test_what_parted_first_is_named_when_nothing_upstream_differs(diff: Diff) -> None:
    one, two = run((1,) * 6, BASE), run((1, 1, 1, 1, 2, 1), moved((2, 0.5)))

    assert "what parted first is the logits of only decode, row 2" in diff(one, two).notes[0]
