import json
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from bundles import Answer, Diff, Run, Tensor, Verify
from dis_derivations.comparison.diff import diff_bundles
from dis_derivations.comparison.render_text import render_text
from dis_derivations.comparison.render_verify import render_verify
from dis_derivations.comparison.text_layout import WIDTH, number, printable, table, unbroken
from dis_derivations.comparison.verification import verify_bundles
from dis_derivations.comparison.verify_report import write_report
from dis_derivations.runs.bundle_reader import StoredBundle
from dis_store import Store, canonical_json
from dis_store.errors import UnfitEnvironmentError
from tiny_runs import realise, write_manifest

GRID = np.arange(12.0).reshape(3, 4)
LEFT = Run(
    answers=(Answer("first", (5, 1, 7), text="the cat sat"), Answer("second", (8, 9))),
    logits={"00000.decode": Tensor(GRID)},
    trace=[{"step": 0}],
)
RIGHT = Run(
    name="other",
    answers=(Answer("first", (5, 2, 7), text="the cat ran"), Answer("third", (8, 9))),
    logits={"00000.decode": Tensor(GRID + 1)},
    trace=[{"step": 1}],
    artifacts=(("model.weight", "model.safetensors", "other"),),
).with_input("weights", "other")


def test_the_same_bundles_give_the_same_reports_wherever_they_lie(tmp_path: Path) -> None:
    written = []
    for place in ("here", "there/and/elsewhere"):
        a, b = LEFT.write(tmp_path / place / "a"), RIGHT.write(tmp_path / place / "b")
        report = diff_bundles(a, b, store=None)
        paths = write_report(verify_bundles(a, b), tmp_path / place / "report")
        written.append(
            (report.to_json(), render_text(report), [path.read_bytes() for path in paths])
        )

    assert written[0] == written[1]


def test_no_report_holds_a_path(tmp_path: Path) -> None:
    a, b = LEFT.write(tmp_path / "a"), RIGHT.write(tmp_path / "b")
    report = diff_bundles(a, b, store=None)

    assert str(tmp_path) not in json.dumps(report.to_json()) + render_text(report)
    assert str(tmp_path) not in render_verify(verify_bundles(a, b))


def test_reports_have_a_canonical_form(diff: Diff, verify: Verify) -> None:
    infinite = {"00000.decode": Tensor(np.full((3, 4), np.inf), "F64")}
    huge = {"00000.decode": Tensor(np.full((3, 4), -1e308), "F64")}
    a, b = LEFT.having(logits=infinite), RIGHT.having(logits=huge)

    for document in (diff(a, b).to_json(), verify(a, b).to_json()):
        assert json.loads(canonical_json.encode(document)) == document


def test_a_comparison_reads_from_top_to_bottom(diff: Diff) -> None:
    text = render_text(diff(LEFT, RIGHT))

    expected = [
        "Results: DIFFERENT",
        "Where the tokens first part",
        '"first", output position 1',
        '"sat"',
        "top 4 (F32)",
        "margin",
        "a token was sampled",
        'only in A: "second"',
        "Where the logits first differ",
        "Where the engine traces first differ: step 0",
        "Why (the most likely first)",
        "1. the weights differ",
        "file model.safetensors: sha256:",
        "Different, but no reason (provenance)",
    ]
    places = [text.find(part) for part in expected]
    assert -1 not in places
    assert places == sorted(places)


def test_equal_results_from_other_weights_are_not_called_a_reason(diff: Diff) -> None:
    text = render_text(diff(Run(), Run().with_input("weights", "other")))

    assert "Results: THE SAME" in text
    assert "What differs upstream" in text
    assert "same results although something upstream differs: weights" in text
    assert "Why" not in text


def test_a_tie_and_a_sampled_token_are_called_that(diff: Diff) -> None:
    rows = {"00000.decode": Tensor([[0.0, 2.0, 2.0]] * 3)}
    one, two = (Run(answers=(Answer("only", (token, 0, 0)),), logits=rows) for token in (1, 0))

    text = render_text(diff(one, two))

    assert "0 ULP: a tie" in text
    assert "not the largest, sampling chose" in text
    assert "the logits are the same in every bit" in text


def test_long_lists_are_cut_with_a_remark(diff: Diff) -> None:
    left = tuple(Answer(f"request-{index}", (1,)) for index in range(20))
    right = tuple(Answer(f"request-{index}", (2,)) for index in range(20))
    tensors = {f"{index:05d}.decode": Tensor([[0.0]]) for index in range(20)}
    others = {name: Tensor([[1.0]]) for name in tensors}

    text = render_text(diff(Run(answers=left, logits=tensors), Run(answers=right, logits=others)))

    assert "… and 12 more (--json has all)" in text
    assert "… and 14 more (--json has all)" in text


def test_lines_are_no_wider_than_the_width(diff: Diff, verify: Verify) -> None:
    wordy = Run(
        answers=tuple(Answer(f"a request with words {index}", (index,)) for index in range(30))
    )

    for text in (
        render_text(diff(LEFT, RIGHT)),
        render_text(diff(wordy, Run())),
        render_verify(verify(LEFT, RIGHT)),
    ):
        assert max(map(len, text.splitlines())) <= WIDTH


def test_no_line_of_a_table_ends_within_a_token() -> None:
    candidates = [f'{number} " token" {number}.5' for number in range(1000, 1020)]

    lines = table([["top", ", ".join(map(unbroken, candidates))], ["margin", "0.5"]])

    assert " ".join(line.strip() for line in lines[:-1]) == f"top     {', '.join(candidates)}"
    assert all(line.endswith((".5,", ".5")) for line in lines)


def test_text_from_a_model_cannot_steer_a_terminal(diff: Diff) -> None:
    escape = Answer("\x1b[31mid", (1,), text="\x1b]0;title\x07\u202e")

    text = render_text(
        diff(Run(answers=(escape,)), Run(answers=(Answer("\x1b[31mid", (2,), text="x"),)))
    )

    assert not {character for character in text if not character.isprintable()} - {"\n"}
    assert "\\x1b[31mid" in text


@given(st.text())
def test_printable_text_is_printable(text: str) -> None:
    assert printable(text).isprintable()


def test_numbers_are_as_short_as_their_type_allows() -> None:
    assert number(float(np.float32(0.1)), "F32") == "0.1"
    assert number(0.1) == "0.1"
    assert number(None) == "none"


def test_a_report_is_written_as_two_files(tmp_path: Path) -> None:
    report = verify_bundles(LEFT.write(tmp_path / "a"), RIGHT.write(tmp_path / "b"))

    document, summary = write_report(report, tmp_path / "deep" / "report")

    assert document.name == "verify_report.json"
    assert json.loads(document.read_text()) == report.to_json()
    assert summary.name == "verify_summary.txt"
    assert summary.read_text().startswith(
        "Grade: non_conformant_software\nOutputs identical, bit for bit: no\n"
    )


def test_a_summary_says_what_hardware_is_wrong(verify: Verify) -> None:
    bad = Run(platform_class="cuda", conformant=False, reasons=("the GPU is too old",))

    text = render_verify(verify(bad, Run()))

    assert "A does not meet its constraints: the GPU is too old" in text
    assert "the platforms of A and B differ" in text


def test_a_report_that_cannot_be_written_says_so(tmp_path: Path) -> None:
    report = verify_bundles(Run().write(tmp_path / "a"), Run().write(tmp_path / "b"))
    (tmp_path / "file").write_text("")

    with pytest.raises(UnfitEnvironmentError, match="cannot be written"):
        write_report(report, tmp_path / "file")


def test_a_change_of_every_request_is_said_once(tmp_path: Path) -> None:
    with Store.open(tmp_path / "store") as store:
        runs = {
            limit: realise(
                store,
                write_manifest(tmp_path / str(limit)),
                f"inference.request_template.sampling.max_tokens={limit}",
            ).outputs["bundle"]
            for limit in (2, 3)
        }
        readers = [StoredBundle(store, bundle) for bundle in runs.values()]
        report = diff_bundles(*readers, store=store)
        text = render_text(report)
    (cause,) = report.causes

    assert len([change for change in cause.changes if change.where == "requests"]) == 3
    assert "/request-00000" not in text
    assert "3 requests /sampling/max_tokens: 2 → 3" in text


def test_logits_that_have_no_counterpart_are_not_called_different_elements(diff: Diff) -> None:
    shorter = LEFT.having(
        answers=(Answer("first", (5, 1)), Answer("second", (8, 9))),
        logits={"00000.decode": Tensor(GRID[:2])},
    )
    text = render_text(diff(LEFT, shorter))

    assert "8 comparable elements equal; the others have no counterpart" in text
    assert "Where the logits first differ" not in text
