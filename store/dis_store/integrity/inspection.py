"""Comparing a tree on disk with its manifest."""

import errno
import os
import stat
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Literal

from dis_store.digest import Digest
from dis_store.hashing import hash_descriptor
from dis_store.tree import FileEntry, ReferenceEntry, Tree
from dis_store.work_progress import uncounted

DIRECTORY_MODE = 0o555
FILE_MODE = 0o444
EXECUTABLE_MODE = 0o555
# One second after the epoch, in nanoseconds, twice: no archive format drops it, and no digest holds it.
MTIME = (1_000_000_000, 1_000_000_000)

# What these tell is about the process that looks, and nothing about what it looks at.
_OWN_TROUBLE = frozenset({errno.EMFILE, errno.ENFILE, errno.ENOMEM, errno.EINTR})

ProblemKind = Literal[
    "missing",
    "extra",
    "changed",
    "unreadable",
    "wrong mode",
    "row without tree",
    "tree without row",
    "incomplete",
    "damaged manifest",
    "damaged derivation",
    "damaged realisation",
    "damaged signature",
    "damaged root",
]


@dataclass(frozen=True)
class Problem:
    """One thing in the store that is not what it must be.

    Attributes:
        kind: What sort of damage it is.
        subject: The digest of the object, or the name of the record, that it concerns.
        path: Where in the object; None for the object or record as a whole.
        detail: What was found, against what was expected.
    """

    kind: ProblemKind
    subject: str
    path: str | None = None
    detail: str = ""

    def __str__(self) -> str:
        where = self.subject if self.path is None else f"{self.subject}/{self.path}"
        return f"{self.kind}: {where}" + (f" ({self.detail})" if self.detail else "")


@dataclass(frozen=True)
class FileCheck:
    """A file whose place, type and size are right, and whose content remains to be read."""

    subject: str
    entry: FileEntry
    real: Path
    inode: tuple[int, int]

    def judge(self, found: Digest | OSError) -> Problem | None:
        """Return what is wrong, given the BLAKE3 of the content or why it could not be read."""
        if isinstance(found, OSError):
            return Problem(
                "unreadable", self.subject, self.entry.path, found.strerror or str(found)
            )
        if found != self.entry.blake3:
            detail = f"BLAKE3 {found}, expected {self.entry.blake3}"
            return Problem("changed", self.subject, self.entry.path, detail)
        return None


@dataclass
class Findings:
    """What an inspection found before it read any content."""

    problems: list[Problem] = field(default_factory=list)
    checks: list[FileCheck] = field(default_factory=list)


def inspect(directory: Path, tree: Tree, *, sealed: bool = True) -> Findings:
    """Compare names, types, sizes, modes and references; read no content.

    Args:
        directory: Where the tree lies.
        tree: What it must be.
        sealed: Whether the top must be read-only already.
    """
    return _Inspection(directory, tree).run(sealed=sealed)


def is_intact(directory: Path, tree: Tree) -> bool:
    """Tell whether a tree, its content included, is what its manifest says; the top may be writable still."""
    findings = inspect(directory, tree, sealed=False)
    if findings.problems:
        return False
    return all(check.judge(hash_file(check.real)) is None for check in findings.checks)


def about_the_disk(error: OSError) -> OSError:
    """Return an error that tells that something in the store cannot be read.

    Raises:
        OSError: It is the process that has too many files open, or too little memory: no reason to set anything aside.
    """
    if error.errno in _OWN_TROUBLE:
        raise error
    return error


def hash_file(
    path: Path, *, threads: int = 1, on_bytes: Callable[[int], None] = uncounted
) -> Digest | OSError:
    """Return the BLAKE3 of a file, or the error that kept it from being read."""
    try:
        descriptor = os.open(path, os.O_RDONLY | os.O_NOFOLLOW)
        try:
            return hash_descriptor(descriptor, threads=threads, on_bytes=on_bytes)[1]
        finally:
            os.close(descriptor)
    except OSError as error:
        return about_the_disk(error)


class _Inspection:
    def __init__(self, directory: Path, tree: Tree) -> None:
        self._top = directory
        self._subject = str(tree.digest)
        self._expected = tree.by_path
        self._directories = frozenset(tree.directories)
        self._found = Findings()
        self._seen: set[str] = set()

    def run(self, *, sealed: bool) -> Findings:
        try:
            status = self._top.lstat()
        except OSError as error:
            self._note(
                "missing" if isinstance(error, FileNotFoundError) else "unreadable",
                None,
                str(about_the_disk(error).strerror),
            )
            return self._found
        if not stat.S_ISDIR(status.st_mode):
            self._note("changed", None, "it is no directory")
            return self._found
        if sealed:
            self._check_mode(None, status, DIRECTORY_MODE)
        self._walk(self._top, "")
        for path in sorted({*self._expected, *self._directories} - self._seen):
            self._note("missing", path)
        return self._found

    def _walk(self, directory: Path, prefix: str) -> None:
        try:
            names = sorted(path.name for path in directory.iterdir())
        except OSError as error:
            detail = str(about_the_disk(error).strerror)
            self._note("unreadable", prefix.rstrip("/") or None, detail)
            # What cannot be listed is not called missing as well.
            self._seen.update(self._below(prefix))
            return
        for name in names:
            self._look_at(directory / name, prefix + name)

    def _below(self, prefix: str) -> Iterator[str]:
        return (path for path in (*self._expected, *self._directories) if path.startswith(prefix))

    def _look_at(self, real: Path, path: str) -> None:
        self._seen.add(path)
        status = real.lstat()
        entry = self._expected.get(path)
        if path in self._directories:
            if not stat.S_ISDIR(status.st_mode):
                self._note("changed", path, "it is no directory")
                self._seen.update(self._below(f"{path}/"))
                return
            self._check_mode(path, status, DIRECTORY_MODE)
            self._walk(real, f"{path}/")
        elif isinstance(entry, FileEntry):
            self._look_at_file(real, entry, status)
        elif isinstance(entry, ReferenceEntry):
            self._look_at_reference(real, entry, status)
        else:
            self._note("extra", path)

    def _look_at_file(self, real: Path, entry: FileEntry, status: os.stat_result) -> None:
        if not stat.S_ISREG(status.st_mode):
            self._note("changed", entry.path, "it is no regular file")
            return
        self._check_mode(entry.path, status, EXECUTABLE_MODE if entry.executable else FILE_MODE)
        if status.st_size != entry.size:
            self._note("changed", entry.path, f"{status.st_size} bytes, expected {entry.size}")
            return
        inode = (status.st_dev, status.st_ino)
        self._found.checks.append(FileCheck(self._subject, entry, real, inode))

    def _look_at_reference(self, real: Path, entry: ReferenceEntry, status: os.stat_result) -> None:
        if not stat.S_ISLNK(status.st_mode):
            self._note("changed", entry.path, "it is no symlink")
        elif (target := str(real.readlink())) != entry.link_target:
            self._note("changed", entry.path, f"it leads to {target!r}")

    def _check_mode(self, path: str | None, status: os.stat_result, expected: int) -> None:
        mode = stat.S_IMODE(status.st_mode)
        if mode != expected:
            self._note("wrong mode", path, f"{mode:04o}, expected {expected:04o}")

    def _note(self, kind: ProblemKind, path: str | None, detail: str = "") -> None:
        self._found.problems.append(Problem(kind, self._subject, path, detail))
