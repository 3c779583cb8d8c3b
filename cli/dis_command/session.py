"""One call of the command: what the global options ask for, the store, and what is said on stderr."""

import os
import sys
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, TextIO

from dis_command.setting_values import FOR_EVER
from dis_command.settings import Settings
from dis_command.terminal import printable, wants_color
from dis_store.errors import InvalidInputError

if TYPE_CHECKING:
    from dis_derivations.realisation.events import Reporter
    from dis_store import LockHolder, Store

__all__ = ["Session"]


@dataclass(eq=False, repr=False)
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
    wait: str | None = None
    _reporter: "Reporter | None" = None

    @cached_property
    def settings(self) -> Settings:
        """What the environment and the files of settings say."""
        return Settings(self.environment)

    @property
    def debugging(self) -> bool:
        """Whether tracebacks go to the screen."""
        return bool(self.debug) or self.environment.get("DIS_DEBUG", "0") not in {"", "0"}

    @property
    def color_mode(self) -> str:
        """`auto`, `always` or `never`.

        Raises:
            InvalidSettingError: A setting is something else.
        """
        return self.settings.color(self.color).value

    @property
    def color_on_stderr(self) -> bool:
        """Whether what is said on stderr is coloured."""
        return self._colors(sys.stderr)

    @property
    def color_on_stdout(self) -> bool:
        """Whether what is printed on stdout is coloured."""
        return self._colors(sys.stdout)

    def _colors(self, stream: TextIO) -> bool:
        try:
            mode = self.color_mode
        except InvalidInputError:
            # What is wrong with the settings can be told without colour; `dis doctor` does.
            return False
        return wants_color(stream, mode, self.environment)

    @cached_property
    def store_path(self) -> Path:
        """Where the store is."""
        return Path(self.settings.store(self.store).value)

    @property
    def patience(self) -> float | None:
        """How many seconds to wait for a lock that somebody else holds; None for ever.

        Raises:
            InvalidSettingError: A setting is no such number.
        """
        text = self.settings.wait(self.wait).value
        return None if text == FOR_EVER else float(text)

    @contextmanager
    def open_store(self, *, reading: bool = False) -> "Iterator[Store]":
        """Open the store, making it where there is none yet.

        Args:
            reading: Whether the command only asks, so that a store that may not be written will do.

        Raises:
            UnfitEnvironmentError: It cannot be opened or made.
        """
        from dis_store import Store
        from dis_store.patience import Patience

        patience = Patience(self.patience, self._say_waiting)
        with Store.open(self.store_path, reading=reading, patience=patience) as store:
            yield store

    def _say_waiting(self, holder: "LockHolder") -> None:
        text = f"waiting for the store: {holder} holds it"
        if self._reporter is None:
            self.say(text)
            return
        from dis_derivations.realisation.events import Event

        self._reporter(Event("note", "store", text))

    @contextmanager
    def reporting(self) -> "Iterator[Reporter]":
        """Give a reporter that shows events the way the options ask."""
        from dis_derivations.realisation.silence import silent

        if self.progress_way == "none":
            yield silent
            return
        from dis_command.progress.showing import Progress

        with Progress(self) as progress:
            self._reporter = progress
            try:
                yield progress
            finally:
                self._reporter = None

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
            InvalidSettingError: A setting is something else.
        """
        if self.quiet:
            return "none"
        return self.settings.progress(self.progress).value

    @property
    def tells_events(self) -> bool:
        """Whether stderr is for a program that reads one event a line, errors included."""
        return self.progress_mode == "json"

    def say(self, text: str) -> None:
        """Say something on stderr that is no result and no error."""
        if not self.quiet:
            self._tell(text)

    def warn(self, text: str) -> None:
        """Say on stderr what nobody may miss: also when only results and errors are asked for."""
        self._tell(text.replace("\n", "\n  "), mark="warning:")

    def _tell(self, text: str, *, mark: str = "") -> None:
        sys.stdout.flush()  # what was printed before stays before, where both go to one place
        if self.progress_way == "json":
            from dis_command.progress.json_lines import note_line, utc_now

            sys.stderr.write(note_line(f"{mark} {text}".strip(), utc_now()))
        else:
            painted = f"\x1b[1;33m{mark}\x1b[0m" if mark and self.color_on_stderr else mark
            print(f"{painted} {printable(text)}".lstrip(), file=sys.stderr)

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

        command = (
            pager.pager_command(self.environment, self.settings) if pager.is_terminal() else []
        )
        if command:
            pager.show(text, command)
        else:
            print(text)
