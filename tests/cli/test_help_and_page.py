"""The help of every command, and the page docs/reference/commands.md, say the same as the program."""

from collections.abc import Iterator

import click
import pytest

from command_line import ROOT, Dis
from dis_command.command import GLOBAL_OPTIONS
from dis_command.lazy_group import LazyGroup
from dis_command.program import dis as program

PAGE = (ROOT / "docs" / "reference" / "commands.md").read_text("utf-8")


def commands(
    group: LazyGroup = program, path: str = "dis"
) -> Iterator[tuple[str, click.Command, str]]:
    """Yield each command with its path and what its group says of it."""
    context = click.Context(group)
    for name, entry in group.lazy.items():
        found = group.get_command(context, name)
        assert found is not None
        yield f"{path} {name}", found, entry.help
        if isinstance(found, LazyGroup):
            yield from commands(found, f"{path} {name}")


COMMANDS = list(commands())
GLOBAL_FLAGS = [f"--{name.replace('_', '-')}" for name in GLOBAL_OPTIONS]
LEAVES = [(path, each) for path, each, _ in COMMANDS if not isinstance(each, LazyGroup)]


def own_options(command: click.Command) -> list[click.Option]:
    return [
        param
        for param in command.params
        if isinstance(param, click.Option) and param.name not in GLOBAL_OPTIONS
    ]


@pytest.mark.parametrize(("path", "command"), LEAVES, ids=[path for path, _ in LEAVES])
def test_every_command_and_option_is_on_the_page(path: str, command: click.Command) -> None:
    assert path in PAGE
    section = section_of(path)
    for option in own_options(command):
        for name in option.opts:
            assert name in section or name == "--json", f"{name} of {path}"


def section_of(path: str) -> str:
    """Return the part of the page about a command of `dis`."""
    top = " ".join(path.split()[:2])
    start = PAGE.index(f"### {top}\n")
    following = PAGE.find("\n### ", start + 1)
    return PAGE[start : following if following != -1 else None]


def test_every_global_option_is_on_the_page() -> None:
    for flag in GLOBAL_FLAGS:
        assert f"`{flag}" in PAGE
    for variable in ("DIS_STORE", "DIS_PROGRESS", "DIS_DEBUG", "NO_COLOR", "DIS_PAGER"):
        assert variable in PAGE


def test_every_heading_of_the_page_is_a_command() -> None:
    headings = [line.removeprefix("### ") for line in PAGE.splitlines() if line.startswith("### ")]
    assert headings
    assert set(headings) <= {path for path, _, _ in COMMANDS}


@pytest.mark.parametrize(
    ("command", "said"),
    [(each, said) for _, each, said in COMMANDS],
    ids=[p for p, _, _ in COMMANDS],
)
def test_the_table_says_of_a_command_what_it_says_of_itself(
    command: click.Command, said: str
) -> None:
    assert command.help is not None
    assert command.help.partition("\n\n")[0].replace("\n", " ") == said


@pytest.mark.parametrize("path", [path for path, _, _ in COMMANDS])
@pytest.mark.parametrize("flag", ["-h", "--help"])
def test_help_begins_with_examples_and_fits_80_columns(dis: Dis, path: str, flag: str) -> None:
    outcome = dis(*path.split()[1:], flag)
    assert (outcome.code, outcome.err) == (0, "")
    assert f"Examples:\n  {path}" in outcome.out
    assert outcome.out.index("Examples:") < outcome.out.index("Options:")
    assert max(map(len, outcome.out.splitlines())) <= 82


def test_every_option_with_a_variable_shows_it(dis: Dis) -> None:
    text = dis("--help").out
    for variable in ("[env: DIS_STORE]", "[env: DIS_PROGRESS]", "[env: DIS_DEBUG]", "NO_COLOR"):
        assert variable in text


@pytest.mark.parametrize("path", [path for path, each in LEAVES])
def test_every_command_takes_json_and_the_global_options(path: str) -> None:
    command = dict(LEAVES)[path]
    names = {name for param in command.params for name in param.opts}
    assert {"--json", *GLOBAL_FLAGS} <= names
