"""The indexes of the user's pip: pip says where a wheel is, and dis fetches it, so that it goes on where it stopped.

Where an index demands what only pip can do (a keyring, a certificate of the user's, http on another machine), pip
fetches, and a download that breaks off begins again.
"""

import contextlib
import os
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING

from dis_derivations.environments.pip_report import ResolvedWheel, parse_report
from dis_derivations.sources.pip_download import (
    METADATA_ALONE,
    ONE_WHEEL,
    VARIABLES,
    Requirement,
    download_wheel,
    run_pip,
)
from dis_derivations.sources.pip_settings import PipSettings
from dis_derivations.sources.source import WantedFile, accept
from dis_store import strict_json
from dis_store.errors import BuildError, MismatchError

if TYPE_CHECKING:
    from dis_derivations.transport.client import Client
    from dis_derivations.transport.transfer import Listener
    from dis_store import TreeWriter, WrittenFile
    from dis_store.digest import Digest

# What a server answers to whom it does not know.
_UNKNOWN_USER = frozenset({401, 403, 407})


@dataclass(frozen=True)
class WheelChoice:
    """Which wheel is meant.

    Attributes:
        requirement: The package, and its version.
        options: Those of pip that say for which platforms it is.
        kind: The same in words.
    """

    requirement: Requirement
    options: Sequence[str]
    kind: str


@dataclass(frozen=True)
class Arrival:
    """Where a wheel goes, and who follows it.

    Attributes:
        writer: The tree that it becomes part of.
        listener: Who follows it.
        note: Told in one line when pip fetches it, and why.
    """

    writer: "TreeWriter"
    listener: "Listener"
    note: Callable[[str], None]


class PackageIndex:
    """All indexes that pip is set to. Threads may share it.

    Args:
        client: Who asks; None for one that trusts and goes through what pip is set to.
    """

    def __init__(self, client: "Client | None" = None) -> None:
        self._given_client = client

    @cached_property
    def settings(self) -> PipSettings:
        """The settings of pip.

        Raises:
            BuildError: pip does not say them.
        """
        return PipSettings.read()

    @cached_property
    def _client(self) -> "Client":
        from dis_derivations.transport.client import Client

        if self._given_client is not None:
            return self._given_client
        return Client.of(environment=self.settings.environment(os.environ))

    def locate(
        self, choice: WheelChoice, directory: Path, check_interrupted: Callable[[], None]
    ) -> ResolvedWheel:
        """Return the wheel that pip would take, and where it is. Of the wheel itself only metadata are read.

        An index that offers neither metadata nor parts of files makes pip fetch all of it for that.

        Args:
            choice: Which.
            directory: Where pip works; empty before, and of this call alone.
            check_interrupted: Called all the while; when it raises, pip is ended.

        Raises:
            BuildError: There is none, and why.
        """
        report = directory / "report.json"
        run_pip(
            [
                "install", *METADATA_ALONE, *ONE_WHEEL, *choice.options,
                # Platforms are for directories alone, and nothing is installed into this one.
                "--target", str(directory / "nothing"),
                "--report", str(report), "--", str(choice.requirement),
            ],
            directory,
            check_interrupted,
            failure=f"pip could not fetch {choice.requirement} as a wheel",
            hint=f"only wheels {choice.kind} are taken; pip goes by your own settings: pip config list",
            variables=VARIABLES,
        )  # fmt: skip
        found = parse_report(strict_json.decode(report.read_bytes(), name="pip's report"))
        if len(found) != 1:
            raise BuildError(f"pip found {len(found)} wheels for {choice.requirement}")
        return next(iter(found.values()))

    def _check_local(self, wheel: ResolvedWheel) -> None:
        """Refuse a file of this machine that only an index on another one can have named: pip reads it all the same."""
        if not self.settings.names_local_place():
            raise BuildError(
                f"{wheel.file} is not taken",
                cause="the package index leads to a file of this machine, and pip is set to no place on it",
                hint="look which index pip goes to: pip config list",
            )

    def size(self, wheel: ResolvedWheel) -> int | None:
        """Return the bytes of a wheel without fetching it; None where that is not told."""
        from dis_derivations.transport.address import UnsafeAddressError
        from dis_derivations.transport.errors import RefusedRequestError, TransferError

        if wheel.is_local:
            with contextlib.suppress(OSError):
                return wheel.path.stat().st_size
            return None
        if self.settings.hindrance(wheel.url) is not None:
            return None
        try:
            return self._client.look(self.settings.address_of(wheel.url)).size
        except (RefusedRequestError, TransferError, UnsafeAddressError):
            return None

    def fetch(
        self, choice: WheelChoice, wheel: ResolvedWheel, wanted: WantedFile, arrival: Arrival
    ) -> "WrittenFile":
        """Write a wheel into a tree, or go on with what an earlier fetch left.

        Args:
            choice: What pip is asked for where only pip can fetch it.
            wheel: Where it is.
            wanted: Its file name, and what is known of its bytes.
            arrival: Where it goes.

        Raises:
            MismatchError: It is another one than is wanted; names both digests.
            BuildError: It cannot be had.
        """
        differs = wheel.sha256 is not None and wanted.sha256 not in {None, wheel.sha256}
        if wheel.file != wanted.path or differs:
            return _another(choice, wheel, wanted, arrival)
        if wheel.is_local:
            self._check_local(wheel)
            return _taken(wanted, wheel.path, str(wheel.path), arrival)
        try:
            return self._transferred(wheel, wanted, arrival)
        except _OnlyPipError as hindrance:
            arrival.note(f"pip fetches {wheel.file}, from its beginning each time: {hindrance}")
        return _by_pip(choice, wanted, arrival)

    def _transferred(
        self, wheel: ResolvedWheel, wanted: WantedFile, arrival: Arrival
    ) -> "WrittenFile":
        from dis_derivations.transport.errors import RefusedRequestError
        from dis_derivations.transport.fetching import Fetcher, RemoteFile, key_of
        from dis_store.writing.downloads import finish

        if (hindrance := self.settings.hindrance(wheel.url)) is not None:
            raise _OnlyPipError(hindrance)
        fetcher = Fetcher(self._client, arrival.writer, arrival.listener, accept, arrival.note)
        address = self.settings.address_of(wheel.url)
        try:
            (written,) = fetcher.fetch([RemoteFile(wanted, (address,))])
        except RefusedRequestError as error:
            if error.status not in _UNKNOWN_USER:
                raise
            # Nothing has come, and nothing will.
            finish(arrival.writer.foundation, key_of(wanted, address))
            raise _OnlyPipError(error.cause or error.what) from error
        return written

    def kept_as(self, wheel: ResolvedWheel, wanted: WantedFile) -> "Digest | None":
        """Return what a fetch that stopped is kept under; None for what no fetch of dis brings."""
        from dis_derivations.transport.fetching import key_of

        if wheel.is_local or self.settings.hindrance(wheel.url) is not None:
            return None
        return key_of(wanted, self.settings.address_of(wheel.url))


class _OnlyPipError(Exception):
    """Only pip can fetch a wheel; the message says why."""


def _another(
    choice: WheelChoice, wheel: ResolvedWheel, wanted: WantedFile, arrival: Arrival
) -> "WrittenFile":
    """Let pip look for a wheel by its digest: the one that it would take is another one."""
    try:
        return _by_pip(choice, wanted, arrival)
    except BuildError as error:
        if wanted.sha256 is None or wheel.sha256 is None:
            raise
        raise MismatchError(
            f"{wanted.path} is not the wheel that was locked",
            cause=f"wanted {wanted.sha256}, the index has {wheel.sha256} ({wheel.file})",
            hint="look which index pip goes to: pip config list; "
            "or accept the new one: dis lock CONFIG --update NAME",
        ) from error


def _by_pip(choice: WheelChoice, wanted: WantedFile, arrival: Arrival) -> "WrittenFile":
    from dis_store.writing.work_space import work_space

    hashes = [] if wanted.sha256 is None else [f"--hash={wanted.sha256}"]
    with work_space(arrival.writer.foundation.layout.room("tmp")) as space:
        path = download_wheel(
            choice.requirement,
            [*choice.options, *hashes],
            space.path,
            arrival.listener.check_interrupted,
        )
        if path.name != wanted.path:
            raise BuildError(
                f"pip fetched {path.name} when {wanted.path} was asked for",
                hint="look which index pip goes to: pip config list",
            )
        return _taken(wanted, path, "the package index", arrival)


def _taken(wanted: WantedFile, path: Path, place: str, arrival: Arrival) -> "WrittenFile":
    written = arrival.writer.ingest(
        wanted.path, path, executable=False, on_bytes=arrival.listener.on_bytes
    )
    if wanted.sha256 not in {None, written.sha256}:
        raise MismatchError(
            f"{wanted.path} is not the wheel that was locked",
            cause=f"wanted {wanted.sha256}, found {written.sha256} at {place}",
            hint="look which index pip goes to: pip config list; "
            "or accept the new one: dis lock CONFIG --update NAME",
        )
    return written
