"""The bytes of files of a hub, fetched as those of any server are, with the token for the hub."""

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

from dis_derivations.sources.expected_file import ExpectedFile
from dis_derivations.sources.hub_client import HubAccessError, access_hint
from dis_derivations.sources.hub_repository import HubRepository
from dis_derivations.sources.hub_xet import xet_download
from dis_derivations.sources.source import Check, WantedFile
from dis_derivations.transport.address import Address, parse_address
from dis_derivations.transport.client import Client
from dis_derivations.transport.conduct import Conduct
from dis_derivations.transport.errors import RefusedRequestError
from dis_derivations.transport.fetching import Fetcher, RemoteFile
from dis_derivations.transport.transfer import Listener

if TYPE_CHECKING:
    from dis_store import TreeWriter, WrittenFile

CONDUCT = Conduct()
"""How patient the requests are; how long a hub may be silent is the user's to say."""
_NO_ACCESS = frozenset({401, 403})


def download(
    repository: HubRepository,
    expected: ExpectedFile,
    writer: "TreeWriter",
    listener: Listener,
    check: Check,
) -> "WrittenFile":
    """Fetch a file into a tree, going on with what an earlier download left.

    Nothing is taken before it is compared with all that is expected, and `check` has looked at it.

    Raises:
        MismatchError: It is not what was expected.
        HubAccessError: It is not for this user.
        BuildError: It cannot be had.
        DisError: What `check` raises.
    """

    def judge(path: str, file: Path) -> None:
        expected.check_blob(file, str(repository))
        check(path, file)

    with _access_explained(repository):
        written = xet_download(repository, expected, writer, listener, judge)
    if written is not None:
        return written
    fetcher = Fetcher(_client(repository), writer, listener, judge, lambda _: None)
    wanted = WantedFile(expected.path, expected.size, expected.sha256)
    remote = RemoteFile(wanted, (_address(repository, expected),), _credentials(repository))
    with _access_explained(repository):
        (written,) = fetcher.fetch([remote])
    return written


def read_bytes(repository: HubRepository, expected: ExpectedFile, limit: int) -> bytes:
    """Return a small file.

    Raises:
        MismatchError: It is not what was expected.
        HubAccessError: It is not for this user.
        BuildError: It cannot be had, or is longer than `limit`.
    """
    address = _address(repository, expected)
    with _access_explained(repository):
        data = _client(repository).read(address, limit, _credentials(repository))
    expected.check_bytes(data, str(repository))
    return data


def _client(repository: HubRepository) -> Client:
    seconds = repository.settings.seconds
    return Client.of(CONDUCT if seconds is None else replace(CONDUCT, silence_seconds=seconds))


def _address(repository: HubRepository, expected: ExpectedFile) -> Address:
    return parse_address(repository.url(expected.path))


def _credentials(repository: HubRepository) -> Mapping[str, str]:
    """Return the token as a header: none is not the password that ~/.netrc may have for this host."""
    token = repository.authorised.token
    return {} if token is None else {"Authorization": f"Bearer {token}"}


@contextmanager
def _access_explained(repository: HubRepository) -> Iterator[None]:
    try:
        yield
    except RefusedRequestError as error:
        if error.status not in _NO_ACCESS:
            raise
        hint = access_hint(repository.authorised, repository.name)
        raise HubAccessError(error.what, cause=error.cause, hint=hint) from error
