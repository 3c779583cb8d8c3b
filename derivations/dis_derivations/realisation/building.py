"""What a builder is given: one build's inputs, sources, log and way to be interrupted."""

import io
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any, Protocol

from dis_derivations.graph.derivation import Derivation
from dis_derivations.realisation.events import Measure
from dis_derivations.realisation.gauge import Gauge, Report
from dis_store import Store
from dis_store.digest import Digest
from dis_store.errors import InterruptedBuildError

if TYPE_CHECKING:
    from dis_derivations.sources.source import SourceSet
    from dis_store import Realisation


@dataclass(frozen=True)
class RealisedInput:
    """An input of a build, realised.

    Attributes:
        object: The tree.
        key: What it is remembered by; None for an object that no build made.
        log: The log of the build that made it, where there is one. Never part of a compared output.
        platform: The platform facts of that build.
    """

    object: Digest
    key: Digest | None = None
    log: Digest | None = None
    platform: Mapping[str, Any] = field(default_factory=dict)


def _unheard(_text: str, _measures: tuple[Measure, ...]) -> None:
    """Take a report that nobody asked for."""


class BuildLog:
    """The text log of one build: each line with the seconds since its start."""

    def __init__(self, on_line: Callable[[str], None] | None = None) -> None:
        self.started_at = datetime.now(UTC).isoformat(timespec="milliseconds")
        self._start = time.monotonic()
        self._text = io.StringIO()
        self._on_line = on_line

    def write(self, line: str) -> None:
        """Add one line."""
        self._text.write(f"{self.seconds():9.3f}  {line}\n")
        if self._on_line is not None:
            self._on_line(line)

    def seconds(self) -> float:
        """Return the seconds since the build began, on a clock that never goes back."""
        return time.monotonic() - self._start

    def encode(self) -> bytes:
        """Return the whole log as UTF-8."""
        return self._text.getvalue().encode("utf-8", "backslashreplace")


@dataclass(frozen=True)
class BuildContext:
    """One build as its builder sees it.

    Attributes:
        inputs: The realised inputs, by the names in the derivation.
        platform_facts: The facts that entered the key.
        sources: Where fixed outputs come from.
        hints: Settings that steer the work without being able to change a byte of a compared output
            (batch sizes).
        observed: Documents that belong to the log of this build and to no digest (the manifest's
            own bytes).
        log: The text log.
        log_files: Further files of the log output; the builder adds to it. Values are bytes, or an
            object to refer to.
        cancelled: Becomes true when the user interrupts.
        report: Told how far the build has come, through `gauge`.
        is_rebuild: Whether the result is known and is made again, as evidence.
        keep_record: Takes the records of builds that are made on the way; the store does unless it is given.
    """

    store: Store
    derivation: Derivation
    inputs: Mapping[str, RealisedInput]
    platform_facts: Mapping[str, Any]
    sources: "SourceSet"
    hints: Mapping[str, Any]
    observed: Mapping[str, bytes]
    log: BuildLog
    log_files: dict[str, bytes | Digest]
    cancelled: Callable[[], bool]
    report: Report = _unheard
    is_rebuild: bool = False
    keep_record: "Callable[[Realisation], object] | None" = None

    def record(self, realisation: "Realisation") -> None:
        """Keep the record of a build that was made on the way to this one, so that it answers for its key."""
        keep = self.store.add_realisation if self.keep_record is None else self.keep_record
        keep(realisation)

    def check_interrupted(self) -> None:
        """Raise if the user asked to stop; builders call it between pieces of work.

        Raises:
            InterruptedBuildError: The build must end now.
        """
        if self.cancelled():
            raise InterruptedBuildError(f"the build of {self.derivation.name} was interrupted")

    def gauge(self, text: str, *measures: Measure) -> Gauge:
        """Return a gauge for a piece of the work; what it shows is in no log and no output."""
        return Gauge(self.report, text, *measures)


class Builder(Protocol):
    """Makes the outputs of one kind of derivation."""

    @property
    def version(self) -> int:
        """The version of the builder's behaviour: another version may make other bytes."""
        ...

    def build(self, context: BuildContext) -> Mapping[str, Digest]:
        """Make and register every output but `log`, which is made from `context.log` and `context.log_files`.

        Raises:
            DisError: The build failed; nothing half-made is left in the store.
        """
        ...
