"""Files of an object as a source: of this store, or of another one, which is read and verified and never trusted."""

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
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
from dis_store.digest import Digest
from dis_store.errors import BuildError, DisError, InvalidInputError, UnfitEnvironmentError
from dis_store.work_progress import uncounted

if TYPE_CHECKING:
    from dis_store import TreeWriter, WrittenFile
    from dis_store.contents import ResolvedFile
    from dis_store.reading import StoreReader

_HINT = (
    "see the roots that there are: dis root list; bring the object here: dis store import, or name the directory of "
    "the store that has it as local_path"
)


class StoreObject:
    """The files of one object.

    Args:
        name: Its digest, or the name of a root that keeps it.
        directory: Of the object; the files are below it. Empty for all of it.
        store: The store that is worked in; None where there is none.
        place: The directory of another store that has the object; None for `store`.
        locked: The digest of the object that a lock pins; the root is not asked then.
        check: Looks at each file before it is taken.
        check_all: Looks at all files together.
    """

    def __init__(
        self,
        name: str,
        directory: str = "",
        *,
        store: "StoreReader | None" = None,
        place: Path | None = None,
        locked: str | None = None,
        check: Check = accept,
        check_all: CheckAll = accept_all,
    ) -> None:
        self._name = name
        self._below = f"{directory.rstrip('/')}/" if directory else ""
        self._store = store
        self._place = place
        self._locked = locked
        self._check = check
        self._check_all = check_all
        self._seen: tuple[Digest, dict[str, ResolvedFile]] | DisError | None = None

    def describe(self) -> str:
        """Return the object, its directory, and the store where that is another one."""
        place = "the store" if self._place is None else f"the store {self._place}"
        return f"{self._name}{'/' if self._below else ''}{self._below.rstrip('/')} of {place}"

    def available(self) -> Unavailable | None:
        """Return why there is no such object."""
        found = self._look()
        return Unavailable(str(found), found.hint or _HINT) if isinstance(found, DisError) else None

    def listing(self) -> list[str]:
        """Return its files, without those in subdirectories."""
        found = self._look()
        return [] if isinstance(found, DisError) else sorted(p for p in found[1] if "/" not in p)

    def problem(self, path: str) -> Problem | None:
        """Return why a file cannot be taken."""
        found = self._look()
        if isinstance(found, DisError):
            return Problem("source_unavailable", str(found), found.hint)
        if path not in found[1]:
            return Problem("not_found", f"{self.describe()} has no file {path}")
        return _refusal(lambda: self._check(path, found[1][path].real))

    def disagreement(self, paths: Sequence[str]) -> Problem | None:
        """Return why the files do not make one artifact."""
        found = self._look()
        if isinstance(found, DisError):
            return None
        return _refusal(lambda: self._check_all({path: found[1][path].real for path in paths}))

    def size(self, path: str) -> int | None:
        """Return the bytes of a file."""
        found = self._look()
        if isinstance(found, DisError) or path not in found[1]:
            return None
        return found[1][path].size

    def commit(self) -> str:
        """Return the digest of the object: what the root's name stands for now.

        Raises:
            DisError: There is no such object.
        """
        return self._found()[0]

    def fetch(
        self,
        files: Sequence[WantedFile],
        writer: "TreeWriter",
        check_interrupted: Callable[[], None],
        on_bytes: Callable[[int], None] = uncounted,
    ) -> "list[WrittenFile]":
        """Read each file into the tree and compare it with the object's manifest; one of this store gets another name.

        Raises:
            IntegrityError: A file is not what the object says, or not what was wanted.
            BuildError: A file is not there, or is refused.
        """
        digest, _ = self._found()
        written = []
        with self._opened() as store:
            if not store.is_valid(digest):
                raise BuildError(f"{self.describe()} is not there any more", hint=_HINT)
            for file in files:
                check_interrupted()
                if (problem := self.problem(file.path)) is not None:
                    raise BuildError(f"{file.path} cannot be fetched", cause=problem.message)
                written.append(self._take(file, writer, on_bytes))
        return written

    def _take(
        self,
        wanted: WantedFile,
        writer: "TreeWriter",
        on_bytes: Callable[[int], None],
    ) -> "WrittenFile":
        from dis_derivations.sources.local import check_arrived
        from dis_store.contents import changed
        from dis_store.writing.arrivals import take_stored

        file = self._found()[1][wanted.path]
        written = None
        if self._place is None:
            written = take_stored(writer, wanted.path, file.blake3, file.size, on_bytes)
        if written is None:
            written = writer.ingest(wanted.path, file.real, executable=False, on_bytes=on_bytes)
        if written.blake3 != file.blake3:
            raise changed(file, f"its BLAKE3 is {written.blake3}, and must be {file.blake3}")
        check_arrived(wanted, written, self.describe())
        return written

    def _found(self) -> "tuple[Digest, dict[str, ResolvedFile]]":
        found = self._look()
        if isinstance(found, DisError):
            raise found
        return found

    def _look(self) -> "tuple[Digest, dict[str, ResolvedFile]] | DisError":
        """Return the object and its files by path, or why there is none."""
        if self._seen is None:
            try:
                with self._opened() as store:
                    digest = self._resolved(store)
                    self._seen = (digest, self._files(store, digest))
            except DisError as error:
                self._seen = error
        return self._seen

    def _files(self, store: "StoreReader", digest: Digest) -> "dict[str, ResolvedFile]":
        return {
            file.path.removeprefix(self._below): file
            for file in store.files(digest)
            if file.path.startswith(self._below)
        }

    def _resolved(self, store: "StoreReader") -> Digest:
        if self._locked is not None:
            return Digest(self._locked)
        root = store.root(self._name)
        if root is not None:
            return root.object
        try:
            return Digest(self._name)
        except InvalidInputError:
            raise BuildError(f"{self.describe()} is not there", hint=_HINT) from None

    @contextmanager
    def _opened(self) -> "Iterator[StoreReader]":
        if self._place is not None:
            from dis_store import Store

            with Store.open(self._place, create=False, reading=True) as store:
                yield store
        elif self._store is not None:
            yield self._store
        else:
            raise UnfitEnvironmentError(f"{self.describe()} is not known without a store")


def _refusal(check: Callable[[], None]) -> Problem | None:
    try:
        check()
    except DisError as error:
        unfit = isinstance(error, UnfitEnvironmentError)
        reason: Reason = "format_unavailable" if unfit else "unsafe_file"
        return Problem(reason, str(error), error.hint)
    return None
