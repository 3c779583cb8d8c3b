"""`dis diff` of runs, closures and images whose layers have other packages, from locks of made images to the text."""

import json
import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest

from command_line import ROOT, Outcome, call
from images import LayoutMaker, Member, distribution, dpkg_status, layer_of
from json_schema import faults

QUICKSTART = ROOT / "configs/quickstart.json"
BASE = layer_of([Member("var/lib/dpkg/status", dpkg_status(libc6="2.36-9", tzdata="2024a"))])


def dis(tmp_path: Path, *words: str) -> Outcome:
    return call(["--store", str(tmp_path / "store"), *words])


def realised(tmp_path: Path, name: str, top: bytes) -> str:
    """Make a run of the reference engine whose manifest names an image; return what `realize` prints."""
    maker = LayoutMaker(tmp_path / name)
    found = maker.image((BASE, top))
    maker.finish(found)
    settings = {
        "artifacts.lockfile": str(tmp_path / f"{name}.lock.json"),
        "runtime.execution.vllm_image": f"localhost/{name}@{found['digest']}",
        "runtime.execution.vllm_image_path": str(maker.directory),
        "inference.n_prompts": "1",
    }
    words = [word for key, value in settings.items() for word in ("--set", f"{key}={value}")]
    assert dis(tmp_path, "lock", str(QUICKSTART), *words).code == 0
    made = dis(tmp_path, "realize", str(QUICKSTART), "--name", name, *words)
    assert made.code == 0, made.err
    return made.out.strip()


def inputs(run: str) -> Mapping[str, str]:
    document: Mapping[str, Any] = json.loads((Path(run) / "bundle.json").read_bytes())
    found: Mapping[str, str] = document["inputs"]
    return found


def schema(name: str) -> dict[str, Any]:
    text = (ROOT / "docs/reference" / f"{name}.schema.json").read_text("utf-8")
    document: dict[str, Any] = json.loads(text)
    return document


def test_packages_are_compared_from_runs_closures_and_images(tmp_path: Path) -> None:
    one, two = (
        realised(tmp_path, name, layer_of([distribution("torch", version), *more]))
        for name, version, more in (
            ("one", "2.10.0", []),
            ("two", "2.11.0", [Member("var/lib/dpkg/status", dpkg_status(libc6="2.36-9"))]),
        )
    )
    said = [
        ["torch", "Python", "2.10.0 → 2.11.0"],
        ["tzdata", "Debian", "2024a → (absent)"],
    ]
    names = ["image", "closure"]
    pairs = [("one", "two"), *((inputs(one)[each], inputs(two)[each]) for each in names)]

    for pair in pairs:
        text = dis(tmp_path, "diff", *pair)
        assert text.err == ""
        section = text.out[
            text.out.index("Packages in the images: 1 changed, 0 added, 1 removed") :
        ]
        rows = [re.split(" {2,}", line.strip())[:3] for line in section.splitlines()[1:3]]
        assert rows == said
        document = dis(tmp_path, "diff", *pair, "--json").document
        kind = "diff" if pair == ("one", "two") else "diff-documents"
        assert faults(document, schema(kind)) == []
        assert [each["name"] for each in document["image_packages"]["packages"]] == [
            "torch",
            "tzdata",
        ]

    assert dis(tmp_path, "diff", "one", "two", "--html", str(tmp_path / "page.html")).code == 0
    assert "<td>2.10.0 → 2.11.0</td>" in (tmp_path / "page.html").read_text("utf-8")


@pytest.mark.parametrize(
    ("top", "why"),
    [
        (layer_of([Member("../escape", b"x")]), "which leads out of the image"),
        (layer_of([Member("a", b"x" * 9000)])[:4096], "it ends too early"),
    ],
    ids=["way out", "cut off"],
)
def test_a_hostile_layer_stops_no_comparison(tmp_path: Path, top: bytes, why: str) -> None:
    realised(tmp_path, "good", layer_of([distribution("torch", "2.10.0")]))
    realised(tmp_path, "bad", top)
    before = {path for path in tmp_path.rglob("*") if "store" not in path.parts}

    outcome = dis(tmp_path, "diff", "good", "bad")

    assert outcome.err == ""
    text = " ".join(outcome.out.split())
    assert "Packages in the images: none differs, as far as they could be read" in text
    assert "layer 02 of B could not be read: " in text
    assert why in text
    assert {path for path in tmp_path.rglob("*") if "store" not in path.parts} == before
