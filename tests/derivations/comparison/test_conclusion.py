"""The first sentence of a report is enough for whoever reads no further."""

from pathlib import Path

import pytest

from bundles import Answer, Diff, Run, Tensor
from dis_derivations.comparison.conclusion import in_short, verdict
from dis_derivations.comparison.diff import diff_bundles
from dis_derivations.comparison.page.diff_page import diff_page
from dis_derivations.comparison.render_text import render_text
from dis_derivations.comparison.text_layout import steps

ONE = (Answer("only", (5, 6, 7)),)
BASE = Run(answers=ONE, logits={"00000.decode": Tensor([[1.0, 2.0]] * 3)})


def test_the_same_runs_say_what_was_compared(diff: Diff) -> None:
    report = diff(BASE, BASE)

    assert verdict(report) == "the same"
    assert in_short(report) == "Every bit of what was captured is equal: tokens, logits."


def test_tokens_that_part_come_before_everything_else(diff: Diff) -> None:
    other = BASE.having(answers=(Answer("only", (5, 9, 7)),)).with_input("weights", "tuned")

    said = in_short(diff(BASE, other))

    assert said.startswith('1 of 1 answer differs, that of "only", from position 1 on')
    assert "Most likely because the weights differ" in said


@pytest.mark.parametrize(
    ("other", "how"),
    [
        (Answer("only", (5,)), ", where B ended."),
        (Answer("only", (5, 0, 7), prompt=(1, 2, 9)), ", after another prompt."),
        (Answer("only", (5, 0, 7)), ", by a real change."),
    ],
)
def test_it_says_how_the_first_answer_came_to_part(diff: Diff, other: Answer, how: str) -> None:
    one = BASE.having(answers=(Answer("only", (5, 1, 7)),))
    changed = BASE.having(answers=(other,), logits={"00000.decode": Tensor([[2.0, 1.0]] * 3)})

    assert f'that of "only", from position 1 on{how}' in in_short(diff(one, changed))


def test_it_names_the_settings_that_differ(diff: Diff) -> None:
    def engine(**settings: int) -> Run:
        return BASE.having(engine={"engine": "reference", "settings": settings})

    changed = {"logits": {"00000.decode": Tensor([[1.0, 3.0]] * 3)}}
    few = in_short(diff(engine(dtype=1), engine(dtype=2).having(**changed)))
    many = in_short(
        diff(
            engine(**dict.fromkeys("abcde", 1)),
            engine(**dict.fromkeys("abcde", 2)).having(**changed),
        )
    )
    assert few.endswith("Most likely because the engine or its settings differ (dtype).")
    assert many.endswith("the engine or its settings differ (a, b, c and 2 more).")


def test_prompts_are_named_once_however_many_differ(diff: Diff) -> None:
    other = BASE.having(answers=(Answer("only", (5, 6, 8), prompt=(1, 2, 9)),))

    said = in_short(diff(BASE, other.with_input("requests", "other requests")))

    assert said.endswith("Most likely because the requests differ (prompts).")


def test_logits_alone_say_by_how_much(diff: Diff) -> None:
    other = BASE.having(logits={"00000.decode": Tensor([[1.0, 2.5]] * 3)})

    assert in_short(diff(BASE, other)) == (
        "All answers are the same; logits differ, by up to 0.5. Nothing that was recorded upstream differs."
    )


def test_what_one_run_did_not_capture_is_neither_the_same_nor_different(diff: Diff) -> None:
    report = diff(BASE, BASE.having(logits=None))

    assert not report.same
    assert verdict(report) == "not shown to be the same"
    assert in_short(report) == "All that both runs captured is the same; logits only in A."
    assert "Results: NOT SHOWN TO BE THE SAME" in render_text(report)
    assert "not shown to be the same" in diff_page(report)


def test_one_trace_that_differs_is_said_in_the_singular(diff: Diff) -> None:
    one, two = (BASE.having(trace=[{"step": 0, "tokens": each}]) for each in (1, 2))

    assert in_short(diff(one, two)).startswith("All answers are the same; engine_trace differs.")


def test_results_that_were_changed_after_they_were_made_are_not_called_a_matter_of_chance(
    tmp_path: Path,
) -> None:
    changed = BASE.having(answers=(Answer("only", (5, 6, 8)),))
    one, two, other = (
        run.write(tmp_path / name) for name, run in (("a", BASE), ("b", BASE), ("c", changed))
    )
    (tmp_path / "b" / "tokens.json").write_bytes(changed.files()["tokens.json"])

    (note,) = diff_bundles(one, two, store=None).notes
    (repeated,) = diff_bundles(one, other, store=None).notes

    assert note.startswith(
        f"NOT WHAT THEY SAY: both runs say that their results are {BASE.results[:12]}"
    )
    assert repeated.startswith("not deterministic")


def test_what_only_one_run_has_is_not_counted_in_elements(diff: Diff) -> None:
    two = BASE.having(
        answers=(*ONE, Answer("more", (5,))),
        logits={**(BASE.logits or {}), "00001.decode": Tensor([[1.0, 2.0]])},
    )

    text = render_text(diff(two, BASE))

    assert "more decode  only A has it" in text
    assert "0 of 0 elements" not in text


def test_other_prompts_are_said_and_their_logits_are_not_weighed(diff: Diff) -> None:
    other = BASE.having(
        answers=(Answer("only", (5, 0, 7), prompt=(1, 2, 9)),),
        logits={"00000.decode": Tensor([[9.0, 2.0]] * 3)},
    )

    report = diff(BASE.having(answers=(Answer("only", (1, 6, 7)),)), other)

    assert report.divergence is not None
    assert report.divergence.choice is None
    assert report.divergence.shared == ()
    for shown in (render_text(report), diff_page(report)):
        assert "nothing is comparable: from row 0 on" in shown
        assert "not the same in A and B, so the answers are to different questions" in shown
        assert "REAL CHANGE" not in shown


def test_the_user_sees_what_he_called_the_runs(diff: Diff) -> None:
    lines = render_text(diff(BASE, BASE), ("mine", "/far/away/in/a/deep/place/run/")).splitlines()

    assert lines[0].split()[:2] == ["A", "mine"]
    assert lines[1].split()[:2] == ["B", "…/run"]
    lines = render_text(diff(BASE, BASE), ("x" * 60, "runs/b")).splitlines()
    assert lines[0].split()[1] == "x" * 24 + "…"
    assert lines[1].split()[1] == "runs/b"


@pytest.mark.parametrize(
    ("ulp", "text"),
    [
        (None, "no distance"),
        (0, "0 ULP"),
        (-3, "-3 ULP"),
        (999_999, "999999 ULP"),
        (5_168_834, "5.2 million ULP"),
        (2_127_418_180, "2.1 billion ULP"),
        (4_600_000_000_000_000_000, "4.6e+18 ULP"),
    ],
)
def test_distances_are_told_to_the_digit_only_where_it_says_something(
    ulp: int | None, text: str
) -> None:
    assert steps(ulp) == text
