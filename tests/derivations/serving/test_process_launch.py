"""A server runs nothing before somebody has written down what process it is."""

import os
import time
from pathlib import Path

import pytest

from dis_derivations.serving.process_launch import ProcessLaunch, start_process
from dis_derivations.serving.processes import ProcessIdentity, identify, is_running


def launch(place: Path) -> ProcessLaunch:
    return ProcessLaunch(
        ["/bin/sh", "-c", "echo $WORD in $PWD; read -r line || echo nothing to read"],
        {"WORD": "a word"},
        place,
        place / "log",
    )


def ended(process: ProcessIdentity) -> bool:
    end = time.monotonic() + 30
    while is_running(process) and time.monotonic() < end:
        time.sleep(0.01)
    return not is_running(process)


def test_it_is_known_before_it_runs_and_stays_the_same_process(tmp_path: Path) -> None:
    known: list[ProcessIdentity] = []

    def note(process: ProcessIdentity) -> None:
        assert identify(process.pid) == process
        assert os.getsid(process.pid) == process.pid
        assert (tmp_path / "log").read_text("utf-8") == ""
        known.append(process)

    start_process(launch(tmp_path), note)
    assert ended(known[0])
    said = (tmp_path / "log").read_text("utf-8")
    assert said == f"a word in {tmp_path}\nnothing to read\n"
    assert (tmp_path / "log").stat().st_mode & 0o077 == 0


def test_one_that_cannot_be_written_down_never_runs(tmp_path: Path) -> None:
    known: list[ProcessIdentity] = []

    def note(process: ProcessIdentity) -> None:
        known.append(process)
        raise OSError("the disk is full")

    with pytest.raises(OSError, match="the disk is full"):
        start_process(launch(tmp_path), note)
    assert ended(known[0])
    assert (tmp_path / "log").read_text("utf-8") == ""
