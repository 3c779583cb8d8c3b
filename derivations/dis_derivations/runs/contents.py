"""The files that a REF shows: those of an object, references followed, or of a run outside the store."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from dis_store.digest import Digest
from dis_store.environment import reading
from dis_store.errors import IntegrityError, InvalidInputError

if TYPE_CHECKING:
    from dis_derivations.runs.left_out import LeftOut
    from dis_derivations.runs.reference import Resolved
    from dis_store import Store

_CHUNK_BYTES = 1 << 20


@dataclass(frozen=True)
class Shown:
    """A file or a directory.

    Attributes:
        path: From the top of what the REF names.
        size: Bytes, for a directory those of all files in it.
        directory: Whether it is one.
        executable: Whether the file may be executed.
        owner: The object whose own file it is; None for directories and for files outside the store.
        blake3: The digest of the file's content; None where the file is outside the store.
    """

    path: str
    size: int
    directory: bool = False
    executable: bool = False
    owner: Digest | None = None
    blake3: Digest | None = None


class Contents:
    """The files that a REF shows.

    Args:
        store: The store of the REF.
        resolved: What the REF names.

    Raises:
        InvalidInputError: It names a manifest or a lock.
        IntegrityError: It names something damaged.
    """

    def __init__(self, store: "Store", resolved: "Resolved") -> None:
        self._ref = resolved.ref
        self._real: dict[str, Path]
        self.left_out: Mapping[str, LeftOut] = {}
        if resolved.digest is not None:
            files = store.files(resolved.digest)
            self._real = {file.path: file.real for file in files}
            self.files = [
                Shown(file.path, file.size, False, file.executable, file.owner, file.blake3)
                for file in files
            ]
            return
        # Kept, since what an archive was unpacked into goes with its reader.
        self._reader = resolved.bundle(store)
        self.left_out = self._reader.left_out()
        self._real = {name: self._reader.path(name) for name in self._reader.names()}
        self.files = [Shown(name, real.stat().st_size) for name, real in self._real.items()]

    def listing(self, path: str = "", *, recursive: bool = False) -> list[Shown]:
        """Return what is at `path`: the file, or what the directory holds; with `recursive` all files below it.

        Raises:
            InvalidInputError: There is nothing at `path`.
        """
        wanted = path.strip("/")
        at = [file for file in self.files if file.path == wanted]
        if at:
            return at
        below = [file for file in self.files if not wanted or file.path.startswith(f"{wanted}/")]
        if not below and wanted:
            raise self._nothing_at(path)
        if recursive:
            return below
        start = len(wanted) + 1 if wanted else 0
        return [_merged(name, group) for name, group in _by_first_part(below, start).items()]

    def file(self, path: str) -> Shown:
        """Return the file at `path`.

        Raises:
            InvalidInputError: There is none.
        """
        found = next((file for file in self.files if file.path == path.strip("/")), None)
        if found is None and (entry := self.left_out.get(path.strip("/"))) is not None:
            import shlex

            # Quoted, since people paste the line, and the path comes from whoever made the archive or directory.
            there = shlex.join([entry.object[:12], *_as_argument(entry.subpath)])
            raise InvalidInputError(
                f"{entry.path} was left out of {self._ref}",
                cause=f"it has {entry.size} bytes and the digest {entry.blake3}",
                hint=f"a store that has the run has it: dis cat {there}",
            )
        if found is None:
            raise self._nothing_at(path)
        return found

    def chunks(self, file: Shown) -> Iterator[bytes]:
        """Yield the bytes of a file; damage is told at their end.

        Raises:
            IntegrityError: They are not what the object's tree manifest says.
        """
        from blake3 import blake3

        hashed = blake3()
        try:
            with reading(f"{file.path} of {self._ref}"), self._real[file.path].open("rb") as stream:
                while chunk := stream.read(_CHUNK_BYTES):
                    hashed.update(chunk)
                    yield chunk
        except FileNotFoundError as error:
            raise IntegrityError(f"{file.path} of {self._ref} is not there any more") from error
        if file.blake3 is not None and hashed.hexdigest() != file.blake3:
            raise IntegrityError(
                f"{file.path} is damaged: what was read is not what it must be",
                hint=f"see what else is damaged: dis store verify {str(file.owner)[:12]}",
            )

    def _nothing_at(self, path: str) -> InvalidInputError:
        from difflib import get_close_matches

        close = get_close_matches(path, [file.path for file in self.files], n=3)
        hint = f"did you mean {' or '.join(close)}?" if close else f"dis ls {self._ref}"
        return InvalidInputError(f"{self._ref} has no file {path!r:.200}", hint=hint)


def _as_argument(path: str) -> list[str]:
    """Return the words of a command line that name a path, also one that begins as an option does."""
    return ["--", path] if path.startswith("-") else [path]


def _by_first_part(files: list[Shown], start: int) -> dict[str, list[Shown]]:
    """Return files by the directory or the name that they begin with, after `start` characters."""
    found: dict[str, list[Shown]] = {}
    for file in files:
        head = file.path[:start] + file.path[start:].partition("/")[0]
        found.setdefault(head, []).append(file)
    return found


def _merged(name: str, files: list[Shown]) -> Shown:
    if files[0].path == name:
        return files[0]
    return Shown(name, sum(file.size for file in files), directory=True)
