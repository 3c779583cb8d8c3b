"""The manual pages say what the help says, in a form that man(1) reads."""

import re
import shutil
import subprocess
import sys
from pathlib import Path

import click
import pytest

from command_line import Dis
from dis_command.command import GLOBAL_OPTIONS
from dis_command.manual import contexts, manual_page, write_pages
from dis_command.program import dis as program

CONTEXTS = {
    context.command_path: context
    for context in contexts(click.Context(program, info_name="dis", **program.context_settings))
}
every_command = pytest.mark.parametrize("path", CONTEXTS)
needs_groff = pytest.mark.skipif(shutil.which("groff") is None, reason="needs groff")


def shown(page: str, *options: str) -> str:
    """Return a page as a terminal shows it, without its margins and line ends."""
    argv = ["groff", "-man", "-Tascii", "-P-bcou", "-rHY=0", "-rLL=400n", *options]
    done = subprocess.run(argv, input=page, capture_output=True, text=True, check=True)
    assert done.stderr == ""
    return re.sub(r"\s+", " ", done.stdout)


@needs_groff
@every_command
def test_a_page_says_what_the_help_says_and_has_no_fault(path: str) -> None:
    context = CONTEXTS[path]
    text = shown(manual_page(context), "-ww")
    assert f"{path.replace(' ', '-')} - " in text
    for param in context.command.get_params(context):
        record = param.get_help_record(context)
        if record is not None:
            for part in record:
                assert re.sub(r"\s+", " ", part) in text
    for example in getattr(context.command, "examples", ()):
        assert example in text
    for line in (context.command.help or "").partition("\n\n")[2].split("\n\n"):
        assert re.sub(r"\s+", " ", line) in text


@needs_groff
def test_text_that_means_something_to_roff_is_printed_as_it_is() -> None:
    strange = ".so /etc/passwd\n\n'quoted' \\fB back`tick ~ ^ -- \\(co"
    context = click.Context(click.Command("x", help=f"Say it.\n\n{strange}"), info_name="x")
    text = shown(manual_page(context), "-ww")
    assert ".so /etc/passwd 'quoted' \\fB back`tick ~ ^ -- \\(co" in text


def test_every_command_has_a_page_and_the_same_is_printed(dis: Dis, tmp_path: Path) -> None:
    written = write_pages(program, tmp_path)
    names = {f"{path.replace(' ', '-')}.1" for path in CONTEXTS}
    assert {path.name for path in written} == names
    assert {path.name for path in (tmp_path / "man1").iterdir()} == names
    for path in ("dis", "dis gc", "dis store add"):
        printed = dis("help", *path.split()[1:], "--man")
        assert printed.out == (tmp_path / "man1" / f"{path.replace(' ', '-')}.1").read_text("utf-8")


def test_the_pages_are_made_by_a_call_of_the_module(tmp_path: Path) -> None:
    argv = [sys.executable, "-m", "dis_command.manual"]
    done = subprocess.run([*argv, str(tmp_path)], capture_output=True, text=True, check=True)
    assert len(done.stdout.splitlines()) == len(CONTEXTS)
    assert subprocess.run(argv, capture_output=True, check=False).returncode == 2


@every_command
def test_every_option_with_a_default_or_a_variable_shows_it(path: str) -> None:
    context = CONTEXTS[path]
    for param in context.command.get_params(context):
        if not isinstance(param, click.Option) or param.help is None:
            continue
        # These are read by the command itself, which says what stands for them.
        if param.name in {"store", "color", "progress", "wait", "jobs"}:
            assert re.search(r"\[env: DIS_\w+|\[env: NO_COLOR", param.help), param.opts
            assert "[default: " in param.help, param.opts
        elif param.name in GLOBAL_OPTIONS and param.name in {"no_pager", "debug"}:
            assert "[env: DIS_" in param.help, param.opts
        # A list that may be empty and a switch that is off need no word.
        elif not param.multiple and not param.is_flag and _default(param, context):
            assert "[default" in param.help, param.opts


def _default(param: click.Option, context: click.Context) -> bool:
    value = param.get_default(context)
    return isinstance(value, str | int | Path) and not isinstance(value, bool) and value != 0
