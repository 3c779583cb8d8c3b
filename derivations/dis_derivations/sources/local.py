"""Files on this machine as a source: a directory, or one file under a name of ours.

Symbolic links are followed within the directory, and from a snapshot of the Hugging Face cache into
the `blobs` beside it, which is how that cache is built. Any other link is refused: a directory from
elsewhere must not be able to bring files of this machine into a store, from where they could be
published.
"""

import os
import stat
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from dis_derivations.sources.source import (
    Check,
    CheckAll,
    Problem,
    Reason,
    Unavailable,
    WantedFile,
    accept,
    accept_all,
)
from dis_store.errors import BuildError, DisError, MismatchError, UnfitEnvironmentError
from dis_store.work_progress import uncounted

if TYPE_CHECKING:
    from dis_store import TreeWriter, WrittenFile


class LocalDirectory:
    """The files of one directory."""

    def __init__(
        self, directory: Path, check: Check = accept, check_all: CheckAll = accept_all
    ) -> None:
        self._directory = directory
        self._check = check
        self._check_all = check_all

    def describe(self) -> str:
        """Return the directory."""
        return str(self._directory)

    def available(self) -> Unavailable | None:
        """Return that there is no such directory."""
        try:
            mode = self._directory.stat().st_mode
        except (FileNotFoundError, NotADirectoryError):
            reason = f"there is no directory {self._directory}"
        except OSError as error:
            reason = f"{self._directory} cannot be read: {error.strerror}"
        else:
            if not stat.S_ISDIR(mode):
                reason = f"{self._directory} is not a directory"
            elif os.access(self._directory, os.X_OK):
                return None
            else:
                reason = f"{self._directory} cannot be read: Permission denied"
        return Unavailable(reason, hint="name the directory that holds the files as local_path")

    def listing(self) -> list[str]:
        """Return the names of the regular files in the directory; none when it cannot be read."""
        try:
            return sorted(entry.name for entry in self._directory.iterdir() if entry.is_file())
        except OSError:
            return []

    def problem(self, path: str) -> Problem | None:
        """Return why the file cannot be taken."""
        where = self._directory / path
        return _problem(self._directory, path) or _refusal(lambda: self._check(path, where))

    def disagreement(self, paths: Sequence[str]) -> Problem | None:
        """Return why the files do not make one artifact."""
        return _refusal(lambda: self._check_all({path: self._directory / path for path in paths}))

    def size(self, path: str) -> int | None:
        """Return the bytes of the file; None when it is not there."""
        return _size(self._directory / path)

    def fetch(
        self,
        files: Sequence[WantedFile],
        writer: "TreeWriter",
        check_interrupted: Callable[[], None],
        on_bytes: Callable[[int], None] = uncounted,
    ) -> "list[WrittenFile]":
        """Read each file once into the tree."""
        written: list[WrittenFile] = []
        for file in files:
            check_interrupted()
            _require(self.problem(file.path), file.path)
            written.append(_take(file, self.locate(file.path), writer, on_bytes))
        return written

    def locate(self, path: str) -> Path:
        """Return where the file is, with its links followed."""
        return (self._directory / path).resolve()


class LocalFile:
    """One file, wherever it is and whatever it is called there, under the path `name`."""

    def __init__(self, file: Path, name: str) -> None:
        self._file = file
        self._name = name

    def describe(self) -> str:
        """Return the file."""
        return str(self._file)

    def available(self) -> Unavailable | None:
        """Return None: whether the file is there is told by `problem`."""
        return None

    def listing(self) -> list[str]:
        """Return its one name."""
        return [self._name]

    def problem(self, path: str) -> Problem | None:  # noqa: ARG002 - it has one file only
        """Return why the file cannot be taken."""
        return _kind_problem(self._file)

    def disagreement(self, paths: Sequence[str]) -> Problem | None:  # noqa: ARG002 - as above
        """Return None: one file agrees with itself."""
        return None

    def size(self, path: str) -> int | None:  # noqa: ARG002 - it has one file only
        """Return the bytes of the file; None when it is not there."""
        return _size(self._file)

    def fetch(
        self,
        files: Sequence[WantedFile],
        writer: "TreeWriter",
        check_interrupted: Callable[[], None],
        on_bytes: Callable[[int], None] = uncounted,
    ) -> "list[WrittenFile]":
        """Read the file once into the tree."""
        check_interrupted()
        _require(self.problem(self._name), self._name)
        return [_take(file, self._file, writer, on_bytes) for file in files]

    def locate(self, path: str) -> Path:  # noqa: ARG002 - it has one file only
        """Return the file."""
        return self._file


def check_arrived(wanted: WantedFile, written: "WrittenFile", source: str) -> None:
    """Compare a file with what was wanted.

    Raises:
        IntegrityError: Its digest or its size is another.
    """
    if wanted.sha256 is not None and wanted.sha256 != written.sha256:
        raise MismatchError(
            f"{wanted.path} is not the file that was locked",
            cause=f"wanted {wanted.sha256}, found {written.sha256} at {source}",
            hint="bring back the file, or accept the new one: dis lock CONFIG --update NAME",
        )
    if wanted.size is not None and wanted.size != written.size:
        raise MismatchError(
            f"{wanted.path} is not the file that was locked",
            cause=f"wanted {wanted.size} bytes, found {written.size} at {source}",
        )


def _take(
    wanted: WantedFile, source: Path, writer: "TreeWriter", on_bytes: Callable[[int], None]
) -> "WrittenFile":
    # Model files are data whatever their mode says; a copy from a disk and one from a hub must make
    # one object.
    written = writer.ingest(wanted.path, source, executable=False, on_bytes=on_bytes)
    check_arrived(wanted, written, str(source))
    return written


def _require(problem: Problem | None, path: str) -> None:
    if problem is not None:
        raise BuildError(f"{path} cannot be fetched", cause=problem.message)


def _refusal(check: Callable[[], None]) -> Problem | None:
    try:
        check()
    except DisError as error:
        unfit = isinstance(error, UnfitEnvironmentError)
        reason: Reason = "format_unavailable" if unfit else "unsafe_file"
        return Problem(reason, str(error), error.hint)
    return None


def _problem(directory: Path, path: str) -> Problem | None:
    source = directory / path
    problem = _kind_problem(source)
    if problem is not None:
        return problem
    real = source.resolve()
    if any(real.is_relative_to(place) for place in _allowed(directory)):
        return None
    return Problem(
        "symlink",
        f"{source} is a link to {real}, outside of its directory; put a copy there (cp -L)",
    )


def _allowed(directory: Path) -> list[Path]:
    """Return the directories that links may lead into."""
    real = directory.resolve()
    is_snapshot = real.parent.name == "snapshots"
    return [real, real.parent.parent / "blobs"] if is_snapshot else [real]


def _kind_problem(source: Path) -> Problem | None:
    try:
        mode = source.stat().st_mode
    except (FileNotFoundError, NotADirectoryError):
        return Problem("not_found", f"there is no file {source}")
    except (OSError, ValueError) as error:
        return Problem(
            "not_found", f"{source} cannot be read: {getattr(error, 'strerror', None) or error}"
        )
    if stat.S_ISREG(mode):
        return None
    kind = "a directory" if stat.S_ISDIR(mode) else "a device, a pipe or a socket"
    return Problem("not_a_file", f"{source} is {kind}, not a file")


def _size(source: Path) -> int | None:
    try:
        return source.stat().st_size
    except (OSError, ValueError):
        return None
