"""Wheels and source distributions of packages that there are not, in a directory that pip takes for an index."""

import io
import tarfile
import zipfile
from collections.abc import Mapping
from pathlib import Path

import pytest

PACKAGE, VERSION = "dis-test-model", "1.2.0"
STEM = "dis_test_model"


def wheel_name(version: str = VERSION, tag: str = "py3-none-any", stem: str = STEM) -> str:
    """Return the file name of a wheel."""
    return f"{stem}-{version}-{tag}.whl"


def write_wheel(
    index: Path,
    files: Mapping[str, bytes],
    *,
    version: str = VERSION,
    tag: str = "py3-none-any",
    more: list[tuple[zipfile.ZipInfo, bytes]] | None = None,
) -> Path:
    """Write a wheel that pip accepts.

    Args:
        index: A directory.
        files: The members beside those that every wheel has.
        version: Of the package.
        tag: What it is for.
        more: Members that are added as they are.
    """
    index.mkdir(parents=True, exist_ok=True)
    path = index / wheel_name(version, tag)
    info = f"{STEM}-{version}.dist-info"
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as archive:
        for name, data in files.items():
            archive.writestr(name, data)
        for member, data in more or []:
            archive.writestr(member, data)
        archive.writestr(
            f"{info}/METADATA", f"Metadata-Version: 2.1\nName: {PACKAGE}\nVersion: {version}\n"
        )
        archive.writestr(
            f"{info}/WHEEL", f"Wheel-Version: 1.0\nRoot-Is-Purelib: true\nTag: {tag}\n"
        )
        archive.writestr(f"{info}/RECORD", "")
    return path


def write_sdist(index: Path, setup: str, version: str = VERSION) -> Path:
    """Write a source distribution whose `setup.py` is the given program."""
    index.mkdir(parents=True, exist_ok=True)
    path = index / f"{PACKAGE}-{version}.tar.gz"
    files = {
        "setup.py": setup,
        "PKG-INFO": f"Metadata-Version: 2.1\nName: {PACKAGE}\nVersion: {version}\n",
    }
    with tarfile.open(path, "w:gz") as archive:
        for name, text in files.items():
            member = tarfile.TarInfo(f"{PACKAGE}-{version}/{name}")
            member.size = len(text)
            archive.addfile(member, io.BytesIO(text.encode()))
    return path


def index_settings(index: Path) -> dict[str, str]:
    """Return the environment in which pip knows that directory alone."""
    return {
        "PIP_CONFIG_FILE": "/dev/null",
        "PIP_NO_INDEX": "1",
        "PIP_FIND_LINKS": str(index),
        "PIP_CONSTRAINT": "",
    }


def use_index(monkeypatch: pytest.MonkeyPatch, index: Path) -> None:
    """Let pip know a directory, and nothing else, while a test runs."""
    for name, value in index_settings(index).items():
        monkeypatch.setenv(name, value)
    for name in ("PIP_INDEX_URL", "PIP_EXTRA_INDEX_URL", "PIP_NO_BINARY", "PIP_ONLY_BINARY"):
        monkeypatch.delenv(name, raising=False)
