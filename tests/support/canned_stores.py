"""Stores that earlier versions made, packed by `tests/store/canned/make_store.py`."""

import gzip
import tarfile
from pathlib import Path

ARCHIVES = sorted((Path(__file__).parents[1] / "store" / "canned").glob("index-*.tar.gz"))
"""One for each version of the index before the present one."""


def unpack(archive: Path, place: Path) -> Path:
    """Unpack a store to `place`; return it."""
    with gzip.open(archive) as packed, tarfile.open(fileobj=packed) as members:
        # Our own, and kept with its modes.
        members.extractall(place, filter="fully_trusted")  # noqa: S202
    return place
