import math

import numpy as np

from bundles import Answer, Diff, FolderStore, Run, Tensor, Verify
from dis_derivations.comparison.conclusion import in_short
from dis_derivations.comparison.divergence import Divergence, SideLogits
from dis_derivations.comparison.render_text import render_text
from dis_derivations.comparison.report import DiffReport

CHOSE_ONE = (Answer("only", (5, 1, 7), text="the cat sat"),)
CHOSE_TWO = (Answer("only", (5, 2), text="the cat ran"),)


def rows(second: list[float]) -> dict[str, Tensor]:
    return {"00000.decode": Tensor(np.array([[0.0] * len(second), second, [0.0] * len(second)]))}


def place(report: DiffReport) -> Divergence:
    assert report.divergence is not None
    return report.divergence


def side(found: SideLogits | None) -> SideLogits:
    assert found is not None
    return found


def test_the_place_has_both_tokens_and_what_came_before(diff: Diff) -> None:
    found = place(diff(Run(answers=CHOSE_ONE), Run(answers=CHOSE_TWO)))

    assert (found.request, found.position) == ("only", 1)
    assert found.token_a is not None
    assert found.token_b is not None
    assert (found.token_a.id, found.token_b.id) == (1, 2)
    assert [token.id for token in found.context] == [1, 2, 3, 5]
    assert (found.text_before, found.text_a, found.text_b) == ("the cat ", "sat", "ran")


def test_a_run_that_ends_has_no_token_there(diff: Diff) -> None:
    found = place(diff(Run(answers=CHOSE_ONE), Run(answers=(Answer("only", (5,)),))))

    assert found.token_a is not None
    assert found.token_b is None


def test_the_first_request_that_parts_is_shown_and_all_are_listed(diff: Diff) -> None:
    left = tuple(Answer(str(number), (number, 1)) for number in range(5))
    right = tuple(Answer(str(number), (number, 1 + number % 2)) for number in range(5))

    report = diff(Run(answers=left), Run(answers=right))

    assert place(report).request == "1"
    assert [each["request_id"] for each in report.to_json()["sequences"]["divergences"]] == [
        "1",
        "3",
    ]


def test_the_earliest_position_of_all_requests_is_shown_first(diff: Diff) -> None:
    left = (Answer("late", (1, 1, 1, 1)), Answer("early", (1, 1)), Answer("as early", (1, 1)))
    right = (Answer("late", (1, 1, 1, 2)), Answer("early", (1, 2)), Answer("as early", (1, 3)))

    report = diff(Run(answers=left), Run(answers=right))

    assert (place(report).request, place(report).position) == ("early", 1)
    document = report.to_json()
    assert document["first_divergence"]["request_id"] == "early"
    assert [each["request_id"] for each in document["divergences"]] == ["late", "early", "as early"]
    assert 'first that of "early", from position 1 on' in in_short(report)
    text = render_text(report)
    shown = text[text.index("Where the tokens first part") :]
    assert shown.splitlines()[1].split(maxsplit=1) == ["request", '"early", output position 1']
    assert "what parted first is the tokens of early, position 1" in " ".join(text.split())


def test_a_grade_names_the_earliest_position_too(verify: Verify) -> None:
    left = (Answer("late", (1, 1, 1, 1)), Answer("early", (1, 1)))
    right = (Answer("late", (1, 1, 1, 2)), Answer("early", (1, 2)))

    document = verify(Run(answers=left), Run(answers=right)).to_json()

    assert document["comparisons"]["tokens"]["first_divergence"]["request_id"] == "early"


def test_the_earliest_position_is_described_although_it_comes_after_many(diff: Diff) -> None:
    left = [Answer(str(number), (1, 1, 1)) for number in range(300)]
    right = [Answer(str(number), (1, 1, 2)) for number in range(299)] + [Answer("299", (2,))]

    report = diff(Run(answers=tuple(left)), Run(answers=tuple(right)))

    assert (place(report).request, len(report.divergences)) == ("299", 256)


def test_each_side_has_its_best_tokens_and_its_margin(diff: Diff) -> None:
    report = diff(
        Run(answers=CHOSE_ONE, logits=rows([0.0, 2.0, 1.5, -1.0])),
        Run(
            answers=CHOSE_TWO,
            logits={"00000.decode": Tensor(np.array([[0.0] * 4, [0.0, 2.0, 2.25, -1.0]]))},
        ),
    )

    a, b = side(place(report).logits_a), side(place(report).logits_b)
    assert [(each.token.id, each.logit) for each in a.top][:2] == [(1, 2.0), (2, 1.5)]
    assert [(each.token.id, each.logit) for each in b.top] == [
        (2, 2.25),
        (1, 2.0),
        (0, 0.0),
        (3, -1.0),
    ]
    assert (a.margin, b.margin) == (0.5, 0.25)
    assert (a.chosen.token.id, a.runner_up.token.id) == (1, 2)


def test_the_distance_between_both_runs_is_given_for_both_tokens(diff: Diff) -> None:
    nudged = float(np.nextafter(np.float32(2.0), np.float32(3.0)))

    report = diff(
        Run(answers=CHOSE_ONE, logits=rows([0.0, 2.0, 2.0])),
        Run(answers=CHOSE_TWO, logits=rows([0.0, 2.0, nudged])),
    )

    shared = place(report).shared
    assert [(each.token.id, each.ulp) for each in shared] == [(1, 0), (2, 1)]
    assert side(place(report).logits_b).margin_ulp == 1


def test_among_equal_logits_the_lowest_id_is_first(diff: Diff) -> None:
    report = diff(
        Run(answers=CHOSE_ONE, logits=rows([2.0, 2.0, 2.0])),
        Run(answers=CHOSE_TWO, logits=rows([2.0, 2.0, 2.0])),
    )

    a = side(place(report).logits_a)
    assert [each.token.id for each in a.top] == [0, 1, 2]
    assert (a.margin, a.margin_ulp, a.runner_up.token.id) == (0.0, 0, 0)


def test_equal_rows_show_that_sampling_chose(diff: Diff) -> None:
    report = diff(
        Run(answers=CHOSE_ONE, logits=rows([0.0, 1.0, 3.0])),
        Run(answers=CHOSE_TWO, logits=rows([0.0, 1.0, 3.0])),
    )

    assert place(report).same_row is True
    assert side(place(report).logits_a).margin == -2.0


def test_nan_never_ranks_among_the_best(diff: Diff) -> None:
    report = diff(
        Run(answers=CHOSE_ONE, logits=rows([math.nan, 1.0, 0.5])),
        Run(answers=CHOSE_TWO, logits=rows([0.0, 1.0, 2.0])),
    )

    assert [each.token.id for each in side(place(report).logits_a).top] == [1, 2]


def test_a_chosen_nan_has_a_margin_without_distance(diff: Diff) -> None:
    report = diff(
        Run(answers=CHOSE_ONE, logits=rows([0.0, math.nan, 0.5])),
        Run(answers=CHOSE_TWO, logits=rows([0.0, 1.0, 2.0])),
    )

    found = report.to_json()["first_divergence"]["logits_a"]
    assert (found["margin"], found["margin_ulp"]) == ("NaN", None)


def test_logits_of_different_dtypes_have_no_distance(diff: Diff) -> None:
    half = {"00000.decode": Tensor(np.array([[0.0] * 3, [0.0, 1.0, 2.0]]), "F16")}

    report = diff(
        Run(answers=CHOSE_ONE, logits=rows([0.0, 1.0, 0.5])), Run(answers=CHOSE_TWO, logits=half)
    )

    assert [each.ulp for each in place(report).shared] == [None, None]
    assert side(place(report).logits_b).dtype == "F16"


def test_logits_of_chosen_tokens_alone_have_no_margin(diff: Diff) -> None:
    chosen = {"00000.decode": Tensor([1.0, 2.0, 3.0])}

    report = diff(Run(answers=CHOSE_ONE, logits=chosen), Run(answers=CHOSE_TWO, logits=chosen))

    assert place(report).logits_a is None
    assert place(report).shared == ()


def test_without_a_capture_there_are_tokens_alone(diff: Diff) -> None:
    assert place(diff(Run(answers=CHOSE_ONE), Run(answers=CHOSE_TWO))).logits_a is None


def test_a_tokenizer_in_the_store_gives_the_tokens_text(diff: Diff, store: FolderStore) -> None:
    from tokenizers import Tokenizer, models

    tokenizer = Tokenizer(models.WordLevel({"zero": 0, "one": 1, "two": 2}, unk_token="zero"))  # noqa: S106 - a word, not a password
    store.add("tokenizer", {"tokenizer.json": tokenizer.to_str().encode()})

    found = place(diff(Run(answers=CHOSE_ONE), Run(answers=CHOSE_TWO)))

    assert found.token_a is not None
    assert found.token_b is not None
    assert (found.token_a.text, found.token_b.text) == ("one", "two")
    assert found.context[-1].text is None


def test_a_tokenizer_that_does_not_load_leaves_ids(diff: Diff, store: FolderStore) -> None:
    store.add("tokenizer", {"tokenizer.json": b"{}"})

    found = place(diff(Run(answers=CHOSE_ONE), Run(answers=CHOSE_TWO)))

    assert found.token_a is not None
    assert found.token_a.text is None
