"""What every source of files offers, whatever it is: a directory, a hub, a registry."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, Protocol, runtime_checkable

from dis_store.digest import Sha256
from dis_store.work_progress import uncounted

if TYPE_CHECKING:
    from dis_store import TreeWriter, WrittenFile

Reason = Literal[
    "digest_unset",
    "digest_invented",
    "revision_unset",
    "revision_not_a_commit",
    "source_unavailable",
    "dataset_missing",
    "not_found",
    "not_a_file",
    "symlink",
    "unsafe_file",
    "format_unavailable",
    "not_a_package",
]


@dataclass(frozen=True)
class Unavailable:
    """Why a source cannot be used by this version, or on this machine."""

    reason: str
    hint: str


@dataclass(frozen=True)
class Problem:
    """Why a source cannot give a file: a word for programs, a sentence, and what to do."""

    reason: Reason
    message: str
    hint: str | None = None


@dataclass(frozen=True)
class WantedFile:
    """A file to fetch. What is known of it is checked when its bytes have arrived.

    Attributes:
        path: Below the source, and in the tree that is written.
    """

    path: str
    size: int | None = None
    sha256: Sha256 | None = None


# Looks at a file before it is taken: its path in the tree, and where it is. Raises DisError to refuse it.
Check = Callable[[str, Path], None]
# The same for all files of an artifact together, by their paths in the tree.
CheckAll = Callable[[Mapping[str, Path]], None]


def accept(_path: str, _file: Path) -> None:
    """Accept any file."""


def accept_all(_files: Mapping[str, Path]) -> None:
    """Accept any files together."""


class Source(Protocol):
    """A place that has files under relative paths."""

    def describe(self) -> str:
        """Return what messages call it."""
        ...

    def available(self) -> Unavailable | None:
        """Return why it cannot be used; None when it can. Nothing is fetched."""
        ...

    def listing(self) -> list[str]:
        """Return the paths of its files, sorted, without those in subdirectories."""
        ...

    def problem(self, path: str) -> Problem | None:
        """Return why it cannot give the file, as far as its header tells; None when it can."""
        ...

    def disagreement(self, paths: Sequence[str]) -> Problem | None:
        """Return why these files do not make one artifact, as far as their headers tell."""
        ...

    def size(self, path: str) -> int | None:
        """Return the bytes of a file; None where that is not known before it is fetched."""
        ...

    def fetch(
        self,
        files: Sequence[WantedFile],
        writer: "TreeWriter",
        check_interrupted: Callable[[], None],
        on_bytes: Callable[[int], None] = uncounted,
    ) -> "list[WrittenFile]":
        """Write the files into a tree and return what was written, in the same order.

        Args:
            files: Which.
            writer: Where they go.
            check_interrupted: Called between files; raises when the user asked to stop.
            on_bytes: Called with the number of bytes of each piece that has arrived; may raise as well.

        Raises:
            IntegrityError: A file is not what was wanted.
            BuildError: A file cannot be had.
        """
        ...


@runtime_checkable
class Resolving(Protocol):
    """A source whose revision may be a name that moves, and that can tell which commit it names now."""

    def commit(self) -> str:
        """Return the commit.

        Raises:
            DisError: It cannot be told.
        """
        ...


@runtime_checkable
class Located(Protocol):
    """A source whose files are on this machine, where they can be read in their place."""

    def locate(self, path: str) -> Path:
        """Return where a file is that `problem` has nothing against."""
        ...


@runtime_checkable
class Remarking(Protocol):
    """A source that has something to tell of a fetch that ended well."""

    remarks: list[str]


class SourceSet(Protocol):
    """All sources of one manifest, by what they are for."""

    def fetch(
        self,
        kind: str,
        files: Sequence[Mapping[str, Any]],
        writer: "TreeWriter",
        check_interrupted: Callable[[], None],
        on_bytes: Callable[[int], None] = uncounted,
    ) -> None:
        """Write the locked files of `kind` (`weights`, `tokenizer`, …) into a tree.

        Args:
            kind: The label of the artifact.
            files: For each file `path`, `size` and `sha256`.
            writer: Where they go.
            check_interrupted: Called between files; raises when the user asked to stop.
            on_bytes: Called with the number of bytes of each piece that has arrived; may raise as well.

        Raises:
            IntegrityError: A file is not what was locked.
            UnfitEnvironmentError: The source is not available in this version.
            BuildError: A file cannot be had.
        """
        ...
