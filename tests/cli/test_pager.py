"""Long output goes through a pager on a terminal, and nowhere else."""

import os
import pty
import subprocess
from pathlib import Path

import pytest

from command_line import Dis, Realised
from dis_command.pager import pager_command, pager_setting
from dis_command.settings import Settings

MARKING = "sed s/^/paged:/"


def on_terminal(python: str, *argv: str, **variables: str) -> tuple[int, str]:
    """Run the command with a terminal as stdout; return exit code and what the terminal got."""
    leader, follower = pty.openpty()
    kept = {**os.environ, "TERM": "xterm", **variables}
    process = subprocess.Popen(
        [python, "-m", "dis_command", *argv],
        stdout=follower,
        stderr=subprocess.STDOUT,
        stdin=subprocess.DEVNULL,
        env=kept,
    )
    os.close(follower)
    data = b""
    while chunk := _read(leader):
        data += chunk
    os.close(leader)
    return process.wait(), data.decode().replace("\r\n", "\n")


def _read(terminal: int) -> bytes:
    try:
        return os.read(terminal, 65536)
    except OSError:  # how Linux says that nobody has the other end any more
        return b""


@pytest.mark.parametrize(
    ("argv", "code"), [(["show", "first"], 0), (["diff", "first", "second"], 1), (["list"], 0)]
)
def test_long_output_is_paged_on_a_terminal(
    python: str, realised: Realised, argv: list[str], code: int
) -> None:
    del realised
    found, text = on_terminal(python, *argv, DIS_PAGER=MARKING, PAGER="false")
    assert found == code
    lines = text.splitlines()
    assert lines
    assert all(line.startswith("paged:") for line in lines)


@pytest.mark.parametrize(
    ("extra", "variables"),
    [
        (["--no-pager"], {"PAGER": MARKING}),
        ([], {"DIS_PAGER": "", "PAGER": MARKING}),
        ([], {"DIS_PAGER": "cat", "PAGER": MARKING}),
        ([], {"PAGER": "no-such-pager-at-all"}),
        ([], {"PAGER": MARKING, "TERM": "dumb"}),
        (["--json"], {"PAGER": MARKING}),
    ],
)
def test_a_pager_can_be_turned_off(
    python: str, realised: Realised, extra: list[str], variables: dict[str, str]
) -> None:
    del realised
    code, text = on_terminal(python, "show", "first", *extra, **variables)
    assert code == 0
    assert "user" in text
    assert "paged:" not in text


def test_a_pager_that_is_left_early_is_no_failure(python: str, realised: Realised) -> None:
    del realised
    code, text = on_terminal(python, "diff", "first", "second", DIS_PAGER="true")
    assert (code, text) == (1, "")


def test_nothing_is_paged_into_a_pipe(
    dis: Dis, realised: Realised, monkeypatch: pytest.MonkeyPatch
) -> None:
    del realised
    monkeypatch.setenv("DIS_PAGER", MARKING)
    assert dis("show", "first").out.startswith("[prompt-00000]")


def setting(environment: dict[str, str]) -> tuple[str, str]:
    found = pager_setting(environment, Settings(environment))
    return found.value, found.origin


def test_the_first_variable_that_is_set_names_the_pager() -> None:
    assert setting({}) == ("less -FRX", "default")
    assert setting({"PAGER": "more"}) == ("more", "PAGER")
    assert setting({"PAGER": "more", "DIS_PAGER": " "}) == ("", "DIS_PAGER")


def test_a_pager_with_an_open_quote_is_done_without(tmp_path: Path) -> None:
    for value in ("less '", str(tmp_path / "nothing")):
        environment = {"DIS_PAGER": value}
        assert pager_command(environment, Settings(environment)) == []
