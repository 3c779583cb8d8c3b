"""Reading a manifest's files: strict JSON, bases, merging, overrides.

`x_base_manifest` names a file, relative to the file that says so. Objects merge member by member,
the nearer file winning; everything else, lists included, is replaced whole. No schema is imported
here, so that a plan cache can read files cheaply.
"""

import os
import stat
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from dis_derivations.manifest import json_pointer
from dis_store import strict_json
from dis_store.errors import InvalidInputError

if TYPE_CHECKING:
    from dis_derivations.manifest.overrides import Override

BASE_KEY = "x_base_manifest"
MAX_BASES = 16
MAX_FILE_BYTES = 64 * 1024 * 1024


@dataclass(frozen=True, eq=False, repr=False)
class SourceFile:
    """A file that was read, with the bytes it had then."""

    path: Path
    data: bytes


@dataclass(frozen=True, eq=False, repr=False)
class RawManifest:
    """A manifest's files and what they come to together, before any schema has seen it.

    Attributes:
        path: The manifest, as it was named.
        files: The manifest first, then its bases, nearest first.
        documents: What each file holds by itself, in the order of `files`.
        overrides: In the order they apply.
        document: All merged, overrides applied, without `x_base_manifest`.
    """

    path: Path
    files: tuple[SourceFile, ...]
    documents: tuple[Mapping[str, Any], ...]
    overrides: "tuple[Override, ...]"
    document: Mapping[str, Any]

    def origin(self, pointer: str) -> "SourceFile | Override":
        """Return who wrote the member `pointer`, or what should hold it where it is missing."""
        for override in reversed(self.overrides):
            if f"{pointer}/".startswith(f"{override.pointer}/"):
                return override
        for file, document in zip(self.files, self.documents, strict=True):
            if json_pointer.exists(document, pointer):
                return file
        for override in reversed(self.overrides):
            if override.pointer.startswith(f"{pointer}/"):
                return override
        return self.origin(json_pointer.parent(pointer))

    def locate(self, pointer: str, value: str) -> Path:
        """Return the path `value` of the member `pointer`, from the file that wrote it.

        The path returned is absolute. An override's path begins at the working directory.
        """
        origin = self.origin(pointer)
        directory = real_path(origin.path).parent if isinstance(origin, SourceFile) else Path.cwd()
        return real_path(directory / value)


def read_manifest_files(path: Path, overrides: Sequence[str] = ()) -> RawManifest:
    """Return the manifest at `path` with its bases and overrides (`a.b=value`) merged, unvalidated.

    Raises:
        InvalidInputError: A file is missing, unreadable or not one strict JSON object; bases form a
            cycle or a chain longer than `MAX_BASES`; an override is malformed.
    """
    parsed = _parsed(overrides)
    files, documents = _read_chain(path)
    document: dict[str, Any] = {}
    for layer in reversed(documents):
        document = merge(document, layer)
    document.pop(BASE_KEY, None)
    return RawManifest(path, files, documents, parsed, _overridden(document, parsed))


def _parsed(overrides: Sequence[str]) -> "tuple[Override, ...]":
    if not overrides:
        return ()
    from dis_derivations.manifest.overrides import parse_override

    return tuple(parse_override(text) for text in overrides)


def _overridden(document: dict[str, Any], overrides: "Sequence[Override]") -> dict[str, Any]:
    if not overrides:
        return document
    from dis_derivations.manifest.overrides import apply_override

    for override in overrides:
        document = apply_override(document, override)
    return document


def real_path(path: Path) -> Path:
    """Return `path` absolute, with its links followed as far as they lead.

    Raises:
        InvalidInputError: It holds a null character, which no path has.
    """
    try:
        return Path(os.path.realpath(path))
    except ValueError as error:
        raise InvalidInputError(f"{str(path)!r} is not a path", cause=str(error)) from error


def merge(base: Mapping[str, Any], overlay: Mapping[str, Any]) -> dict[str, Any]:
    """Return `base` with the members of `overlay`: objects merge, anything else is replaced."""
    merged = dict(base)
    for key, value in overlay.items():
        below = merged.get(key)
        if isinstance(below, dict) and isinstance(value, dict):
            merged[key] = merge(below, value)
        else:
            merged[key] = value
    return merged


def _read_chain(path: Path) -> tuple[tuple[SourceFile, ...], tuple[Mapping[str, Any], ...]]:
    """Return the file at `path` and its bases, nearest first, with the document in each."""
    files: list[SourceFile] = []
    documents: list[Mapping[str, Any]] = []
    seen: list[Path] = []
    following: Path | None = path
    while following is not None:
        identity = real_path(following)
        _refuse_endless_chain(identity, seen)
        seen.append(identity)
        file = SourceFile(following, _read(following, named_by=files[-1].path if files else None))
        document = _decode(file)
        files.append(file)
        documents.append(document)
        following = _base_of(file, document)
    return tuple(files), tuple(documents)


def _refuse_endless_chain(identity: Path, seen: Sequence[Path]) -> None:
    if identity in seen:
        circle = " -> ".join(str(path) for path in [*seen[seen.index(identity) :], identity])
        raise InvalidInputError(f"{seen[0]} inherits from itself", cause=f"{BASE_KEY}: {circle}")
    if len(seen) > MAX_BASES:
        raise InvalidInputError(
            f"{seen[0]} has too many bases",
            cause=f"a chain of {BASE_KEY} has at most {MAX_BASES} files",
        )


def _read(path: Path, *, named_by: Path | None) -> bytes:
    blame = f"{named_by} names it as {BASE_KEY}" if named_by else None
    try:
        with open(path, "rb", opener=open_without_waiting) as stream:
            if not stat.S_ISREG(os.fstat(stream.fileno()).st_mode):
                raise InvalidInputError(f"{path} is not a regular file", cause=blame)
            data = stream.read(MAX_FILE_BYTES + 1)
    except FileNotFoundError as error:
        raise InvalidInputError(f"there is no file {path}", cause=blame) from error
    except OSError as error:
        cause = error.strerror if blame is None else f"{error.strerror}; {blame}"
        raise InvalidInputError(f"{path} cannot be read", cause=cause) from error
    if len(data) > MAX_FILE_BYTES:
        raise InvalidInputError(f"{path} is larger than {MAX_FILE_BYTES // 2**20} MiB", cause=blame)
    return data


def open_without_waiting(path: str, flags: int) -> int:
    """Open a file, as `opener` of `open`, so that a named pipe in its place can be refused and is not waited for."""
    return os.open(path, flags | os.O_NONBLOCK | os.O_CLOEXEC)


def _decode(file: SourceFile) -> dict[str, Any]:
    document = strict_json.decode(file.data, name=str(file.path))
    if not isinstance(document, dict):
        raise InvalidInputError(
            f"{file.path} is not a manifest", cause="a manifest is a JSON object"
        )
    return document


def _base_of(file: SourceFile, document: Mapping[str, Any]) -> Path | None:
    if BASE_KEY not in document:
        return None
    reference = document[BASE_KEY]
    if not isinstance(reference, str) or not reference.strip():
        raise InvalidInputError(
            f"{file.path} has a wrong {BASE_KEY}",
            cause="it must be the path of another manifest, as a string",
        )
    return real_path(real_path(file.path).parent / reference)
