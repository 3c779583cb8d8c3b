"""A store, a misbehaving server, and a client that is patient for fractions of a second."""

import hashlib
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path

import pytest

from dis_derivations.sources.source import WantedFile
from dis_derivations.transport.address import Address, parse_address
from dis_derivations.transport.client import Client
from dis_derivations.transport.conduct import Conduct
from dis_derivations.transport.fetching import Fetcher, RemoteFile
from dis_derivations.transport.transfer import Listener
from dis_store import Store
from dis_store.digest import Digest, Sha256
from file_server import Script, Served, Serving, serving

CONDUCT = Conduct(
    connect_seconds=2.0,
    silence_seconds=0.5,
    answer_seconds=1.5,
    slow_seconds=0.4,
    slow_bytes=4096,
    attempts=4,
    progress_bytes=1024,
    first_delay=0.01,
    longest_delay=0.02,
    longest_retry_after=2.0,
    ranges=4,
    piece_bytes=32 << 10,
)
BYTES = hashlib.shake_256(b"a file").digest(300_001)
SHA256 = Sha256(f"sha256:{hashlib.sha256(BYTES).hexdigest()}")


def accept(_path: str, _file: Path) -> None:
    """Accept any file."""


@dataclass
class Fetching:
    """Fetches files of one server into one store.

    Attributes:
        came: The bytes that were told of.
        notes: What was said of addresses that were passed over.
    """

    top: Path
    serving: Serving
    client: Client
    came: int = 0
    notes: list[str] = field(default_factory=list)
    interrupted: Callable[[], None] = lambda: None
    check: Callable[[str, Path], None] = accept

    @property
    def script(self) -> Script:
        return self.serving.script

    def address(self, path: str = "/file") -> Address:
        return parse_address(self.serving.url(path))

    def count(self, amount: int) -> None:
        self.came += amount

    def fetch(
        self,
        *addresses: Address,
        size: int | None = None,
        sha256: Sha256 | None = None,
        register: bool = True,
    ) -> bytes:
        """Fetch one file from the first of the addresses that has it, and return it as it is in the object."""
        wanted = WantedFile("file", size, sha256)
        file = RemoteFile(wanted, addresses or (self.address(),))
        with Store.open(self.top) as store, store.new_tree() as tree:
            listener = Listener(self.count, self.interrupted)
            fetcher = Fetcher(self.client, tree, listener, self.check, self.notes.append)
            (written,) = fetcher.fetch([file])
            data = tree.finished_file("file").read_bytes()
            assert written.sha256 == f"sha256:{hashlib.sha256(data).hexdigest()}"
            assert written.blake3 == Digest.of(data)
            if register:
                store.verify([tree.register()])
            return data

    def left(self) -> list[Path]:
        """Return what is kept of downloads that are not finished."""
        return sorted((self.top / "downloads").glob("*/part"))

    def objects(self) -> int:
        with Store.open(self.top) as store:
            return len(store.objects())


@pytest.fixture
def site(tmp_path: Path) -> Iterator[Fetching]:
    """A server that has a file at `/file`, and a store."""
    with serving(Script({"/file": Served(BYTES)})) as running:
        client = Client.of(CONDUCT, {})
        yield Fetching(tmp_path / "store", running, client)
        client.connections.close()
