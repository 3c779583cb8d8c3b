"""The guides are true: their transcripts are what the commands print."""

import importlib.util
import re
from pathlib import Path
from types import ModuleType

import pytest

from command_line import ROOT
from served_models import serving

# That one needs a registry: tests/end_to_end/test_registry_guide.py.
ELSEWHERE = {"registries.md"}
GUIDES = [
    ROOT / "docs" / "tutorial.md",
    *(
        each
        for each in sorted((ROOT / "docs" / "guides").glob("*.md"))
        if each.name not in ELSEWHERE
    ),
]
# A new manifest says when it was made, so that its run has another name every time.
_OF_A_NEW_MANIFEST = re.compile(r"objects/[0-9a-f]{2}/[0-9a-f]{64}")


def transcript() -> ModuleType:
    spec = importlib.util.spec_from_file_location("transcript", ROOT / "docs" / "transcript.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def without_names(text: str) -> str:
    return _OF_A_NEW_MANIFEST.sub("objects/…", text) if "dis init" in text else text


@pytest.mark.slow
@pytest.mark.parametrize("guide", GUIDES, ids=lambda path: path.name)
def test_the_transcripts_of_a_guide_are_what_the_commands_print(
    guide: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    written = guide.read_text("utf-8")
    with serving(tmp_path / "hf", monkeypatch):
        found = without_names(transcript().replay(written))
    assert found.splitlines() == without_names(written).splitlines()


def test_the_guides_for_beginners_have_transcripts() -> None:
    for name in ("tutorial", "guides/first-run", "guides/your-own-model", "guides/a-shared-store"):
        text = (ROOT / "docs" / f"{name}.md").read_text("utf-8")
        assert text.count("```console\n") >= 5
