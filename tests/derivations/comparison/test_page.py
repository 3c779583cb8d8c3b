"""The page of a comparison: one file, no request, nothing in it is taken for markup."""

import json
import re
from pathlib import Path

import numpy as np
import pytest

from bundles import Answer, Diff, Run, Tensor
from diff_pages import HOSTILE, LEFT, RIGHT, Page, hostile
from dis_derivations.comparison.page.diff_page import diff_page
from dis_derivations.comparison.page.document import page
from dis_derivations.comparison.page.markup import element, text


def test_a_page_is_well_formed_and_has_every_part(diff: Diff) -> None:
    found = Page(diff_page(diff(LEFT, RIGHT)))

    assert found.open == []
    ids = found.attributes("id")
    assert {
        "summary",
        "first-divergence",
        "heat-map",
        "logit-error",
        "causes",
        "provenance",
        "sequences",
    } <= set(ids)
    assert len(ids) == len(set(ids))
    assert "Results: DIFFERENT" in found.texts


def test_every_link_leads_to_a_place_in_the_page(diff: Diff) -> None:
    found = Page(diff_page(diff(LEFT, RIGHT)))

    links = [value for value in found.attributes("href") if value != "data:,"]
    assert len(links) > 6
    assert "#cause-weights" in links
    assert [
        link for link in links if not link.startswith("#") or link[1:] not in found.attributes("id")
    ] == []


def test_a_page_asks_for_nothing(diff: Diff) -> None:
    source = diff_page(diff(LEFT, RIGHT))

    assert not re.search(
        r"https?://|src=|@import|url\(|fetch\(|XMLHttpRequest|innerHTML|eval\(", source
    )
    policy = next(value for value in Page(source).attributes("content") if "default-src" in value)
    assert policy.startswith("default-src 'none'; style-src 'sha256-")
    assert "unsafe" not in policy


def test_hostile_text_is_only_text(diff: Diff) -> None:
    source = diff_page(diff(*hostile()))
    found = Page(source)

    assert found.open == []
    assert [tag for tag, _ in found.tags].count("script") == 2
    assert not {"img", "iframe"} & {tag for tag, _ in found.tags}
    assert not [
        name for _, attributes in found.tags for name in attributes if name.startswith("on")
    ]
    assert "\x1b" not in source
    assert "\u202e" not in source
    assert json.loads(found.data)["rows"][0]["id"] == HOSTILE


def test_the_heat_map_tells_equal_tokens_parting_logits_and_what_comes_after(diff: Diff) -> None:
    answers = (Answer("a", (1,) * 6), Answer("b", (1,) * 3), Answer("c", (1, 1), prompt=(9,)))
    others = (Answer("a", (1, 1, 1, 1, 2, 1)), Answer("b", (1,) * 4), Answer("c", (1, 2)))
    rows = np.full((6, 4), 2.0, np.float32)
    part = rows.copy()
    part[1, 0] = np.nextafter(np.float32(2), np.float32(3))
    part[3, 0] = np.nan
    one = Run(answers=answers, logits={"00000.decode": Tensor(rows)})
    two = Run(answers=others, logits={"00000.decode": Tensor(part)})

    data = json.loads(Page(diff_page(diff(one, two))).data)

    assert [row["cells"] for row in data["rows"]] == ["=1=6Xx", "===X", "?X"]
    assert data["positions"] == 6
    assert set("=16Xx?") <= set(data["meanings"]) == set(data["colours"])


def test_a_page_says_where_captured_values_part_first(diff: Diff) -> None:
    rows = np.zeros((3, 4), np.float32)
    other = rows.copy()
    other[2] = 0.5
    one, two = Tensor(rows), Tensor(other)
    names = [f"00000.layers.{layer}.output" for layer in range(30)]
    a = Run(activations=dict.fromkeys(names, one))
    b = Run(activations={**dict.fromkeys(names[:3], one), **dict.fromkeys(names[3:], two)})

    source = diff_page(diff(a, b))

    found = Page(source)
    assert found.open == []
    assert "#tensors" in found.attributes("href")
    section = source[source.index('id="tensors"') :].split("</section>")[0]
    assert "<h3>Activations</h3>" in section
    assert "layers.3.output, position 2, channel 0: A 0.0, B 0.5" in section
    assert section.count("<tr>") == 25
    assert "… and 3 more (--json has all)" in section


def test_equal_activations_have_no_section(diff: Diff) -> None:
    run = Run(activations={"00000.layer": Tensor(np.zeros((2, 2)))})
    assert "tensors" not in Page(diff_page(diff(run, run))).attributes("id")


def test_runs_that_agree_make_a_page_too(diff: Diff) -> None:
    found = Page(diff_page(diff(LEFT, LEFT)))

    assert "Results: THE SAME" in found.texts
    assert "first-divergence" not in found.attributes("id")


def test_the_same_runs_make_the_same_page_and_no_path_is_in_it(diff: Diff, tmp_path: Path) -> None:
    one, two = (diff_page(diff(LEFT, RIGHT)) for _ in range(2))

    assert one == two
    assert str(tmp_path) not in one


@pytest.mark.parametrize("value", [HOSTILE, "", "a\nb", "<b>"])
def test_text_never_becomes_markup(value: str) -> None:
    made = element("p", value, title=value)

    assert made.count("<") == 2
    assert made.count(">") == 2
    assert text(made) == made or "&lt;" in text(str(made))


def test_a_page_without_data_runs_nothing() -> None:
    source = page("title", [], element("p", "body"))

    assert "<script" not in source
    assert "script-src" not in source
