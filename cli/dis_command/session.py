"""One call of the command: what the global options ask for, the store, and what is said on stderr."""

import os
import sys
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING

from dis_command import settings
from dis_command.terminal import printable, wants_color

if TYPE_CHECKING:
    from dis_derivations.realisation.events import Reporter
    from dis_store import Store

PROGRESS_MODES = ("auto", "tty", "plain", "json", "none")


@dataclass
class Session:
    """What a command needs beside its own arguments.

    The global options may be given before and after the name of the command, so they are filled in while the command
    line is parsed; the fields are None until then.

    Attributes:
        as_json: Whether the command line asks for JSON.
        environment: The process's.
    """

    as_json: bool = False
    environment: Mapping[str, str] = field(default_factory=lambda: os.environ)
    store: str | None = None
    debug: bool | None = None
    quiet: bool | None = None
    verbose: bool | None = None
    color: str | None = None
    progress: str | None = None
    no_pager: bool | None = None

    @property
    def debugging(self) -> bool:
        """Whether tracebacks go to the screen."""
        return bool(self.debug) or self.environment.get("DIS_DEBUG", "0") not in {"", "0"}

    @property
    def color_mode(self) -> str:
        """`auto`, `always` or `never`."""
        return self.color or "auto"

    @property
    def color_on_stderr(self) -> bool:
        """Whether what is said on stderr is coloured."""
        return wants_color(sys.stderr, self.color_mode, self.environment)

    @property
    def color_on_stdout(self) -> bool:
        """Whether what is printed on stdout is coloured."""
        return wants_color(sys.stdout, self.color_mode, self.environment)

    @cached_property
    def store_path(self) -> Path:
        """Where the store is."""
        return settings.store_path(self.store, self.environment)

    @contextmanager
    def open_store(self, *, reading: bool = False) -> "Iterator[Store]":
        """Open the store, making it where there is none yet.

        Args:
            reading: Whether the command only asks, so that a store that may not be written will do.

        Raises:
            UnfitEnvironmentError: It cannot be opened or made.
        """
        from dis_store import Store

        with Store.open(self.store_path, reading=reading) as store:
            yield store

    @contextmanager
    def reporting(self) -> "Iterator[Reporter]":
        """Give a reporter that shows events the way the options ask."""
        from dis_derivations.realisation.silence import silent

        if self.progress_way == "none":
            yield silent
            return
        from dis_command.progress.showing import Progress

        with Progress(self) as progress:
            yield progress

    @property
    def progress_way(self) -> str:
        """`tty`, `plain`, `json` or `none`: what the mode comes to on this stderr.

        Raises:
            InvalidInputError: As `progress_mode`.
        """
        if self.progress_mode != "auto":
            return self.progress_mode
        is_terminal = sys.stderr.isatty() and self.environment.get("TERM") != "dumb"
        return "tty" if is_terminal else "plain"

    @property
    def progress_mode(self) -> str:
        """`auto`, `tty`, `plain`, `json` or `none`.

        Raises:
            InvalidInputError: `DIS_PROGRESS` is something else.
        """
        if self.quiet:
            return "none"
        if self.progress is not None:
            return self.progress
        value = self.environment.get("DIS_PROGRESS") or "auto"
        if value not in PROGRESS_MODES:
            from dis_store.errors import InvalidInputError

            raise InvalidInputError(
                f"DIS_PROGRESS is {value!r}", cause=f"it must be one of {', '.join(PROGRESS_MODES)}"
            )
        return value

    def say(self, text: str) -> None:
        """Say something on stderr that is no result and no error."""
        if self.quiet:
            return
        sys.stdout.flush()  # what was printed before stays before, where both go to one place
        if self.progress_way == "json":
            from dis_command.progress.json_lines import note_line, utc_now

            sys.stderr.write(note_line(text, utc_now()))
        else:
            print(printable(text), file=sys.stderr)

    def print_line(self, text: str) -> None:
        """Print text on stdout, safe for a terminal."""
        print(printable(text))

    def print_document(self, document: object) -> None:
        """Print one JSON document on stdout; on a terminal it is laid out for reading."""
        import json

        print(json.dumps(document, indent=2 if sys.stdout.isatty() else None))

    def print_result(
        self, document: Callable[[], object], text: Callable[[], str], *, paged: bool = False
    ) -> None:
        """Print the result of a command: as JSON when that was asked for, else as text.

        Args:
            document: Makes the JSON document.
            text: Makes the text.
            paged: Whether the text may be long, so that it goes through a pager on a terminal.
        """
        if self.as_json:
            self.print_document(document())
        elif shown := text().rstrip("\n"):
            if paged and not self.no_pager:
                self._print_paged(printable(shown))
            else:
                self.print_line(shown)

    def _print_paged(self, text: str) -> None:
        from dis_command import pager

        command = pager.pager_command(self.environment) if pager.is_terminal() else []
        if command:
            pager.show(text, command)
        else:
            print(text)
