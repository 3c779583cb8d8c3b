"""What a kill in the middle of a transfer leaves: in the store that pulls, and in the registry that is pushed to.

Nothing of the program is asked: the bytes on the disk are compared with those that travel.
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path

from real_registry import RealRegistry

_PAGE = 4096
_TELLING = 64
PART = 2 << 20
"""The most bytes of a part once `make_parts_small` was called, and what may be on its way at a time."""


def make_parts_small() -> None:
    """Let files be cut, and bytes be sent, as they are, thirty times as small: called in the process that transfers."""
    from dis_derivations.distribution import file_parts
    from dis_derivations.registry import client

    vars(client).update(WHOLE_BYTES=PART)
    vars(file_parts).update(LARGEST=PART, SMALLEST=(1 << 20, PART))


def kept_bytes(store: Path, contents: Sequence[bytes]) -> int:
    """Return how many bytes of some contents, each of random bytes, lie in the unfinished downloads of a store."""
    present: list[set[int]] = [set() for _ in contents]
    for part in store.glob("downloads/*/part"):
        data = part.read_bytes()
        for number, content in enumerate(contents):
            start = 0 if len(data) == len(content) else content.find(data[:_TELLING])
            if data and start >= 0:
                present[number].update(_equal_pages(content, start, data))
    return sum(
        min(_PAGE, len(content) - page * _PAGE)
        for content, pages in zip(contents, present, strict=True)
        for page in pages
    )


def _equal_pages(content: bytes, start: int, data: bytes) -> Iterable[int]:
    """Yield which whole pages of a content some bytes hold, if they begin at `start` of it."""
    end = start + len(data)
    for page in range(-(-start // _PAGE), -(-end // _PAGE)):
        first = page * _PAGE
        last = min(first + _PAGE, len(content))
        if last <= end and data[first - start : last - start] == content[first:last]:
            yield page


@dataclass(frozen=True)
class Repository:
    """What a real registry has of one repository, as its files say."""

    registry: RealRegistry
    name: str

    @property
    def _directory(self) -> Path:
        return self.registry.directory / f"blobs/docker/registry/v2/repositories/{self.name}"

    def whole_blobs(self) -> int:
        """Return the bytes of those blobs that it has whole."""
        links = self._directory.glob("_layers/sha256/*/link")
        return sum(self.registry.blob_path(link.parent.name).stat().st_size for link in links)

    def broken_off(self) -> int:
        """Return the bytes that it took of uploads that did not end."""
        return sum(path.stat().st_size for path in self._directory.glob("_uploads/*/data"))

    def is_tagged(self, tag: str) -> bool:
        """Tell whether it has a tag."""
        return (self._directory / f"_manifests/tags/{tag}/current/link").is_file()
