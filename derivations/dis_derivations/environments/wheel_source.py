"""One wheel as a source: on the index that the user's pip goes to, by its file name and SHA-256."""

import re
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from dis_derivations.environments.pip_report import ResolvedWheel
from dis_derivations.environments.wheel_names import parse_wheel_name
from dis_derivations.sources.package_index import Arrival, PackageIndex, WheelChoice
from dis_derivations.sources.pip_download import Requirement, has_pip
from dis_derivations.sources.source import Problem, Unavailable, WantedFile
from dis_store.digest import Sha256
from dis_store.errors import BuildError
from dis_store.work_progress import uncounted

if TYPE_CHECKING:
    from dis_store import TreeWriter, WrittenFile

_PYTHON_TAG = re.compile(r"([a-z]+)([0-9])([0-9]*)")


@dataclass(frozen=True)
class PublishedWheel:
    """What an index says of a wheel: size in bytes, and digest."""

    size: int
    sha256: Sha256


class WheelSource:
    """The index that pip goes to, for one wheel.

    Args:
        file: The name of the wheel.
        sha256: Of its bytes, where it is known; else what comes under that name is taken.
        found: Where the resolver has found it; None where pip is to be asked.
        index: Where it is fetched from; None for the one of this process's pip.

    Attributes:
        remarks: What is to be told of the last fetch, a line each.
    """

    def __init__(
        self,
        file: str,
        sha256: Sha256 | None,
        found: ResolvedWheel | None = None,
        index: PackageIndex | None = None,
    ) -> None:
        self._file = file
        self._sha256 = sha256
        self._found = found
        self._index = index or PackageIndex()
        self._published: PublishedWheel | None = None
        self.remarks: list[str] = []

    def describe(self) -> str:
        """Return where it comes from."""
        origin = "" if self._found is None else self._found.origin
        return origin or f"{self._file} on the package index"

    def available(self) -> Unavailable | None:
        """Return that there is no pip."""
        if has_pip():
            return None
        return Unavailable(
            reason="the Python that runs dis has no pip, which fetches packages",
            hint="install it: python -m ensurepip",
        )

    def listing(self) -> list[str]:
        """Return the wheel."""
        return [self._file]

    def problem(self, path: str) -> Problem | None:
        """Return that this is no wheel."""
        try:
            parse_wheel_name(path)
        except ValueError as error:
            return Problem("not_found", str(error))
        return None

    def disagreement(self, paths: Sequence[str]) -> Problem | None:  # noqa: ARG002 - there is one
        """Return None."""
        return None

    def size(self, path: str) -> int | None:  # noqa: ARG002 - there is one
        """Return None: no server is asked for every wheel of an environment before the first is fetched."""
        return None

    def published(self, path: str) -> PublishedWheel | None:
        """Return what the index says of the wheel; None where it says too little, or the wheel is on this machine."""
        if self._published is None and self._found is not None and not self._found.is_local:
            sha256 = self._sha256
            size = None if sha256 is None else self._index.size(self._found)
            if self._found.file == path and sha256 is not None and size is not None:
                self._published = PublishedWheel(size, sha256)
        return self._published

    def fetch(
        self,
        files: Sequence[WantedFile],
        writer: "TreeWriter",
        check_interrupted: Callable[[], None],
        on_bytes: Callable[[int], None] = uncounted,
    ) -> "list[WrittenFile]":
        """Write the wheel into a tree, or go on with what an earlier fetch left.

        Raises:
            MismatchError: It is another one than was wanted.
            BuildError: It cannot be had.
        """
        from dis_derivations.sources.local import check_arrived
        from dis_derivations.transport.transfer import Listener
        from dis_store.writing.work_space import work_space

        self.remarks.clear()
        (file,) = files
        wanted = WantedFile(file.path, file.size, file.sha256 or self._sha256)
        named = parse_wheel_name(wanted.path)
        requirement = Requirement(named.package, named.version)
        choice = WheelChoice(requirement, [*_platform_options(wanted.path)], f"like {wanted.path}")
        if self._found is None:
            with work_space(writer.foundation.layout.room("tmp")) as space:
                self._found = self._index.locate(choice, space.path, check_interrupted)
        arrival = Arrival(writer, Listener(on_bytes, check_interrupted), self.remarks.append)
        written = self._index.fetch(choice, self._found, wanted, arrival)
        check_arrived(wanted, written, self.describe())
        return [written]


def _platform_options(file: str) -> Iterator[str]:
    """Yield the options with which pip takes this wheel, whatever the Python and the machine that it runs on."""
    pythons, abis, platforms = (
        part.split(".") for part in file.removesuffix(".whl").split("-")[-3:]
    )
    for platform in platforms:
        yield from ("--platform", platform)
    for abi in abis:
        yield from ("--abi", abi)
    # Of `py2.py3` the newer, of `cp311` the only one.
    tag = max(pythons, key=lambda each: (each.startswith("cp"), len(each), each))
    found = _PYTHON_TAG.fullmatch(tag)
    if found is None:
        raise BuildError(f"the wheel {file} is for a Python that is not known: {tag}")
    yield from ("--implementation", found[1])
    if found[3]:
        yield from ("--python-version", f"{found[2]}.{found[3]}")
