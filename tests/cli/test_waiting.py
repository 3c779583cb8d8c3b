"""A command that waits for the store says for whom, and gives up when it is told to."""

import os
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from command_line import Dis

_HOLD = """
import sys
from pathlib import Path
from dis_store import Store
with Store.open(Path(sys.argv[1])) as store, store._foundation.locks.collecting():
    print("held", flush=True)
    sys.stdin.read()
"""


@contextmanager
def held(python: str, store: Path) -> Iterator["subprocess.Popen[str]"]:
    """Hold the store's lock in another process until its stdin is closed."""
    with subprocess.Popen(
        [python, "-c", _HOLD, str(store)],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    ) as process:
        assert process.stdout is not None
        assert process.stdout.readline() == "held\n"
        yield process
        process.communicate()


@pytest.fixture
def store(dis: Dis, tmp_path: Path) -> Path:
    (tmp_path / "file").write_text("1", encoding="utf-8")
    assert dis("store", "add", tmp_path / "file", "--name", "mine").code == 0
    return tmp_path / "empty-store"


@pytest.mark.parametrize("way", ["option", "variable", "file"])
def test_a_command_gives_up_when_its_time_is_over(
    dis: Dis, python: str, store: Path, way: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    if way == "variable":
        monkeypatch.setenv("DIS_WAIT", "0.1")
    if way == "file":
        Path("dis.toml").write_text("wait = 0.1\n", encoding="utf-8")
    option = ("--wait", "0.1") if way == "option" else ()
    with held(python, store) as process:
        outcome = dis("gc", *option)
        assert outcome.code == 3
        outcome.check_one_block()
        assert f"process {process.pid} on" in outcome.err
        assert "dis help E0301" in outcome.err
        assert "lock file" not in outcome.err
    assert dis("gc", *option).code == 0


@pytest.mark.parametrize("mode", ["plain", "json"])
def test_a_command_that_waits_says_for_whom(python: str, store: Path, mode: str) -> None:
    with held(python, store) as holder:
        argv = [python, "-m", "dis_command", "root", "add", "again", "mine", "--progress", mode]
        with subprocess.Popen(
            argv, stderr=subprocess.PIPE, stdout=subprocess.DEVNULL, text=True, env=dict(os.environ)
        ) as process:
            assert process.stderr is not None
            said = process.stderr.readline()
            assert "waiting for the store: " in said
            assert f"process {holder.pid} on" in said
            assert said.startswith("{") == (mode == "json")
            holder.communicate()
            assert process.wait(60) == 0


@pytest.mark.parametrize("value", ["soon", "-1", "", "inf", "1e3"])
def test_a_time_that_is_none_is_refused(dis: Dis, value: str) -> None:
    outcome = dis("list", f"--wait={value}")
    outcome.check_one_block()
    assert outcome.code == 2
    assert "a number of seconds, or forever" in outcome.err
