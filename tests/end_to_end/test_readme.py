"""The README is true: its transcript is what the commands print, and the files it names are there."""

import importlib.util
import re
from pathlib import Path
from types import ModuleType

import pytest

ROOT = Path(__file__).parents[2]
DOCUMENTS = sorted([*ROOT.glob("*.md"), *(ROOT / "docs").rglob("*.md")])


def transcript() -> ModuleType:
    spec = importlib.util.spec_from_file_location("transcript", ROOT / "docs/transcript.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


@pytest.mark.slow
def test_the_transcript_in_the_readme_is_what_the_commands_print() -> None:
    tool = transcript()
    written = (ROOT / "README.md").read_text("utf-8")
    # Builds that run side by side may begin and end in any order, so lines are compared as a collection.
    found, stated = (
        sorted(tool.without_times(text).splitlines()) for text in (tool.replay(written), written)
    )
    assert found == stated


def test_the_stated_bundle_digest_stands_in_the_transcript_too() -> None:
    text = (ROOT / "README.md").read_text("utf-8")
    (stated,) = re.findall(r"`([0-9a-f]{64})`", text)
    assert f"/objects/{stated[:2]}/{stated}\n" in text


@pytest.mark.parametrize("document", DOCUMENTS, ids=lambda path: str(path.relative_to(ROOT)))
def test_links_between_documents_lead_somewhere(document: Path) -> None:
    targets = re.findall(r"\]\((?!https?:)([^)#\s]+)(?:#[^)\s]*)?\)", document.read_text("utf-8"))
    assert [target for target in targets if not (document.parent / target).exists()] == []
