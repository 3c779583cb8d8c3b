"""Asking before something is given up that took a computation."""

import os
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TextIO

from dis_command.errors import UnconfirmedError
from dis_command.terminal import count_text, one_line, size_text

_YES = {"y", "yes"}
_MOST_NAMES = 20


@dataclass(frozen=True)
class Loss:
    """What is going to be given up.

    Attributes:
        roots: The names that go.
        objects: How many objects a collection frees then.
        bytes: Their bytes.
    """

    roots: Sequence[str]
    objects: int
    bytes: int

    @property
    def head(self) -> str:
        """One line: how many roots, how many objects, how many bytes."""
        freed = f"{count_text(self.objects, 'object')}, {size_text(self.bytes)}"
        return f"{count_text(len(self.roots), 'root')} would be dropped, and {freed} be freed"

    def __str__(self) -> str:
        shown = [one_line(name) for name in self.roots[:_MOST_NAMES]]
        if len(self.roots) > _MOST_NAMES:
            shown.append(f"and {len(self.roots) - _MOST_NAMES} more")
        return "\n".join([f"{self.head}:", *(f"  {name}" for name in shown)])


def confirm(loss: Loss, *, yes: bool) -> None:
    """Go on only when somebody says yes: in the command line with `--yes`, or in answer to a question.

    Raises:
        UnconfirmedError: Nobody does, or nobody can be asked.
    """
    if yes:
        return
    if not can_ask():
        raise UnconfirmedError(
            loss.head,
            cause="nobody can be asked here: standard input and standard error are no terminal",
            hint="look first with --dry-run; go on without a question with --yes",
        )
    ask(str(loss))


def ask(text: str) -> None:
    """Show what would happen and ask on the terminal, also with --quiet: nobody answers a question that is not seen.

    Raises:
        UnconfirmedError: The answer is not yes.
    """
    sys.stdout.flush()
    print(f"{text}\nGo on? [y/N] ", end="", file=sys.stderr, flush=True)
    answer = sys.stdin.readline()
    if not answer.endswith("\n"):
        print(file=sys.stderr)
    if answer.strip().lower() not in _YES:
        raise UnconfirmedError("nothing was changed", cause="the answer was not yes")


def can_ask() -> bool:
    """Tell whether a person sees what is written on stderr, and can answer."""
    return all(map(_is_terminal, (sys.stdin, sys.stderr)))


def _is_terminal(stream: TextIO | None) -> bool:
    try:
        return stream is not None and os.isatty(stream.fileno())
    except (OSError, ValueError):  # closed, or no file of the system
        return False
