"""Large files of a hub by its own way of storing them, Xet, where `hf_xet` is installed and the hub offers it.

The bytes come in order and are appended to a download of the store, so an interrupted one goes on. What `hf_xet` gets
is a token of the storage for an hour, never the hub's. Whatever goes wrong here is no error: the file is then fetched
over plain HTTP, and an error of that is told.
"""

import contextlib
import os
from collections.abc import Iterator
from importlib.util import find_spec
from typing import TYPE_CHECKING, Any

from dis_derivations.sources.expected_file import ExpectedFile
from dis_derivations.sources.hub_client import SECONDS, HubError, hub_client
from dis_derivations.sources.hub_repository import HubRepository
from dis_derivations.sources.hub_settings import origin_of
from dis_derivations.transport.address import parse_address
from dis_derivations.transport.patience import bounded
from dis_derivations.transport.transfer import Listener
from dis_derivations.version import VERSION
from dis_store.digest import Digest
from dis_store.environment import reported
from dis_store.errors import DisError
from dis_store.hashing import hash_content
from dis_store.platform_linux import write_all
from dis_store.writing.arrivals import take_download
from dis_store.writing.downloads import Download, downloading

if TYPE_CHECKING:
    from dis_derivations.sources.source import Check
    from dis_store import TreeWriter, WrittenFile

LEAST_BYTES = 16 << 20
"""A smaller file is there sooner over plain HTTP, which asks one server less."""
_TRUE = frozenset({"1", "ON", "YES", "TRUE"})
_SILENT = {"HF_XET_LOG_DEST": os.devnull, "HF_HUB_DISABLE_TELEMETRY": "1"}
_SETTINGS = {
    "telemetry.enabled": False,
    "client.read_timeout": "60s",
    "client.retry_base_delay": "500ms",
    "client.retry_max_attempts": 2,
    "client.retry_max_duration": "60s",
}


def xet_download(
    repository: HubRepository,
    expected: ExpectedFile,
    writer: "TreeWriter",
    listener: Listener,
    check: "Check",
) -> "WrittenFile | None":
    """Fetch a file into a tree; None where it cannot be had this way, or what came is not the file.

    Raises:
        DisError: The user asked to stop, the disk is full, or `check` refuses the file.
    """
    if not _is_worth_it(expected):
        return None
    with downloading(writer.foundation, _key(expected), listener.check_interrupted) as download:
        came = 0

        def count(amount: int) -> None:
            nonlocal came
            came += amount
            listener.on_bytes(amount)

        follower = Listener(count, listener.check_interrupted)
        if _filled(repository, expected, download, follower):
            descriptor, _ = download.open()
            try:
                content = hash_content(descriptor)
            finally:
                os.close(descriptor)
            if content.sha256 == expected.sha256:
                check(expected.path, download.part)
                return take_download(writer, expected.path, download, content)
        os.close(download.start_over())
        listener.on_bytes(-came)
    return None


def _is_worth_it(expected: ExpectedFile) -> bool:
    """Return whether a file is large, its digest known, and `hf_xet` there and allowed."""
    if expected.sha256 is None or expected.size is None or expected.size < LEAST_BYTES:
        return False
    forbidden = os.environ.get("HF_HUB_DISABLE_XET", "").upper() in _TRUE
    return not forbidden and find_spec("hf_xet") is not None


def _key(expected: ExpectedFile) -> Digest:
    """Return what an unfinished download is kept under; not under what plain HTTP would go on with."""
    return Digest.of(f"xet {expected.sha256}".encode())


def _filled(
    repository: HubRepository, expected: ExpectedFile, download: Download, listener: Listener
) -> bool:
    """Append all that is missing; return whether it came."""
    size, store = expected.size or 0, download.foundation.top
    descriptor, is_writable = download.open()
    try:
        position = os.fstat(descriptor).st_size
        if not is_writable or position > size:
            return position == size
        listener.on_bytes(position)
        os.lseek(descriptor, position, os.SEEK_SET)
        for piece in _pieces(repository, expected, position, listener):
            position += len(piece)
            if position > size:
                return False
            with reported(store):
                write_all(descriptor, piece)
            listener.on_bytes(len(piece))
    except HubError:
        return False
    except DisError:
        raise
    except Exception:  # noqa: BLE001 - a library in another language, and a server behind it: all may happen
        return False
    finally:
        os.close(descriptor)
    return position == size


def _pieces(
    repository: HubRepository, expected: ExpectedFile, start: int, listener: Listener
) -> Iterator[bytes]:
    """Yield the bytes of a file from `start` on, in order; none where the hub does not offer it this way."""
    offer = _offer(repository, expected)
    if offer is None or start == expected.size:
        return
    name, storage = offer
    with _silence():
        import hf_xet

        session = hf_xet.XetSession(hf_xet.XetConfig().with_config(_SETTINGS))
    # `parse_address` refuses what is not encrypted.
    parse_address(storage.endpoint)
    with session.new_download_stream_group(
        endpoint=storage.endpoint,
        token=storage.access_token,
        token_expiry_unix_secs=storage.expiration_unix_epoch,
        custom_headers={"User-Agent": f"dis/{VERSION}"},
    ) as group:
        info = hf_xet.XetFileInfo(name, expected.size)
        stream = iter(group.download_stream(info, start=start))
        seconds = 2 * (repository.settings.seconds or 6 * SECONDS)
        while piece := bounded(lambda: next(stream, None), seconds, listener.check_interrupted):
            yield piece


def _offer(repository: HubRepository, expected: ExpectedFile) -> "tuple[str, Any] | None":
    """Return the name of a file in the storage, and the way to the storage with a token for it."""
    from huggingface_hub.file_download import get_hf_file_metadata
    from huggingface_hub.utils import build_hf_headers
    from huggingface_hub.utils._xet import refresh_xet_connection_info

    settings = repository.authorised
    hub_client(settings)
    token = settings.token or False
    found = get_hf_file_metadata(
        repository.url(expected.path), token=token, endpoint=settings.endpoint, library_name="dis"
    ).xet_file_data
    # The token goes with the question for the storage's own token.
    if found is None or origin_of(found.refresh_route) != settings.origin:
        return None
    headers = build_hf_headers(token=token, library_name="dis", library_version=VERSION)
    return found.file_hash, refresh_xet_connection_info(file_data=found, headers=headers)


@contextlib.contextmanager
def _silence() -> Iterator[None]:
    """Let `hf_xet` find, when it is imported, that nobody wants a log in the home directory or a report sent."""
    before = {name: os.environ.get(name) for name in _SILENT}
    os.environ.update(_SILENT)
    try:
        yield
    finally:
        for name, value in before.items():
            if value is None:
                os.environ.pop(name, None)
            else:
                os.environ[name] = value
