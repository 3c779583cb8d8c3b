"""The page in a browser: it opens, it draws, nothing hostile runs, and a thousand sequences stay responsive.

Chromium runs without a window and prints the document as its scripts left it.
"""

import shutil
import subprocess
from pathlib import Path

import numpy as np
import pytest

from bundles import Answer, Diff, Run
from diff_pages import LEFT, RIGHT, Page, hostile
from dis_derivations.comparison.page.diff_page import diff_page

CHROMIUM = shutil.which("chromium") or shutil.which("chromium-browser")
pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(CHROMIUM is None, reason="there is no chromium here"),
]


def opened(tmp_path: Path, source: str, *options: str) -> str:
    """Return the document after a browser without network has run its scripts."""
    path = tmp_path / "page.html"
    path.write_text(source, "utf-8")
    command = [
        str(CHROMIUM), "--headless", "--no-sandbox", "--disable-gpu", "--disable-dev-shm-usage",
        f"--user-data-dir={tmp_path / 'profile'}", "--host-resolver-rules=MAP * ~NOTFOUND",
        "--virtual-time-budget=5000", *options, path.as_uri(),
    ]  # fmt: skip
    return subprocess.run(
        command,
        capture_output=True,
        text=True,
        timeout=240,
        check=True,
        env={"HOME": str(tmp_path)},
    ).stdout


def test_a_page_opens_and_draws_every_sequence(diff: Diff, tmp_path: Path) -> None:
    document = opened(tmp_path, diff_page(diff(LEFT, RIGHT)), "--dump-dom")

    found = Page(document)
    assert ("html", "1") in [(tag, attributes.get("data-drawn")) for tag, attributes in found.tags]
    canvas = next(attributes for tag, attributes in found.tags if tag == "canvas")
    assert (canvas["width"], canvas["height"]) == ("4", "1")
    assert "first-divergence" in found.attributes("id")
    assert "first" in found.texts


def test_nothing_hostile_runs(diff: Diff, tmp_path: Path) -> None:
    source = diff_page(diff(*hostile())).replace(
        "</body>", "<script>document.title='ran'</script><b onclick='1'>x</b></body>"
    )

    document = opened(tmp_path, source, "--dump-dom")

    found = Page(document)
    assert ("html", "1") in [(tag, attributes.get("data-drawn")) for tag, attributes in found.tags]
    assert "<title>ran</title>" not in document
    assert not [attributes for tag, attributes in found.tags if tag == "img"]


def test_a_thousand_sequences_are_drawn(diff: Diff, tmp_path: Path) -> None:
    rng = np.random.default_rng(1)
    count, length = 1000, 256
    outputs = rng.integers(0, 9, (count, length))
    left = tuple(
        Answer(f"request-{number}", tuple(map(int, row))) for number, row in enumerate(outputs)
    )
    places = rng.integers(1, length, count)
    right = tuple(
        Answer(answer.id, (*answer.output[:place], 99, *answer.output[place + 1 :]))
        for answer, place in zip(left, places, strict=True)
    )
    source = diff_page(diff(Run(answers=left), Run(answers=right)))
    assert len(source) < 2 << 20

    document = opened(tmp_path, source, "--dump-dom")

    found = Page(document)
    drawn = next(attributes for tag, attributes in found.tags if tag == "html")
    assert drawn["data-drawn"] == "1000"
    assert drawn["data-milliseconds"] is not None
    canvas = next(attributes for tag, attributes in found.tags if tag == "canvas")
    assert (canvas["width"], canvas["height"]) == (str(length), str(count))
