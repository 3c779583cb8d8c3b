"""The faults of a manifest, told together: which member, in which file and line, and why."""

from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path

from dis_derivations.manifest import json_pointer
from dis_derivations.manifest.json_positions import Position, find_position
from dis_derivations.manifest.overrides import Override
from dis_derivations.manifest.reading import RawManifest, SourceFile
from dis_store.errors import InvalidInputError

MAX_FAULTS_TOLD = 20
_SHOWN_CHARACTERS = 120


@dataclass(frozen=True)
class Fault:
    """One thing wrong with a manifest: the message says of the member `pointer` what is wrong."""

    pointer: str
    message: str


@dataclass(frozen=True)
class PlacedFault:
    """A fault with where it was written: a file, with its line and column, or a `--set`."""

    fault: Fault
    origin: SourceFile | Override
    position: Position | None

    def __str__(self) -> str:
        if isinstance(self.origin, Override):
            place = f"--set {_without_address(self.origin.text)[:_SHOWN_CHARACTERS]}"
        else:
            place = _shown(self.origin.path)
            if self.position is not None:
                place += f":{self.position.line}:{self.position.column}"
        text = f"{place}: {self.fault.pointer or 'the manifest'} {self.fault.message}"
        # A manifest from elsewhere must not be able to steer the reader's terminal.
        return "".join(c if c.isprintable() else f"\\u{ord(c):04x}" for c in text)


class InvalidManifestError(InvalidInputError):
    """A manifest does not follow its schema.

    Each line of the cause is one fault: file, line, column, JSON Pointer, what was found and what is allowed.

    Attributes:
        faults: The first `MAX_FAULTS_TOLD`, in the order of the schema; the message tells them.
        count: How many there are.
    """

    code = "E0210"

    def __init__(self, raw: RawManifest, faults: Iterable[Fault]) -> None:
        found = list(dict.fromkeys(faults))
        self.count = len(found)
        self.faults = tuple(_place(raw, fault) for fault in found[:MAX_FAULTS_TOLD])
        lines = [str(fault) for fault in self.faults]
        if self.count > MAX_FAULTS_TOLD:
            lines.append(f"and {self.count - MAX_FAULTS_TOLD} more")
        told = "1 fault" if self.count == 1 else f"{self.count} faults"
        super().__init__(
            f"{_shown(raw.path)} is not a valid manifest, it has {told}",
            cause="\n".join(lines),
            hint="every field is described in docs/reference/manifest.md",
        )


def _place(raw: RawManifest, fault: Fault) -> PlacedFault:
    origin = raw.origin(fault.pointer)
    if isinstance(origin, Override):
        return PlacedFault(fault, origin, None)
    # A member that is missing has no place of its own; the object it is missing from has.
    text, pointer = origin.data.decode("utf-8"), fault.pointer
    position = find_position(text, pointer)
    while position is None and pointer:
        pointer = json_pointer.parent(pointer)
        position = find_position(text, pointer)
    return PlacedFault(fault, origin, position)


def _without_address(text: str) -> str:
    """Return an override without its value where that may be an address, which may hold a password."""
    return f"{text.partition('=')[0]}=…" if "://" in text else text


def _shown(path: Path) -> str:
    """Return the path relative to the working directory where it lies below it."""
    absolute, here = path.absolute(), Path.cwd()
    return str(absolute.relative_to(here) if absolute.is_relative_to(here) else path)
