"""Ctrl-C and SIGTERM: the work stops, what is finished stays, and the same command goes on."""

import json
import signal
import subprocess
from pathlib import Path

import pytest

from command_line import Dis


def started_generation(python: str, config: Path) -> subprocess.Popen[str]:
    """Start a realisation, and return it when its generation has begun."""
    process = subprocess.Popen(
        [python, "-m", "dis_command", "realize", str(config)],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )
    assert process.stderr is not None
    for line in process.stderr:
        if line.startswith("quickstart-generation: building"):
            return process
    raise AssertionError(process.wait())


@pytest.mark.parametrize(("number", "code"), [(signal.SIGINT, 130), (signal.SIGTERM, 143)])
def test_an_interrupted_realisation_says_so_and_can_go_on(
    dis: Dis, python: str, quickstart: Path, number: signal.Signals, code: int
) -> None:
    with started_generation(python, quickstart) as process:
        process.send_signal(number)
        out, err = process.communicate()
    assert (process.returncode, out) == (code, "")
    assert "stopping; press Ctrl-C again to stop at once\n" in err
    assert "error: interrupted\n" in err
    assert "Traceback" not in err
    again = dis("realize", quickstart, "--dry-run", "--json").document
    assert [build["builder"] for build in again["builds"]] == ["generation", "run"]


def test_a_second_ctrl_c_ends_the_process_at_once_and_leaves_a_whole_store(
    dis: Dis, python: str, quickstart: Path
) -> None:
    with started_generation(python, quickstart) as process:
        assert process.stderr is not None
        process.send_signal(signal.SIGINT)
        for line in process.stderr:
            if line.startswith("stopping"):
                break
        process.send_signal(signal.SIGINT)
        process.communicate()
    assert process.returncode == 130
    assert dis("store", "verify", "--all").code == 0


@pytest.mark.parametrize("adopt", [False, True])
def test_an_addition_stops_in_the_middle_of_a_large_file(
    dis: Dis, python: str, tmp_path: Path, adopt: bool
) -> None:
    """The threads that read files get no signal."""
    model = tmp_path / "model"
    model.mkdir()
    size = 1 << 30
    with (model / "weights").open("wb") as stream:
        stream.truncate(size)
    process = subprocess.Popen(
        [python, "-m", "dis_command", "store", "add", str(model), "--progress", "json"]
        + ["--adopt"] * adopt,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )
    assert process.stderr is not None
    measured = (json.loads(line)["measures"] for line in process.stderr)
    begun = next(each[0]["done"] for each in measured if each and each[0]["unit"] == "bytes")
    process.send_signal(signal.SIGINT)
    done = [each[0]["done"] for each in measured if each]
    process.communicate()
    assert process.returncode == 130
    assert begun < size
    assert max(done, default=0) < size
    assert (model / "weights").stat().st_size == size
    assert (model / "weights").stat().st_mode & 0o200
    assert dis("store", "verify", "--all").code == 0
    assert not list((tmp_path / "empty-store" / "tmp").iterdir())
