"""A group whose commands are loaded when they are called, so that `--help` and every other command stay quick."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from importlib import import_module
from typing import TYPE_CHECKING, Any

import click

from dis_command.command import (
    CONTEXT,
    DOCUMENTATION,
    global_options,
    write_examples,
    write_options,
)

if TYPE_CHECKING:
    from click.shell_completion import CompletionItem

# How alike a command must be to what was typed, from 0 to 1, to have been meant. `serve` is no slip for `store`.
_CLOSENESS = 0.65


@dataclass(frozen=True, eq=False, repr=False)
class LazyCommand:
    """Where a command is, and what the help of its group says of it.

    Attributes:
        module: The module that holds it.
        attribute: Its name in the module.
        help: One line; a test holds it equal to what the command says of itself.
        section: The heading under which the help lists it.
    """

    module: str
    attribute: str
    help: str
    section: str = "Commands"


class LazyGroup(click.Group):
    """A group of commands that are not loaded yet.

    Args:
        lazy: The commands by name, in the order of the help.
        examples: Command lines with which people begin.
        absent: Commands that people may look for in vain, each with why it is not there and what to do instead.
    """

    def __init__(
        self,
        *args: Any,
        lazy: Mapping[str, LazyCommand],
        examples: Sequence[str] = (),
        absent: Mapping[str, tuple[str, str]] | None = None,
        **kwargs: Any,
    ) -> None:
        kwargs.setdefault("context_settings", CONTEXT)
        super().__init__(*args, **kwargs)
        self.lazy = lazy
        self.examples = tuple(examples)
        self.absent = absent or {}
        self.params += global_options()

    def list_commands(self, ctx: click.Context) -> list[str]:  # noqa: ARG002 - of click
        """Return the names in the order of the help."""
        return list(self.lazy)

    def get_command(
        self,
        ctx: click.Context,  # noqa: ARG002 - of click
        cmd_name: str,
    ) -> click.Command | None:
        """Load one command; None where there is none of that name."""
        entry = self.lazy.get(cmd_name)
        if entry is None:
            return None
        found = getattr(import_module(entry.module), entry.attribute)
        assert isinstance(found, click.Command)  # noqa: S101 - the table is ours
        return found

    def resolve_command(
        self, ctx: click.Context, args: list[str]
    ) -> tuple[str | None, click.Command | None, list[str]]:
        """Find the command of a command line, or say which one may have been meant."""
        name = args[0]
        if name in self.absent:
            from dis_command.errors import WrongUsageError

            cause, hint = self.absent[name]
            raise WrongUsageError(f"no such command {name!r}", cause=cause, hint=hint)
        if name not in self.lazy and not name.startswith("-"):
            raise click.UsageError(f"No such command {name!r}.{self._suggestion(name)}", ctx)
        return super().resolve_command(ctx, args)

    def shell_complete(self, ctx: click.Context, incomplete: str) -> "list[CompletionItem[str]]":
        """Offer the commands, none of them loaded for it, and the options."""
        from click.shell_completion import CompletionItem

        named = [
            CompletionItem(name, help=entry.help)
            for name, entry in self.lazy.items()
            if name.startswith(incomplete)
        ]
        return [*named, *click.Command.shell_complete(self, ctx, incomplete)]

    def _suggestion(self, name: str) -> str:
        from difflib import get_close_matches

        close = get_close_matches(name, self.lazy, n=3, cutoff=_CLOSENESS)
        return f" Did you mean {' or '.join(map(repr, close))}?" if close else ""

    def format_help(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        """Write usage, purpose, examples, commands by section, options."""
        self.format_usage(ctx, formatter)
        self.format_help_text(ctx, formatter)
        write_examples(self.examples, formatter)
        for section in dict.fromkeys(entry.section for entry in self.lazy.values()):
            with formatter.section(section):
                formatter.write_dl(
                    [(name, e.help) for name, e in self.lazy.items() if e.section == section]
                )
        write_options(self, ctx, formatter)
        formatter.write(f"\nMore: {ctx.command_path} COMMAND --help, {DOCUMENTATION}\n")
