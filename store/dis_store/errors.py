"""What can go wrong, as one tree: each class carries the exit code that the command gives for it.

A message says *what happened to which thing*; `cause` says why; `hint` says what to do next, as a command where one
exists. No message ends with a full stop, and none holds a secret.
"""

from typing import ClassVar


class DisError(Exception):
    """The root of everything that dis raises on purpose.

    Attributes:
        what: One line: what happened, to which thing.
        cause: Why, where it is known. May span lines.
        hint: What to do next.
        log: The file with the log of the build that failed; set by whoever kept it.
        exit_code: The exit code of the command (docs/reference/exit-codes.md).
    """

    exit_code: ClassVar[int] = 3

    def __init__(self, what: str, *, cause: str | None = None, hint: str | None = None) -> None:
        super().__init__(what)
        self.what = what
        self.cause = cause
        self.hint = hint
        self.log: str | None = None

    def __str__(self) -> str:
        return self.what if self.cause is None else f"{self.what}: {self.cause}"


class InvalidInputError(DisError):
    """Something the user gave is malformed: a usage, a manifest, a lock, a reference, a name."""

    exit_code = 2


class BuildError(DisError):
    """A build, a fetch or a run failed."""

    exit_code = 3


class IntegrityError(DisError):
    """A digest, a signature or a stored object is not what it must be."""

    exit_code = 4


class UnfitEnvironmentError(DisError):
    """This machine or this version cannot do it: no GPU, no engine, disk full, store not writable or too new."""

    exit_code = 5


class InterruptedBuildError(DisError):
    """The user interrupted; what was finished stays finished."""

    exit_code = 130
