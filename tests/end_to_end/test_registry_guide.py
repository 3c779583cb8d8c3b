"""The guide to registries is true: its transcripts are what the commands print, with a real registry."""

import importlib.util
from pathlib import Path
from types import ModuleType

import pytest

from real_registry import need, running_registry

ROOT = Path(__file__).parents[2]
GUIDE = ROOT / "docs" / "guides" / "registries.md"
WRITTEN = "localhost:5000"


@pytest.fixture
def transcript() -> ModuleType:
    spec = importlib.util.spec_from_file_location("transcript", ROOT / "docs" / "transcript.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


@pytest.mark.slow
def test_the_transcripts_of_the_guide_are_what_the_commands_print(
    transcript: ModuleType, tmp_path: Path
) -> None:
    need("skopeo")
    text = GUIDE.read_text("utf-8")
    with running_registry(tmp_path / "registry") as registry:
        replayed = transcript.replay(text.replace(WRITTEN, registry.host))

    assert replayed.replace(registry.host, WRITTEN) == text
