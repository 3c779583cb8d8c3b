"""Readers that go away, streams that are closed or full, other encodings, and a working directory that is gone."""

import json
import os
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from users import User, check_clear

DIS = f"'{sys.executable}' -m dis_command"
Shell = Callable[..., "subprocess.CompletedProcess[bytes]"]


@pytest.fixture
def shell(user: User, tmp_path: Path) -> Iterator[Shell]:
    """Return a function that runs a line of shell, in which `dis` is the command."""
    user.does("realize", "tiny.json", "--name", "first")
    home = {"HOME": str(tmp_path), "DIS_STORE": str(user.store), "PATH": os.environ["PATH"]}
    kept = {name: value for name, value in os.environ.items() if name.startswith("COVERAGE")}

    def run(line: str, **variables: str) -> "subprocess.CompletedProcess[bytes]":
        return subprocess.run(
            ["bash", "-c", f'dis() {{ {DIS} "$@"; }}; {line}'],
            env={**kept, **home, "LANG": "C.UTF-8", **variables},
            capture_output=True,
            check=False,
            timeout=60,
        )

    yield run
    user.does("store", "verify", "--all")


@pytest.mark.parametrize("command", ["list", "show first", "inspect tiny.json --json", "log first"])
def test_a_reader_that_goes_away_is_no_error(shell: Shell, command: str) -> None:
    done = shell(f"dis {command} | head -0; exit ${{PIPESTATUS[0]}}")
    assert (done.returncode, done.stderr) == (141, b"")


@pytest.mark.parametrize("closed", [">&-", "<&- >&-", "<&- >&- 2>&-", "2>&-"])
def test_closed_streams_change_nothing_but_what_is_seen(shell: Shell, closed: str) -> None:
    options = f"--set metadata.description='{closed}'"
    done = shell(f"dis realize tiny.json -q {options} {closed}")
    assert (done.returncode, done.stderr) == (0, b"")
    assert shell(f"dis list {closed}").returncode == 0
    assert shell(f"dis --version {closed}").returncode == 0
    assert shell(f"dis realize gone.json {closed}").returncode == 2
    again = shell(f"dis realize tiny.json --json {options}")
    assert json.loads(again.stdout)["cached"] is True


def test_a_full_disk_under_stdout_is_said(shell: Shell) -> None:
    for command in ("list", "show first", "--help"):
        done = shell(f"dis {command} > /dev/full")
        assert done.returncode == 5
        check_clear(done.stderr.decode())


def test_a_full_disk_under_stderr_leaves_the_exit_code(shell: Shell) -> None:
    assert shell("dis realize gone.json 2> /dev/full").returncode == 2


LOCALES: dict[str, dict[str, str]] = {
    "C": {"LANG": "C", "LC_ALL": "C", "PYTHONUTF8": "0", "PYTHONCOERCECLOCALE": "0"},
    "POSIX": {"LC_ALL": "POSIX", "PYTHONUTF8": "0", "PYTHONCOERCECLOCALE": "0"},
    "unknown": {"LC_ALL": "xx_YY.UTF-8"},
    "ASCII": {"PYTHONIOENCODING": "ascii"},
    "none": {"LANG": ""},
}


@pytest.mark.parametrize("locale", LOCALES)
def test_another_locale_changes_no_bit_and_fails_at_no_character(
    shell: Shell, user: User, locale: str
) -> None:
    user.edit({"metadata.description": "naïve ✓ \U0001f701", "metadata.name": "té"})
    variables = LOCALES[locale]
    usual = shell("dis realize tiny.json --json").stdout
    there = shell("dis realize tiny.json --json", **variables)
    assert there.returncode == 0, there.stderr
    assert json.loads(there.stdout)["outputs"] == json.loads(usual)["outputs"]
    for command in ("show first", "list", "inspect tiny.json", "log first", "root list"):
        done = shell(f"dis {command}", **variables)
        assert done.returncode == 0, done.stderr
        assert b"error" not in done.stderr
    refused = shell("dis realize 'gone-é.json'", **variables)
    assert refused.returncode == 2
    # The shell may say that it does not know the locale.
    check_clear(refused.stderr[refused.stderr.index(b"error: ") :].decode())


def test_a_manifest_under_a_name_that_is_no_text_works(user: User, tmp_path: Path) -> None:
    place = os.fsdecode(os.fsencode(tmp_path) + b"/\xff")
    Path(user.place).rename(place)
    try:
        os.chdir(place)
        user.does("realize", f"{place}/tiny.json", "--set", "inference.n_prompts=1")
        assert "\\udcff" in user.does("inspect", f"{place}/tiny.json").out
        directory = user.does("run", f"{place}/tiny.json", "--run-dir", f"{place}/run").out.strip()
        assert directory.endswith("\\udcff/run")
        user.does("show", f"{place}/run")
    finally:
        Path(place).rename(user.place)


@pytest.fixture
def nowhere(user: User, tmp_path: Path) -> User:
    """A user whose working directory somebody has removed."""
    user.does("realize", "tiny.json", "--name", "first")
    (tmp_path / "gone").mkdir()
    os.chdir(tmp_path / "gone")
    (tmp_path / "gone").rmdir()
    return user


@pytest.mark.parametrize(
    "argv",
    [
        ["realize", "tiny.json"],
        ["realize", "../place/tiny.json"],
        ["list", "--store", "store"],
        ["lock", "tiny.json"],
    ],
)
def test_a_working_directory_that_is_gone_is_said_where_it_matters(
    nowhere: User, argv: list[str]
) -> None:
    outcome = nowhere.dis(*argv)
    assert outcome.code in {2, 5}
    check_clear(outcome.err)


@pytest.mark.parametrize(
    "argv", [["list"], ["show", "first"], ["root", "list"], ["gc"], ["doctor"]]
)
def test_what_needs_no_working_directory_works_without_one(nowhere: User, argv: list[str]) -> None:
    nowhere.does(*argv)


def test_a_manifest_by_its_whole_path_needs_no_working_directory(nowhere: User) -> None:
    overrides: list[Any] = ["--set", "metadata.description=nowhere"]
    nowhere.does("realize", nowhere.path("tiny.json"), *overrides)
