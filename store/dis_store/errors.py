"""What can go wrong, as one tree: each class carries its code, and the exit code that the command gives for it.

A message says *what happened to which thing*; `cause` says why; `hint` says what to do next, as a command where one
exists. No message ends with a full stop, and none holds a secret.

Every class below `DisError` has a `code` of its own: `E`, two digits that are its exit code (13 for 130), two digits
more. A code never changes its meaning and is never used again. `dis help CODE` prints the docstring of its class up to
arguments and attributes, and docs/reference/errors.md is made of these texts.
"""

from typing import ClassVar


class DisError(Exception):
    """The root of everything that dis raises on purpose.

    Attributes:
        what: One line: what happened, to which thing.
        cause: Why, where it is known. May span lines.
        hint: What to do next.
        log: The file with the log of the build that failed; set by whoever kept it.
        code: What the kind of error is called, for good (docs/reference/errors.md).
        exit_code: The exit code of the command (docs/reference/exit-codes.md).
    """

    code: ClassVar[str] = "E0000"
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
    """Something that was given is malformed, or is not there: a manifest, a lock, a reference, a name, a file.

    The cause says what is wrong with it. Nothing was changed.
    """

    code = "E0200"
    exit_code = 2


class UnknownReferenceError(InvalidInputError):
    """Nothing in the store has this name or digest.

    A REF is the name of a root, a digest or its first 8 digits, or a path. `dis list` and `dis root list` show the
    names.
    """

    code = "E0203"


class RetainedRootError(InvalidInputError):
    """A root must be kept for some time yet, because the manifest of its run says so.

    The block says until when, and `dis root list` shows it. `dis root remove --force NAME` lets go of it all the same.
    """

    code = "E0206"


class BuildError(DisError):
    """A build, a fetch or a run failed.

    Where the block names a log, the log says more. What was finished before is kept.
    """

    code = "E0300"
    exit_code = 3


class LockTimeoutError(BuildError):
    """Another process held a lock for longer than --wait allows.

    The block names the process. It still works: wait longer, or end it. Locks end with their process, so there is
    never a file to be deleted.
    """

    code = "E0301"


class IntegrityError(DisError):
    """A digest, an archive, a lock or something in the store is not what it must be.

    See what else is damaged with `dis store verify --all`; `dis store reindex` sets damaged objects aside, and what was
    built is built again when it is asked for.
    """

    code = "E0400"
    exit_code = 4


class MissingObjectError(IntegrityError):
    """An object that something refers to is not in the store.

    It was collected because nothing kept it, or somebody deleted it. Realising the manifest again makes it again.
    """

    code = "E0401"


class DamagedRootError(IntegrityError):
    """The record of a root is damaged, so that nobody knows what it kept.

    Put back a copy of the file, or let go of it with `dis root remove NAME`. Until then `dis gc` frees nothing.
    """

    code = "E0402"


class DamagedIndexError(IntegrityError):
    """The index of the store is damaged or missing.

    All of it is also on disk in other files: `dis store reindex` makes it again.
    """

    code = "E0403"


class MismatchError(IntegrityError):
    """A file is not the one that its manifest declares or its lock pins.

    Bring back the right file, or pin the one that is there: `dis lock CONFIG --update NAME`.
    """

    code = "E0404"


class UnfitEnvironmentError(DisError):
    """This machine or this version cannot do it.

    Nothing is wrong with what was given. `dis doctor` shows what this machine lacks.
    """

    code = "E0500"
    exit_code = 5


class DiskFullError(UnfitEnvironmentError):
    """The disk has too little room.

    `dis gc` frees what no root keeps, also on a full disk; `--store DIR` names another place.
    """

    code = "E0501"


class UnwritableStoreError(UnfitEnvironmentError):
    """The store cannot be written by this user, or `chattr` has made a part of it unchangeable, for root as well.

    Questions such as `dis list` and `dis show` can be asked all the same.
    """

    code = "E0502"


class TooNewError(UnfitEnvironmentError):
    """The store was made or changed by a newer version of dis, which this one does not understand.

    Use that version, or another store: `--store DIR`.
    """

    code = "E0503"


class UnsupportedError(UnfitEnvironmentError):
    """A manifest or a command asks for what this version of dis does not do.

    For example an engine that it does not have, or a feature of a model that the engine does not know.
    """

    code = "E0504"


class LittleMemoryError(UnfitEnvironmentError):
    """This machine has too little memory for the model and what belongs to it."""

    code = "E0505"


class InterruptedBuildError(DisError):
    """The user interrupted; what was finished stays finished.

    The same command goes on from there.
    """

    code = "E1300"
    exit_code = 130
