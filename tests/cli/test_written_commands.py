"""Every command line that a document or a help page shows has commands and options that there are.

Transcripts run as a whole (tests/cli/test_guides.py); this holds the lines beside them, which need a hub, a registry or
vLLM, or files of the reader's.
"""

import re
from collections.abc import Iterator
from pathlib import Path

import click
import pytest

from command_line import ROOT
from dis_command.command import DisCommand
from dis_command.lazy_group import LazyGroup
from dis_command.program import dis as program

DOCUMENTS = [ROOT / "README.md", *sorted((ROOT / "docs").rglob("*.md"))]
# At the beginning of a line of an example, and in running text between backquotes.
_LINE = re.compile(r"^(?:    |\$ |    \$ )(?:[A-Z_]+=\S+ )*(dis(?: [^\n]*)?)$", re.MULTILINE)
_INLINE = re.compile(r"`(dis [^`\n]+)`")
_END = re.compile(r"[|&;>#<]|\$\(")
_OPTION = re.compile(r"--?[a-z][a-z-]*")
_ALWAYS = ("-h", "--help", "--version")


def written_in(text: str) -> Iterator[str]:
    for found in (*_LINE.findall(text), *_INLINE.findall(text)):
        yield re.sub(r"[\[\]…]", " ", found)  # what stands in brackets is optional


def faults(line: str) -> list[str]:
    """Return the words of a command line that dis does not know, up to where another program begins."""
    words = _END.split(line[line.index("dis") :], maxsplit=1)[0].split()[1:]
    owner: click.Command = program
    found = []
    while words:
        word = words.pop(0)
        if flag := _OPTION.match(word):
            option = _option(owner, flag[0])
            found += [] if option or flag[0] in _ALWAYS else [flag[0]]
            if option and not option.is_flag and not option.flag_value and "=" not in word:
                del words[:1]
        elif isinstance(owner, LazyGroup):
            below = owner.get_command(click.Context(owner), word)
            if below is None:  # a placeholder, such as COMMAND, is no fault
                return [word] if re.fullmatch(r"[a-z-]+", word) else found
            owner = below
    return found


def _option(owner: click.Command, flag: str) -> click.Option | None:
    options = (option for option in owner.params if isinstance(option, click.Option))
    return next((each for each in options if flag in (*each.opts, *each.secondary_opts)), None)


def test_a_wrong_command_and_a_wrong_option_are_seen() -> None:
    assert faults("dis relize x.json") == ["relize"]
    assert faults("dis store verify --al") == ["--al"]
    assert faults("dis gc --dry-run") == []


@pytest.mark.parametrize("document", DOCUMENTS, ids=lambda path: path.name)
def test_the_command_lines_of_a_document_are_of_this_version(document: Path) -> None:
    lines = list(written_in(document.read_text("utf-8")))
    assert {line: found for line in lines if (found := faults(line))} == {}


def leaves(group: LazyGroup = program) -> Iterator[DisCommand | LazyGroup]:
    for name in group.lazy:
        found = group.get_command(click.Context(group), name)
        assert isinstance(found, (DisCommand, LazyGroup))
        yield found
        if isinstance(found, LazyGroup):
            yield from leaves(found)


def test_the_examples_of_help_are_of_this_version() -> None:
    examples = [*program.examples, *(line for each in leaves() for line in each.examples)]
    assert len(examples) > len(program.lazy)
    assert {line: found for line in examples if (found := faults(line))} == {}
