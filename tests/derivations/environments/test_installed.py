"""The identity of an environment that is not in the store, or why it has none."""

import json
import os
import subprocess
import sys
import venv
from collections.abc import Callable
from pathlib import Path

import pytest

from dis_derivations.environments.installed import installed_environment
from dis_derivations.environments.site_packages import read_site_packages
from package_wheels import write_package
from wheels import index_settings

Unpack = Callable[..., Path]
FILES = {"one/__init__.py": b"", "one/data.bin": bytes(range(256)), "top.py": b"x = 1\n"}


def install(directory: Path, *wheels: Path, options: tuple[str, ...] = ()) -> Path:
    """Have pip install wheels into a directory of packages."""
    top = directory / "site-packages"
    subprocess.run(
        [sys.executable, "-m", "pip", "install", "--quiet", "--no-deps", "--target", str(top),
         "--disable-pip-version-check", *options, *map(str, wheels)],
        check=True,
        env={**os.environ, **index_settings(directory)},
    )  # fmt: skip
    return top


@pytest.fixture
def wheel(tmp_path: Path) -> Path:
    return write_package(tmp_path / "index", "one", files=FILES)


def test_what_pip_installed_and_what_dis_unpacked_are_the_same(
    unpack: Unpack, tmp_path: Path, wheel: Path
) -> None:
    found = read_site_packages([install(tmp_path / "installed", wheel)])
    assert found.faults == ()
    assert found.digest == read_site_packages([unpack(wheel) / "site-packages"]).digest
    (package,) = found.packages
    assert (package.name, package.version, package.files) == ("one", "1.0", len(FILES) + 2)


def test_bytecode_changes_no_digest_and_every_other_byte_does(tmp_path: Path, wheel: Path) -> None:
    top = install(tmp_path / "a", wheel)
    before = read_site_packages([top])
    subprocess.run([sys.executable, "-m", "compileall", "-q", str(top)], check=True)
    assert read_site_packages([top]) == before
    other = write_package(tmp_path / "other", "one", files={**FILES, "top.py": b"x = 2\n"})
    assert read_site_packages([install(tmp_path / "b", other)]).digest != before.digest


@pytest.mark.parametrize(
    ("spoil", "said"),
    [
        (lambda top: (top / "top.py").write_bytes(b"x = 2\n"), "top.py was changed: its sha256 is"),
        (
            lambda top: (top / "top.py").write_bytes(b"x = 22\n"),
            "it has 7 bytes, and RECORD says 6",
        ),
        (lambda top: (top / "one/data.bin").unlink(), "data.bin cannot be read"),
        (lambda top: (top / "one/more.py").write_bytes(b""), "one/more.py is in no RECORD"),
        (lambda top: (top / "more.pth").write_bytes(b""), "more.pth is in no RECORD"),
        (lambda top: (top / "link").symlink_to(top / "one"), "link is in no RECORD"),
        (lambda top: (top / "old.egg-info").write_bytes(b""), "installed without RECORD"),
        (lambda top: (top / "one-1.0.dist-info/RECORD").unlink(), "without a readable RECORD"),
        (
            lambda top: (top / "one-1.0.dist-info/METADATA").write_bytes(b"x"),
            "without a readable RECORD",
        ),
        (
            lambda top: (top / "one-1.0.dist-info/direct_url.json").write_text(
                json.dumps({"url": "file:///x", "dir_info": {"editable": True}})
            ),
            "one 1.0 is an editable install",
        ),
    ],
)
def test_what_is_not_as_it_was_installed_is_named_and_there_is_no_digest(
    unpack: Unpack, tmp_path: Path, wheel: Path, spoil: Callable[[Path], object], said: str
) -> None:
    top = install(tmp_path / "installed", wheel)
    spoil(top)
    found = read_site_packages([top])
    assert found.digest is None
    assert any(said in fault for fault in found.faults), found.faults


def test_a_package_that_claims_a_file_without_its_hash_cannot_be_pinned(tmp_path: Path) -> None:
    top = tmp_path / "site-packages"
    info = top / "one-1.0.dist-info"
    info.mkdir(parents=True)
    (info / "METADATA").write_text("Name: one\nVersion: 1.0\n")
    (info / "RECORD").write_text(
        "one.py,,\none-1.0.dist-info/RECORD,,\none-1.0.dist-info/METADATA,,\n"
    )
    (top / "one.py").write_bytes(b"")
    assert any("no strong hash" in fault for fault in read_site_packages([top]).faults)


def test_a_virtual_environment_is_known_by_its_python(tmp_path: Path) -> None:
    script = {"one-1.0.data/scripts/run": b"#!python\n"}
    wheel = write_package(tmp_path / "index", "one", files={**FILES, **script})
    venv.create(tmp_path / "venv", symlinks=True, with_pip=False)
    python = tmp_path / "venv/bin/python"
    empty = installed_environment(python)
    assert (empty.faults, empty.packages) == ((), ())
    (top,) = (tmp_path / "venv/lib").glob("*/site-packages")
    subprocess.run(
        [sys.executable, "-m", "pip", "--python", str(python), "install", "--quiet", "--no-deps", str(wheel)],
        check=True,
        env={**os.environ, **index_settings(tmp_path)},
    )  # fmt: skip
    assert (tmp_path / "venv/bin/run").is_file()
    found = installed_environment(python)
    assert found.faults == ()
    assert [each.name for each in found.packages] == ["one"]
    assert found.digest not in {None, empty.digest}
    (tmp_path / "elsewhere").mkdir()
    (top / "more.pth").write_text(f"{tmp_path / 'elsewhere'}\n")
    faults = installed_environment(python).faults
    assert any("elsewhere is imported from" in fault for fault in faults)
