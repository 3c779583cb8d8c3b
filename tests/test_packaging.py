"""What the repository and its wheel hold."""

import subprocess
import sys
import zipfile
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
ROOMS = {"store": "dis_store", "derivations": "dis_derivations", "cli": "dis_command"}
MODULES = sorted(path for room in ROOMS for path in (ROOT / room).rglob("*.py"))


@pytest.mark.parametrize("room", ROOMS)
def test_a_room_holds_one_package_and_no_loose_module(room: str) -> None:
    assert not list((ROOT / room).glob("*.py"))
    assert [path.name for path in (ROOT / room).iterdir() if path.name != "__pycache__"] == [
        ROOMS[room]
    ]


def test_no_module_is_a_drawer_for_odds_and_ends() -> None:
    drawers = {"utils", "helpers", "common", "misc", "util", "helper"}
    assert not [path for path in MODULES if path.stem in drawers or path.parent.name in drawers]


def test_modules_stay_short_enough_to_read() -> None:
    lengths = {path: len(path.read_text("utf-8").splitlines()) for path in MODULES}
    assert {
        path.relative_to(ROOT): length for path, length in lengths.items() if length > 450
    } == {}


def test_every_module_says_what_it_owns() -> None:
    undocumented = [
        path.relative_to(ROOT)
        for path in MODULES
        if not path.read_text("utf-8").lstrip().startswith('"""')
    ]
    assert undocumented == []


def test_the_wheel_holds_the_modules_of_the_checkout_and_nothing_else(tmp_path: Path) -> None:
    subprocess.run(
        [sys.executable, "-m", "hatchling", "build", "-t", "wheel", "-d", str(tmp_path)],
        cwd=ROOT,
        check=True,
        capture_output=True,
    )
    (wheel,) = tmp_path.glob("*.whl")
    names = zipfile.ZipFile(wheel).namelist()
    built = sorted(name for name in names if name.endswith(".py"))
    assert built == sorted(
        path.relative_to(ROOT / room).as_posix()
        for room in ROOMS
        for path in (ROOT / room).rglob("*.py")
    )
    top_level = {name.split("/")[0] for name in names}
    others = {name for name in top_level if not name.endswith((".dist-info", ".data"))}
    assert others == set(ROOMS.values())
    # Beside the packages there are the manual pages, and nothing else.
    data = {name.partition(".data/")[2] for name in names if ".data/" in name}
    assert data == {f"data/share/man/man1/{name}" for name in _manual_pages(tmp_path)}


def _manual_pages(directory: Path) -> set[str]:
    argv = [sys.executable, "-m", "dis_command.manual", str(directory)]
    written = subprocess.run(argv, check=True, capture_output=True, text=True).stdout
    return {Path(line).name for line in written.splitlines()}
