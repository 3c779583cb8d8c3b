"""One file of a source under a name of ours, so that what it is called there is part of no identity."""

from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING

from dis_derivations.sources.source import Problem, Resolving, Source, Unavailable, WantedFile
from dis_store.work_progress import uncounted

if TYPE_CHECKING:
    from dis_store import TreeWriter, WrittenFile


class OneFile:
    """One file of another source.

    Args:
        source: Has it.
        path: What it is called there; None where the manifest does not say.
        name: What it is called here.
        field: The JSON Pointer of the source, for messages.
    """

    def __init__(self, source: Source, path: str | None, name: str, field: str) -> None:
        self._source = source
        self._path = path or ""
        self._name = name
        self._field = field.strip("/").replace("/", ".")

    def describe(self) -> str:
        """Return the file, and what the other source calls itself."""
        place = self._source.describe()
        return f"{self._path} of {place}" if self._path else place

    def available(self) -> Unavailable | None:
        """Return why the other source cannot be used."""
        return self._source.available()

    def listing(self) -> list[str]:
        """Return its one name."""
        return [self._name]

    def problem(self, path: str) -> Problem | None:  # noqa: ARG002 - it has one file only
        """Return why the file cannot be taken."""
        if not self._path:
            place = self._source.describe()
            hint = f"name the file by its path in it: --set {self._field}.path=PATH"
            return Problem(
                "not_found", f"which file of {place} it is, the manifest does not say", hint
            )
        problem = self._source.problem(self._path)
        if problem is None or self._path in problem.message:
            return problem
        return replace(problem, message=f"{self._path}: {problem.message}")

    def disagreement(self, paths: Sequence[str]) -> Problem | None:  # noqa: ARG002 - as above
        """Return None: one file agrees with itself."""
        return None

    def size(self, path: str) -> int | None:  # noqa: ARG002 - as above
        """Return the bytes of the file, where they are known."""
        return self._source.size(self._path) if self._path else None

    def fetch(
        self,
        files: Sequence[WantedFile],
        writer: "TreeWriter",
        check_interrupted: Callable[[], None],
        on_bytes: Callable[[int], None] = uncounted,
    ) -> "list[WrittenFile]":
        """Let the other source write it into a tree of its own, and take it from there.

        Raises:
            DisError: As the other source.
        """
        from dis_store import TreeWriter

        written = []
        for file in files:
            inner = WantedFile(self._path, file.size, file.sha256)
            with TreeWriter(writer.foundation, reuses=writer.reuses) as scratch:
                self._source.fetch([inner], scratch, check_interrupted, on_bytes)
                place = scratch.finished_file(self._path)
                written.append(writer.ingest(file.path, place, executable=False))
        return written


class OneResolvedFile(OneFile):
    """One file of a source whose revision may move."""

    def commit(self) -> str:
        """Return the commit of the other source.

        Raises:
            DisError: It cannot be told.
        """
        assert isinstance(self._source, Resolving)  # noqa: S101 - `one_file` looked
        return self._source.commit()


def one_file(source: Source, path: str | None, name: str, *, field: str) -> Source:
    """Return a source that has one file of another one, called `name`."""
    kind = OneResolvedFile if isinstance(source, Resolving) else OneFile
    return kind(source, path, name, field)
