"""Files at addresses as a source: one file, or a directory whose files the manifest lists, and mirrors of it."""

from collections.abc import Callable, Sequence
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
from dis_store.errors import BuildError, DisError, InvalidInputError
from dis_store.work_progress import uncounted

if TYPE_CHECKING:
    from dis_derivations.transport.address import Address
    from dis_derivations.transport.answer import Version
    from dis_derivations.transport.client import Client
    from dis_store import TreeWriter, WrittenFile


class UrlSource:
    """Files at one address, and at mirrors of it.

    Args:
        url: Of a directory, then it ends with `/`, or of one file.
        mirrors: Addresses of the same, tried in order where the one before fails.
        check: Looks at each file before it is taken.
        check_all: Looks at all files together.
        name: The path of the one file that `url` is the address of, whatever it is called there; None where it is a
            directory, or an address of a file whose name is not known beforehand.
        inherited: Whether the address is that of another artifact, whose files are below the same directory.
        client: Who asks; None for one of this process.

    Attributes:
        remarks: What is to be told of the last fetch: mirrors that were passed over, a line each.
    """

    def __init__(
        self,
        url: str,
        mirrors: Sequence[str] = (),
        *,
        check: Check = accept,
        check_all: CheckAll = accept_all,
        name: str | None = None,
        inherited: bool = False,
        client: "Client | None" = None,
    ) -> None:
        self._url = url
        self._places = (url, *mirrors)
        self._check = check
        self._check_all = check_all
        self._name = name
        self._inherited = inherited
        self.remarks: list[str] = []
        self._given_client = client
        self._seen: dict[str, Version | DisError] = {}

    def describe(self) -> str:
        """Return the address."""
        return self._url

    def available(self) -> Unavailable | None:
        """Return None: whether there is anything is told file by file."""
        return None

    def listing(self) -> list[str]:
        """Return nothing but the one file whose address it is: servers do not tell what they have."""
        return [] if self._name is None else [self._name]

    def problem(self, path: str) -> Problem | None:
        """Return why the file cannot be had, as far as its name and the servers' headers tell."""
        from dis_derivations.artifacts.weights_check import check_name
        from dis_derivations.transport.errors import RefusedRequestError

        try:
            check_name(path)
        except InvalidInputError as error:
            return Problem("unsafe_file", str(error), error.hint)
        found = self._look(path)
        if not isinstance(found, DisError):
            return None
        missing = isinstance(found, RefusedRequestError) and found.is_missing
        wrong = isinstance(found, InvalidInputError)
        reason: Reason = (
            "not_found" if missing else "unsafe_file" if wrong else "source_unavailable"
        )
        return Problem(reason, str(found), found.hint)

    def disagreement(self, paths: Sequence[str]) -> Problem | None:
        """Return why one address cannot be that of all these files; what is in them is not known yet."""
        if self._url.endswith("/") and self._name is None:
            return None
        if self._inherited:
            return Problem(
                "not_a_file",
                f"{self._url} is the address of one file, which is another one",
                "name a source of its own for each artifact, or the address of a directory, with '/' at its end",
            )
        if len(paths) > 1:
            return Problem(
                "not_a_file",
                f"{self._url} is the address of one file, and {len(paths)} are wanted from it",
                "let the address end with '/', if it is a directory's",
            )
        return None

    def size(self, path: str) -> int | None:
        """Return the bytes of the file, where a server tells."""
        found = self._look(path)
        return None if isinstance(found, DisError) else found.size

    def fetch(
        self,
        files: Sequence[WantedFile],
        writer: "TreeWriter",
        check_interrupted: Callable[[], None],
        on_bytes: Callable[[int], None] = uncounted,
    ) -> "list[WrittenFile]":
        """Download each file, or go on with what an earlier download left.

        Raises:
            MismatchError: No address has the right bytes.
            BuildError: A file cannot be had.
            InvalidInputError: A file could run code, or does not parse.
        """
        from dis_derivations.transport.fetching import Fetcher, RemoteFile
        from dis_derivations.transport.transfer import Listener

        if (together := self.disagreement([file.path for file in files])) is not None:
            raise BuildError(together.message, hint=together.hint)
        self.remarks.clear()
        listener = Listener(on_bytes, check_interrupted)
        fetcher = Fetcher(self._client(), writer, listener, self._check, self.remarks.append)
        written = fetcher.fetch(
            [
                RemoteFile(file, self._addresses(file.path), told_size=self._told_size(file))
                for file in files
            ]
        )
        self._check_all({file.path: writer.finished_file(file.path) for file in written})
        return written

    def _told_size(self, file: WantedFile) -> int | None:
        """Return the bytes of a file whose SHA-256 is known and nothing else, so that the store can be asked for it."""
        return self.size(file.path) if file.size is None and file.sha256 is not None else None

    def _addresses(self, path: str) -> "tuple[Address, ...]":
        from dis_derivations.transport.address import parse_address

        places = [parse_address(place) for place in self._places]
        # Mirrors are directories or files as the address is: what is fetched is checked in any case.
        return tuple(
            place.below(path) if place.path.endswith("/") and self._name is None else place
            for place in places
        )

    def _look(self, path: str) -> "Version | DisError":
        """Return what the first server says that has the file; or why the first one does not give it."""
        if path not in self._seen:
            failures: list[DisError] = []
            for address in self._addresses(path):
                try:
                    self._seen[path] = self._client().look(address)
                    break
                except DisError as error:
                    failures.append(error)
            else:
                self._seen[path] = failures[0]
        return self._seen[path]

    def _client(self) -> "Client":
        if self._given_client is None:
            from dis_derivations.transport.client import Client

            self._given_client = Client.of()
        return self._given_client
