"""Every failure is one block on stderr, with the exit code that docs/reference/exit-codes.md gives it."""

import json
import os
import subprocess
from pathlib import Path

import pytest

from command_line import Dis
from dis_command import error_report
from dis_command.failures import as_dis_error
from dis_command.session import Session
from dis_store.errors import DisError, IntegrityError


@pytest.mark.parametrize(
    ("argv", "what", "hint"),
    [
        (["relize"], "no such command 'relize'", "did you mean 'realize'?"),
        (["realise", "x.json"], "no such command 'realise'", "did you mean 'realize'?"),
        (["root", "lst"], "no such command 'lst'", "did you mean 'list'?"),
        (["list", "--jsn"], "no such option '--jsn'", "did you mean '--json'?"),
        (["--stroe", "x"], "no such option '--stroe'", "did you mean '--store'?"),
        (
            ["realize", "x.json", "--nme", "y"],
            "no such option '--nme'\n",
            "did you mean '--name' or ",
        ),
        (["schema", "dif"], "invalid value for '[NAME]'", "did you mean 'diff'?"),
        (["list", "--progress", "plan"], "invalid value for '--progress'", "did you mean 'plain'?"),
        (["help", "exit-code"], "no topic has the name 'exit-code'", "did you mean 'exit-codes'?"),
        (
            ["completion"],
            "missing argument '{bash|zsh|fish}'. Choose from: bash, zsh, fish\n",
            "see the usage: dis completion --help",
        ),
        (["show"], "missing argument 'REF'", "see the usage: dis show --help"),
        (["realize"], "no manifest is named: give CONFIG", "see the usage: dis realize --help"),
        (["realize", "a", "--jobs", "0"], "invalid value for '-j' / '--jobs'", None),
        (["gc", "--older-than", "soon"], "invalid value for '--older-than'", None),
        (["list", "--color", "blue"], "invalid value for '--color'", None),
        (["verify", "one"], "two runs are compared, and only one is named", None),
        (["inspect"], "name one thing to inspect: REF, or --input REF", None),
    ],
)
def test_wrong_usage_is_one_block_with_exit_code_2(
    dis: Dis, argv: list[str], what: str, hint: str | None
) -> None:
    outcome = dis(*argv)
    outcome.check_one_block()
    assert outcome.code == 2
    assert outcome.err.startswith(f"error: {what}")
    assert outcome.out == ""
    if hint is not None:
        assert f"hint: {hint}" in outcome.err


def test_both_forms_of_one_argument_are_refused(dis: Dis) -> None:
    outcome = dis("realize", "a.json", "--config", "b.json")
    outcome.check_one_block()
    assert outcome.code == 2


def test_no_command_prints_the_help_and_is_wrong_usage(dis: Dis) -> None:
    outcome = dis()
    assert outcome.code == 2
    assert outcome.err.startswith("Usage: dis")


def test_errors_are_one_json_document_with_json(dis: Dis) -> None:
    outcome = dis("show", "nothing", "--json")
    assert (outcome.code, outcome.out) == (2, "")
    assert outcome.error["what"] == "nothing is called 'nothing'"
    assert outcome.error["exit_code"] == 2
    assert set(outcome.error) == {"what", "cause", "hint", "code", "exit_code"}
    assert outcome.error["code"] == "E0203"


def test_the_block_ends_with_the_command_that_explains_its_code(dis: Dis) -> None:
    outcome = dis("show", "nothing")
    assert outcome.err.endswith("\nmore: dis help E0203\n")
    explained = dis("help", "E0203")
    assert explained.code == 0
    assert explained.out.startswith("E0203: Nothing in the store has this name")


@pytest.mark.parametrize(
    ("argv", "what"),
    [
        (["show", "nothing", "--progress", "json"], "nothing is called 'nothing'"),
        (["--progress=json", "show", "nothing", "--json"], "nothing is called 'nothing'"),
        (["relize", "--progress", "json"], "no such command 'relize'"),
        (["list", "--jsn", "--progress=json"], "no such option '--jsn'"),
    ],
)
def test_an_error_is_an_event_for_who_reads_events(dis: Dis, argv: list[str], what: str) -> None:
    outcome = dis(*argv)
    assert (outcome.code, outcome.out) == (2, "")
    (line,) = outcome.err.splitlines()
    event = json.loads(line)
    assert (event["event"], event["subject"], event["text"]) == ("error", "dis", what)
    assert event["error"] == outcome.error
    assert event["error"]["what"] == what


def test_a_traceback_is_in_the_event_so_that_stderr_stays_json(dis: Dis) -> None:
    outcome = dis("show", "nothing", "--progress", "json", "--debug")
    (line,) = outcome.err.splitlines()
    assert json.loads(line)["error"]["traceback"].startswith("Traceback")


def test_an_error_in_the_settings_themselves_is_told(
    dis: Dis, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("DIS_PROGRESS", "loud")
    monkeypatch.setenv("DIS_COLOR", "blue")
    outcome = dis("realize", "x.json")
    outcome.check_one_block()
    assert outcome.code == 2


def test_wrong_usage_is_json_too_with_json(dis: Dis) -> None:
    outcome = dis("show", "--json")
    assert (outcome.code, outcome.error["what"]) == (2, "missing argument 'REF'")


@pytest.mark.parametrize("text", ["store = \n", "sotre = 'x'\n", "store = 7\n"])
def test_a_broken_config_file_is_refused(
    dis: Dis, text: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("DIS_STORE")
    path = tmp_path / "xdg" / "config" / "dis" / "config.toml"
    path.parent.mkdir(parents=True)
    path.write_text(text, encoding="utf-8")
    outcome = dis("list")
    outcome.check_one_block()
    assert outcome.code == 2
    assert str(path) in outcome.err


def test_a_store_that_is_a_file_is_refused(dis: Dis, tmp_path: Path) -> None:
    (tmp_path / "file").write_text("x", encoding="utf-8")
    outcome = dis("list", "--store", tmp_path / "file")
    outcome.check_one_block()
    assert outcome.code == 2


def test_a_store_that_is_not_ours_is_refused(dis: Dis, tmp_path: Path) -> None:
    (tmp_path / "home").mkdir()
    (tmp_path / "home" / "letter.txt").write_text("x", encoding="utf-8")
    outcome = dis("list", "--store", tmp_path / "home")
    outcome.check_one_block()
    assert outcome.code == 2


@pytest.mark.skipif(os.geteuid() == 0, reason="root may write everywhere")
def test_a_store_that_cannot_be_written_is_an_unfit_environment(dis: Dis, tmp_path: Path) -> None:
    (tmp_path / "locked").mkdir(mode=0o555)
    outcome = dis("list", "--store", tmp_path / "locked" / "store")
    outcome.check_one_block()
    assert outcome.code == 5


def test_a_store_on_a_device_that_refuses_is_an_unfit_environment(dis: Dis) -> None:
    outcome = dis("list", "--store", "/proc/dis-store")
    outcome.check_one_block()
    assert outcome.code == 5


def test_a_store_from_a_newer_version_is_an_unfit_environment(dis: Dis, tmp_path: Path) -> None:
    assert dis("list").code == 0
    record = tmp_path / "empty-store" / "format.json"
    record.chmod(0o644)
    record.write_text('{"format":99,"type":"store"}\n', encoding="utf-8")
    outcome = dis("list")
    outcome.check_one_block()
    assert outcome.code == 5


def test_a_fault_of_dis_is_one_block_and_its_traceback_is_in_a_file(
    dis: Dis, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fail(_: Session, **__: object) -> None:
        raise RuntimeError("what nobody thought of")

    monkeypatch.setattr(Session, "open_store", fail)
    outcome = dis("list")
    outcome.check_one_block()
    assert outcome.code == 3
    assert "cause: RuntimeError: what nobody thought of" in outcome.err
    (log,) = (tmp_path / "xdg" / "state" / "dis").iterdir()
    assert str(log) in outcome.err
    assert "what nobody thought of" in log.read_text("utf-8")
    assert "Traceback" in log.read_text("utf-8")


@pytest.mark.parametrize("way", ["--debug", "DIS_DEBUG"])
def test_a_traceback_is_shown_when_it_is_asked_for(
    dis: Dis, way: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    if way.startswith("--"):
        outcome = dis("show", "nothing", way)
    else:
        monkeypatch.setenv(way, "1")
        outcome = dis("show", "nothing")
    assert outcome.code == 2
    assert "Traceback" in outcome.err
    assert outcome.err.splitlines()[-1] == "more: dis help E0203"


def test_a_full_disk_is_an_unfit_environment() -> None:
    error = as_dis_error(OSError(28, "No space left on device", "/x"), [], Session())
    assert (error.exit_code, error.what) == (5, "/x: No space left on device")


def test_a_message_cannot_steer_the_terminal() -> None:
    block = error_report.render_block(DisError("a\x1b[2J", cause="b\nc\x07", hint="d"), color=False)
    assert block == "error: a\\x1b[2J\n  cause: b\n         c\\x07\nhint: d\nmore: dis help E0000\n"


def test_colour_is_for_the_words_and_not_for_the_text() -> None:
    block = error_report.render_block(IntegrityError("text"), color=True)
    assert block == "\x1b[1;31merror:\x1b[0m text\n\x1b[1;36mmore:\x1b[0m dis help E0400\n"


def test_a_reader_that_went_away_ends_the_command_quietly(python: str) -> None:
    with subprocess.Popen(
        [python, "-m", "dis_command", "--help"], stdout=subprocess.PIPE, stderr=subprocess.PIPE
    ) as process:
        assert process.stdout is not None
        assert process.stderr is not None
        process.stdout.close()
        said = process.stderr.read()
        assert process.wait() == 141
    assert said == b""
