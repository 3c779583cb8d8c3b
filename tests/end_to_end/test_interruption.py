"""Ctrl-C and kill at any point of a realisation: nothing is lost, and the next call goes on."""

import contextlib
import json
import shutil
import signal
import sqlite3
import subprocess
import time
from pathlib import Path
from typing import Any

import pytest

from tiny_runs import write_manifest

BIG = 2 << 30
ROOT = Path(__file__).parents[2]
QUICKSTART = ROOT / "configs/quickstart.json"


def begun(dis: Any) -> "subprocess.Popen[str]":
    """Start a realisation, and return when it has begun to make the store: before, Python itself is starting."""
    process: subprocess.Popen[str] = dis.start("realize", QUICKSTART)
    while not dis.store.exists() and process.poll() is None:
        time.sleep(0.005)
    return process


def settled(dis: Any) -> None:
    """Assert that the store is whole and the run can be finished."""
    dis("realize", QUICKSTART)
    dis("store", "verify", "--all")
    assert not list((dis.store / "tmp").iterdir())


@pytest.mark.slow
@pytest.mark.parametrize("delay", [0.0, 0.02, 0.1, 0.2, 0.35, 0.5, 0.8, 1.2, 2.0])
def test_ctrl_c_ends_with_one_line_and_the_next_call_goes_on(dis: Any, delay: float) -> None:
    process = begun(dis)
    time.sleep(delay)
    process.send_signal(signal.SIGINT)
    _, stderr = process.communicate(timeout=60)
    # Python ends itself by the signal, which a shell shows as 130 too, when it struck inside a dataclass's `exec`.
    assert process.returncode in {0, 130, -signal.SIGINT}, stderr
    assert "Traceback" not in stderr
    settled(dis)


@pytest.mark.parametrize("command", ["lock", "realize"])
def test_ctrl_c_in_the_middle_of_one_big_file_ends_at_once(
    dis: Any, tmp_path: Path, command: str
) -> None:
    config = write_manifest(tmp_path)
    if shutil.disk_usage(tmp_path).free < 2 * BIG:
        pytest.skip("this disk has no room for a big file")
    header = json.dumps({"x": {"dtype": "U8", "shape": [BIG], "data_offsets": [0, BIG]}}).encode()
    with (tmp_path / "model" / "model.safetensors").open("wb") as file:
        file.write(len(header).to_bytes(8, "little") + header)
        file.truncate(8 + len(header) + BIG)
    process: subprocess.Popen[str] = dis.start(command, config)
    while largest(dis.store / "tmp") < 16 << 20 and process.poll() is None:
        time.sleep(0.005)
    assert process.poll() is None
    process.send_signal(signal.SIGINT)
    _, stderr = process.communicate(timeout=60)
    assert process.returncode == 130, stderr
    assert "Traceback" not in stderr
    # Far from its end: what was left of the file was not read first.
    assert largest(dis.store / "objects") < 1 << 20
    assert not list((dis.store / "tmp").iterdir())


def largest(room: Path) -> int:
    """Return the size of the largest file in a directory that somebody writes to."""
    sizes = [0]
    for path in room.rglob("*"):
        with contextlib.suppress(FileNotFoundError):
            sizes.append(path.lstat().st_size)
    return max(sizes)


@pytest.mark.slow
@pytest.mark.parametrize("delay", [0.0, 0.05, 0.2, 0.4, 0.7, 1.0, 1.5])
def test_a_kill_leaves_at_most_an_orphan_that_the_next_start_removes(
    dis: Any, delay: float
) -> None:
    process = begun(dis)
    time.sleep(delay)
    process.kill()
    process.communicate(timeout=60)
    settled(dis)


@pytest.mark.slow
def test_several_realisations_at_once_build_each_thing_once(dis: Any) -> None:
    processes: list[subprocess.Popen[str]] = [dis.start("realize", QUICKSTART) for _ in range(4)]
    answers = [process.communicate(timeout=240) for process in processes]
    assert [process.returncode for process in processes] == [0] * 4, answers
    assert len({stdout for stdout, _ in answers}) == 1
    keys = [path.name for path in (dis.store / "realisations").glob("*/*")]
    builds = list((dis.store / "realisations").rglob("*.json"))
    assert len(builds) == len(keys)
    dis("store", "verify", "--all")
    with sqlite3.connect(f"file:{dis.store / 'index.sqlite'}?mode=ro", uri=True) as index:
        assert index.execute("pragma integrity_check").fetchone() == ("ok",)
