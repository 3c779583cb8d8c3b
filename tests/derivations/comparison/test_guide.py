from pathlib import Path

import pytest

from bundles import Answer, Diff, Run, Tensor, Verify
from dis_derivations.comparison.render_text import render_text
from dis_derivations.comparison.render_verify import render_verify
from dis_derivations.comparison.verification import verify_bundles

GUIDE = Path(__file__).parents[3] / "docs" / "guides" / "comparing-runs.md"
ROWS_A = [[0.5, 4.0, 1.25, 0.125], [0.25, -1.0, 3.0000002, 3.0]]
ROWS_B = [[0.5, 4.0, 1.25, 0.125], [0.25, -1.0, 3.0000002, 3.0000005]]


@pytest.fixture
def a() -> Run:
    answer = Answer("story-0", (1, 2), prompt=(3, 1, 0), text="once more")
    return Run(name="story", answers=(answer,), logits={"00000.decode": Tensor(ROWS_A)})


@pytest.fixture
def b(a: Run) -> Run:
    return a.having(
        answers=(Answer("story-0", (1, 3), prompt=(3, 1, 0), text="once upon"),),
        logits={"00000.decode": Tensor(ROWS_B)},
        artifacts=(("model.weight", "model.safetensors", "other weights"),),
    ).with_input("weights", "other")


def blocks() -> list[str]:
    return [block.split("\n", 1)[1] for block in GUIDE.read_text().split("```")[1::2]]


def test_the_guide_shows_a_comparison_as_it_is_printed(diff: Diff, a: Run, b: Run) -> None:
    assert render_text(diff(a, b)) in blocks()


def test_the_guide_shows_a_summary_as_it_is_written(verify: Verify, a: Run, b: Run) -> None:
    assert render_verify(verify(a, b)) in blocks()


def test_the_guide_names_every_member_of_the_report(tmp_path: Path, a: Run, b: Run) -> None:
    report = verify_bundles(a.write(tmp_path / "a"), b.write(tmp_path / "b")).to_json()

    text = GUIDE.read_text()
    assert [name for name in report if f"`{name}`" not in text] == []
