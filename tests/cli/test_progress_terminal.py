"""Progress on a real terminal, from the outside: what is on the screen during the work, and after it."""

import os
import re
import signal
import subprocess
from collections.abc import Callable
from pathlib import Path

import pytest

from command_line import ROOT, SHORTER
from dis_command.stopping import MESSAGE
from pseudo_terminal import OnTerminal

Start = Callable[..., OnTerminal]
_CURSOR_UP = re.compile(r"\x1b\[\d+A")
_COLOR = re.compile(r"\x1b\[[0-9;]*m")
# The shipped manifest, which has a lock.
_CONFIG = ROOT / "configs/quickstart.json"
_LIMITS = ["--set", "inference.n_prompts=2", "--set", SHORTER]

# A build that goes on until a line comes on stdin, whatever is asked of it in between.
_LONG_BUILD = """
import sys
from dis_command import main
from dis_command.progress.live import LiveProgress
from dis_derivations.realisation.events import Event, Measure

main._StopSignals()
with LiveProgress(sys.stderr, verbose=False, color=False) as progress:
    progress(Event("note", "first", "a line that stays"))
    progress(Event("plan", "run", measures=(Measure("builds", 0, 2),)))
    progress(Event("start", "weights"))
    progress(Event("progress", "weights", "x" * 500))
    for line in sys.stdin:
        if line == "say\\n":
            print("said in", "between", file=sys.stderr)
        if line == "end\\n":
            break
        try:
            progress(Event("progress", "weights", line.strip()))
            if line == "interrupt\\n":
                signals = __import__("signal")
                signals.raise_signal(signals.SIGINT)
        except KeyboardInterrupt:
            pass
    progress(Event("done", "weights", seconds=1.0))
print("error: the end", file=sys.stderr)
"""


@pytest.fixture
def start(python: str) -> Start:
    """Return a function that starts Python on a terminal."""

    def begin(*argv: str | Path, columns: int = 80, **environment: str) -> OnTerminal:
        surroundings = {**os.environ, "TERM": "xterm", "PYTHONUTF8": "1", **environment}
        return OnTerminal([python, *map(str, argv)], surroundings, columns=columns)

    return begin


def tell(running: OnTerminal, line: str) -> None:
    assert running.process.stdin is not None
    running.process.stdin.write(f"{line}\n".encode())
    running.process.stdin.flush()


@pytest.mark.parametrize("columns", [200, 80, 20])
def test_a_realisation_leaves_a_clean_screen_with_what_was_built(
    start: Start, columns: int
) -> None:
    argv = ["-m", "dis_command", "realize", _CONFIG, *_LIMITS]
    with start(*argv, columns=columns) as running:
        code, out = running.finish()
        screen = running.screen
    assert code == 0
    assert Path(out.strip()).is_dir()
    assert out.count("\n") == 1
    assert "/9 builds" in running.written
    built = "".join(screen.lines())
    assert built.count("built in") == 9
    assert "builds" not in built
    assert screen.cursor[1] == 0
    assert "?25" not in running.written


def test_a_realisation_with_nothing_to_do_writes_nothing(start: Start) -> None:
    argv = ["-m", "dis_command", "realize", _CONFIG, *_LIMITS]
    with start(*argv, "--quiet") as running:
        assert running.finish()[0] == 0
    with start(*argv) as running:
        assert running.finish()[0] == 0
    assert not running.written


@pytest.mark.parametrize(
    "variables", [{"TERM": "dumb"}, {"DIS_PROGRESS": "plain"}, {"DIS_PROGRESS": "json"}]
)
def test_a_terminal_that_cannot_or_shall_not_be_steered_is_not(
    start: Start, variables: dict[str, str]
) -> None:
    argv = ["-m", "dis_command", "realize", f"{_CONFIG}#weights"]
    with start(*argv, **variables) as running:
        assert running.finish()[0] == 0
    assert "quickstart-weights" in running.written
    assert "\x1b" not in running.written


def test_without_colour_the_frame_is_still_painted(start: Start) -> None:
    argv = ["-m", "dis_command", "realize", _CONFIG, *_LIMITS]
    with start(*argv, NO_COLOR="1") as running:
        assert running.finish()[0] == 0
    assert _CURSOR_UP.search(running.written)
    assert not _COLOR.search(running.written)


def test_progress_can_be_forced_into_a_pipe(python: str) -> None:
    argv = ["-m", "dis_command", "--progress", "tty", "realize", str(_CONFIG), *_LIMITS]
    done = subprocess.run([python, *argv], capture_output=True, text=True, check=True)
    assert _CURSOR_UP.search(done.stderr)


def test_other_words_on_stderr_do_not_run_into_the_frame(start: Start) -> None:
    with start("-c", _LONG_BUILD) as running:
        running.read_until(lambda seen: "0/2 builds" in seen)
        tell(running, "say")
        running.read_until(lambda seen: "said in between" in seen)
        tell(running, "end")
        assert running.finish() == (0, "")
        assert running.screen.lines() == [
            "note: first: a line that stays",
            "said in between",
            "weights: built in 1.0 s",
            "error: the end",
        ]


def test_ctrl_c_is_heard_at_once(start: Start) -> None:
    with start("-c", _LONG_BUILD) as running:
        running.read_until(lambda seen: "weights" in seen)
        tell(running, "interrupt")
        running.read_until(lambda seen: MESSAGE in seen)
        assert running.process.poll() is None
        tell(running, "end")
        assert running.finish() == (0, "")
        assert running.screen.lines() == [
            "note: first: a line that stays",
            "weights: built in 1.0 s",
            "error: the end",
        ]


def test_a_second_ctrl_c_leaves_a_cursor_at_the_beginning_of_a_line(start: Start) -> None:
    with start("-c", _LONG_BUILD) as running:
        running.read_until(lambda seen: "weights" in seen)
        tell(running, "interrupt")
        running.read_until(lambda seen: MESSAGE in seen)
        running.process.send_signal(signal.SIGINT)
        assert running.finish() == (130, "")
        assert running.written.endswith(("\n", "\x1b[J"))
        assert running.screen.cursor[1] == 0


def test_a_terminal_that_becomes_narrower_is_written_within_its_new_width(start: Start) -> None:
    with start("-c", _LONG_BUILD) as running:
        before = running.read_until(lambda seen: "x" * 40 in seen)
        running.resize(30)
        running.read_until(lambda seen: seen.count("0/2 builds") > before.count("0/2 builds") + 2)
        tell(running, "end")
        assert running.finish() == (0, "")
    *_, last = running.written.split("0/2 builds")
    assert max(map(len, last.splitlines())) < 60  # with the sequences for the cursor


def test_a_terminal_that_goes_away_does_not_end_the_work(start: Start) -> None:
    with start("-c", f"{_LONG_BUILD}\nprint('done')") as running:
        running.read_until(lambda seen: "weights" in seen)
        running.hang_up()
        tell(running, "say")
        tell(running, "end")
        out, _ = running.process.communicate(timeout=60)
        assert (running.process.returncode, out) == (0, b"done\n")


@pytest.mark.parametrize("mode", ["plain", "tty", "json"])
@pytest.mark.parametrize("sink", ["2>/dev/full", "2>&-", "2> >(true)"])
def test_progress_that_nobody_can_read_does_not_end_the_work(
    python: str, mode: str, sink: str
) -> None:
    line = f"'{python}' -m dis_command realize '{_CONFIG}#weights' --progress {mode} {sink}"
    done = subprocess.run(
        ["bash", "-c", f"set -o pipefail; {line}"],
        stdout=subprocess.PIPE,
        check=False,
        cwd=ROOT,
    )
    assert done.returncode == 0
    assert Path(done.stdout.decode().strip()).is_dir()
