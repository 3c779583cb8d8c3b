"""One wheel as a source: the user's pip fetches it from their index, by its file name and SHA-256."""

import re
from collections.abc import Callable, Iterator, Sequence
from typing import TYPE_CHECKING

from dis_derivations.environments.wheel_names import parse_wheel_name
from dis_derivations.sources.pip_download import Requirement, download_exact_wheel, has_pip
from dis_derivations.sources.source import Problem, Unavailable, WantedFile, uncounted
from dis_store.digest import Sha256
from dis_store.errors import BuildError, MismatchError

if TYPE_CHECKING:
    from dis_store import TreeWriter, WrittenFile

_PYTHON_TAG = re.compile(r"([a-z]+)([0-9])([0-9]*)")


class WheelSource:
    """The index that pip goes to, for one wheel.

    Args:
        file: The name of the wheel.
        sha256: Of its bytes, where it is known; else what comes under that name is taken.
        origin: The address that the resolver gave, without secrets; empty where there is none.
    """

    def __init__(self, file: str, sha256: Sha256 | None, origin: str = "") -> None:
        self._file = file
        self._sha256 = sha256
        self._origin = origin

    def describe(self) -> str:
        """Return where it comes from."""
        return self._origin or f"{self._file} on the package index"

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

    def size(self, path: str) -> int | None:  # noqa: ARG002 - pip does not tell
        """Return None: pip does not tell before it has fetched it."""
        return None

    def fetch(
        self,
        files: Sequence[WantedFile],
        writer: "TreeWriter",
        check_interrupted: Callable[[], None],
        on_bytes: Callable[[int], None] = uncounted,
    ) -> "list[WrittenFile]":
        """Have pip fetch the wheel, and write it into a tree.

        Raises:
            MismatchError: It is another one than was wanted.
            BuildError: pip could not fetch it.
        """
        from dis_derivations.sources.local import check_arrived
        from dis_store.writing.work_space import work_space

        (wanted,) = files
        sha256 = wanted.sha256 or self._sha256
        named = parse_wheel_name(wanted.path)
        requirement = Requirement(named.package, named.version)
        options = [*_platform_options(wanted.path)]
        if sha256 is not None:
            options.append(f"--hash={sha256}")
        with work_space(writer.foundation.layout.room("tmp")) as space:
            path = download_exact_wheel(requirement, options, space.path, check_interrupted)
            if path.name != wanted.path:
                raise BuildError(
                    f"pip fetched {path.name} when {wanted.path} was asked for",
                    hint="look which index pip goes to: pip config list",
                )
            written = writer.ingest(wanted.path, path, executable=False, on_bytes=on_bytes)
        if sha256 is not None and written.sha256 != sha256:
            raise MismatchError(
                f"{wanted.path} is not the wheel that was locked",
                cause=f"wanted {sha256}, pip fetched {written.sha256}",
                hint="look which index pip goes to: pip config list",
            )
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
