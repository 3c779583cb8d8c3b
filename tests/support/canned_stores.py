"""Stores that earlier versions made, packed by `tests/store/canned/make_store.py`."""

import gzip
import tarfile
from pathlib import Path

from dis_store.index_schema import VERSION

_ALL = sorted((Path(__file__).parents[1] / "store" / "canned").glob("index-*.tar.gz"))
_PRESENT = f"index-{VERSION}.tar.gz"
ARCHIVES = [path for path in _ALL if path.name != _PRESENT]
"""One for each version of the index before the present one."""
PRESENT = next(path for path in _ALL if path.name == _PRESENT)
"""One of the present version, as the code made it that was the first to have that version."""


def unpack(archive: Path, place: Path) -> Path:
    """Unpack a store to `place`; return it."""
    with gzip.open(archive) as packed, tarfile.open(fileobj=packed) as members:
        # Our own, and kept with its modes.
        members.extractall(place, filter="fully_trusted")  # noqa: S202
    return place
