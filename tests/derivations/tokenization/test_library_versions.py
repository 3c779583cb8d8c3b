import sys
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path

import pytest

from dis_derivations.tokenization.library_versions import library_versions


def test_they_are_the_installed_versions() -> None:
    installed = {name: version(name) for name in ("jinja2", "tokenizers")}
    assert library_versions() == installed


def test_the_first_on_the_path_counts(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "Jinja2-9.9.dist-info").mkdir()
    monkeypatch.setattr(sys, "path", ["/nowhere", str(tmp_path), *sys.path])
    assert library_versions()["jinja2"] == "9.9"
    assert library_versions()["tokenizers"] == version("tokenizers")


def test_a_library_that_is_there_twice_is_asked_for_properly(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in ("jinja2-1.dist-info", "jinja2-2.dist-info"):
        (tmp_path / name).mkdir()
        (tmp_path / name / "METADATA").write_text(f"Name: jinja2\nVersion: {name[7]}\n")
    monkeypatch.setattr(sys, "path", [str(tmp_path), *sys.path])
    assert library_versions()["jinja2"] == version("jinja2")


def test_a_missing_library_is_an_error(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "path", [str(tmp_path)])
    with pytest.raises(PackageNotFoundError):
        library_versions()
