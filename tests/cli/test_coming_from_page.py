"""The page for users of the older tool says of every flag whether `dis` has it, and is right."""

import re

import click
import pytest

from command_line import ROOT, Dis
from dis_command.program import dis as program

PAGE = (ROOT / "docs/reference/coming-from-deterministic-inference.md").read_text("utf-8")
# Every command of the older tool that its own description lists, with its flags; none of `serve-modal` is there.
OLDER = {
    "init": ("--output", "--model-id", "--model-revision"),
    "lock": ("--config", "--output"),
    "build": ("--config", "--output", "--update-lock"),
    "run": (
        "--config",
        "--run-dir",
        "--token-output",
        "--run-log-output",
        "--no-verify-artifact-digests",
        "--use-modal",
        "--modal-app-name",
        "--modal-class-name",
        "--modal-gpu",
    ),
    "serve start": (
        "--config",
        "--image",
        "--container-port",
        "--pull",
        "--dry-run",
        "--no-wait",
        "--wait-timeout-seconds",
        "--name",
    ),
    "serve list": (),
    "serve kill": (),
    "serve-modal": (),
    "digest-bootstrap": (
        "--config",
        "--output",
        "--in-place",
        "--replace-existing",
        "--write-lock",
    ),
    "verify": ("--bundle-a", "--bundle-b", "--output-dir"),
    "bundle": ("--run-dir", "--output"),
    "inspect": ("--input",),
}
ROWS = dict(re.findall(r"^\| `([^`]+)` \| (`dis [^`]+`|absent) \|", PAGE, re.MULTILINE))
PRESENT = [entry.strip("`") for entry in ROWS.values() if entry != "absent"]
ABSENT = [name for name, entry in ROWS.items() if entry == "absent"]


def help_of(dis: Dis, command: str) -> str:
    outcome = dis(*command.split(), "--help")
    assert outcome.code == 0, outcome.err
    return outcome.out


def offers(text: str, flag: str) -> bool:
    """Tell whether a help page lists an option."""
    return re.search(rf"^  (?:-\w, )?{flag}\b(?!-)", text, re.MULTILINE) is not None


def test_the_page_has_every_command_and_flag_of_the_older_tool() -> None:
    expected = {
        *OLDER,
        *(f"{command} {flag}" for command, flags in OLDER.items() for flag in flags),
    }
    assert set(ROWS) == expected
    assert PRESENT
    assert ABSENT


@pytest.mark.parametrize("named", PRESENT)
def test_what_the_page_calls_accepted_is_in_the_help(dis: Dis, named: str) -> None:
    words = named.split()[1:]
    flags = [word for word in words if word.startswith("-")]
    text = help_of(dis, " ".join(words[: len(words) - len(flags)]))
    assert [flag for flag in flags if not offers(text, flag)] == []


@pytest.mark.parametrize("name", [name for name, entry in ROWS.items() if entry != "absent"])
def test_names_are_the_ones_of_the_older_tool(name: str) -> None:
    assert ROWS[name] == f"`dis {name}`"


@pytest.mark.parametrize("named", ABSENT)
def test_what_the_page_calls_absent_is_refused_without_a_wrong_hint(dis: Dis, named: str) -> None:
    command, *flags = named.split()
    outcome = dis(command, "CONFIG", *flags)
    assert outcome.code == 2
    assert f"error: no such {'option' if flags else 'command'} '{[command, *flags][-1]}'" in (
        outcome.err
    )
    assert "did you mean" not in outcome.err
    outcome.check_one_block()


def test_a_manifest_is_named_with_and_without_its_flag() -> None:
    context = click.Context(program)
    for name in program.list_commands(context):
        command = program.get_command(context, name)
        assert command is not None
        options = {flag for param in command.params for flag in param.opts}
        arguments = {param.name for param in command.params if isinstance(param, click.Argument)}
        if "--config" in options:
            assert "config" in arguments, name
    for name in ("lock", "build", "run", "realize"):
        command = program.get_command(context, name)
        assert command is not None
        assert "--config" in {flag for param in command.params for flag in param.opts}
