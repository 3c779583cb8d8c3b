"""Manual pages, made from the commands themselves.

Usage: python -m dis_command.manual DIRECTORY

Writes one page for each command into DIRECTORY/man1. One page is also printed by `dis help COMMAND --man`.
"""

import re
import sys
from collections.abc import Iterator
from pathlib import Path

import click

from dis_command.command import DOCUMENTATION, GLOBAL_OPTIONS, DisCommand
from dis_command.lazy_group import LazyGroup
from dis_derivations.version import VERSION

SECTION = "1"
# Characters that mean something to roff, and what stands for them.
_ROFF = {"\\": "\\e", "-": "\\-", "'": "\\(aq", "`": "\\(ga", "^": "\\(ha", "~": "\\(ti"}
_SEE_ALSO = ("exit-codes.md", "errors.md", "conventions.md")


def manual_page(context: click.Context) -> str:
    """Return the page of a command as roff, with the macros of man(7)."""
    command = context.command
    name, help_text = page_name(context), command.help or ""
    summary, _, rest = help_text.partition("\n\n")
    lines = [
        f'.TH "{_text(name.upper())}" "{SECTION}" "" "dis {_text(VERSION)}" "User Commands"',
        ".SH NAME",
        f"{_text(name)} \\- {_text(_one_line(summary).removesuffix('.'))}",
        ".SH SYNOPSIS",
        f".B {_text(context.command_path)}",
        _text(" ".join(command.collect_usage_pieces(context))),
    ]
    if rest:
        lines += [".SH DESCRIPTION", *_paragraphs(rest)]
    lines += [*_examples(command), *_commands(context), *_options(context)]
    lines += [".SH SEE ALSO", ".PP", _see_also(context)]
    return "\n".join(lines) + "\n"


def page_name(context: click.Context) -> str:
    """Return what the page is called: `dis-store-add`."""
    return context.command_path.replace(" ", "-")


def contexts(context: click.Context) -> Iterator[click.Context]:
    """Yield a command and all below it."""
    yield context
    group = context.command
    if isinstance(group, click.Group):
        for name in group.list_commands(context):
            found = group.get_command(context, name)
            assert found is not None  # noqa: S101 - it was listed
            yield from contexts(click.Context(found, info_name=name, parent=context))


def write_pages(program: click.Command, directory: Path) -> list[Path]:
    """Write the page of every command into `directory`/man1, and return the files."""
    section = directory / f"man{SECTION}"
    section.mkdir(parents=True, exist_ok=True)
    written: list[Path] = []
    root = click.Context(program, info_name="dis", **program.context_settings)
    for context in contexts(root):
        path = section / f"{page_name(context)}.{SECTION}"
        path.write_text(manual_page(context), encoding="utf-8")
        written.append(path)
    return written


def _examples(command: click.Command) -> Iterator[str]:
    examples = command.examples if isinstance(command, DisCommand | LazyGroup) else ()
    if examples:
        yield ".SH EXAMPLES"
        yield from (".PP", ".nf", ".RS")
        yield from map(_text, examples)
        yield from (".RE", ".fi")


def _commands(context: click.Context) -> Iterator[str]:
    group = context.command
    if not isinstance(group, LazyGroup):
        return
    for section in dict.fromkeys(entry.section for entry in group.lazy.values()):
        yield f".SH {_text(section.upper())}"
        for name, entry in group.lazy.items():
            if entry.section == section:
                yield from (".TP", f"\\fB{_text(f'{context.command_path} {name}')}\\fP")
                yield _text(entry.help)


def _options(context: click.Context) -> Iterator[str]:
    for title, shared in (("OPTIONS", False), ("GLOBAL OPTIONS", True)):
        records = [
            param.get_help_record(context)
            for param in context.command.get_params(context)
            if isinstance(param, click.Option) and (param.name in GLOBAL_OPTIONS) == shared
        ]
        if any(records):
            yield f".SH {title}"
        for record in filter(None, records):
            yield from (".TP", f"\\fB{_text(record[0])}\\fP", _text(_one_line(record[1])))


def _see_also(context: click.Context) -> str:
    above = [] if context.parent is None else [f"\\fB{_text(page_name(context.parent))}\\fP(1)"]
    pages = [DOCUMENTATION, *(f"docs/reference/{page}" for page in _SEE_ALSO)]
    return ", ".join([*above, *map(_text, pages)])


def _paragraphs(text: str) -> Iterator[str]:
    for paragraph in text.split("\n\n"):
        yield from (".PP", _text(_one_line(paragraph)))


def _one_line(text: str) -> str:
    return re.sub(r"\s+", " ", text).strip()


def _text(text: str) -> str:
    """Return a text so that roff prints it as it is, also where a line begins like a request."""
    escaped = "".join(_ROFF.get(character, character) for character in text)
    return f"\\&{escaped}" if escaped.startswith((".", "\\(aq")) else escaped


def main(argv: list[str]) -> int:
    """Write all pages into the directory that is named."""
    from dis_command.program import dis

    if len(argv) != 1:
        print("usage: python -m dis_command.manual DIRECTORY", file=sys.stderr)
        return 2
    for path in write_pages(dis, Path(argv[0])):
        print(path)
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
