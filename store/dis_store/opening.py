"""Opening a store: for all that can be done with it, or for questions alone where it may not be written."""

import contextlib
import os
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING

from dis_store.digest import Digest
from dis_store.foundation import Foundation
from dis_store.index import Index
from dis_store.layout import Layout, open_layout
from dis_store.locks import Locks
from dis_store.temp_roots import TempRoots

if TYPE_CHECKING:
    from dis_store.patience import Patience

# What every command that may write does write to.
_WRITTEN_ROOMS = ("tmp", "temproots", "locks")


def open_foundation(
    path: Path, *, create: bool, reading: bool, patience: "Patience | None"
) -> Foundation:
    """Open the store at `path`; see `Store.open`.

    Raises:
        InvalidInputError, IntegrityError, UnfitEnvironmentError: As `open_layout`.
    """
    if reading and _may_only_be_read(Layout(path)):
        return _for_reading(open_layout(path, create=False, touch=False))
    layout = open_layout(path, create=create)
    locks = Locks(layout, patience)
    foundation = Foundation(layout, locks, TempRoots(layout, locks), Index(layout, locks))
    if any(any(layout.room(name).iterdir()) for name in ("tmp", "trash")):
        from dis_store.writing.work_space import remove_abandoned

        # What nobody can delete, on a disk with faults for example, stops no question.
        with contextlib.suppress(*([OSError] if reading else [])):
            remove_abandoned(foundation)
    return foundation


def _for_reading(layout: Layout) -> Foundation:
    locks = _NoLocks(layout)
    index = Index(layout, locks, read_only=True)
    return Foundation(layout, locks, _NoTempRoots(layout, locks), index)


def _may_only_be_read(layout: Layout) -> bool:
    if not (layout.top / "format.json").is_file():
        return False
    directories = [layout.top, *map(layout.room, _WRITTEN_ROOMS)]
    if not all(os.access(directory, os.W_OK | os.X_OK) for directory in directories):
        return True
    return layout.index.exists() and not os.access(layout.index, os.W_OK)


class _NoTempRoots(TempRoots):
    """Keeps nothing from collection: whoever collects meanwhile makes a reader miss what it asks for, and say so."""

    def add(self, digests: Iterable[Digest]) -> None:
        """Keep nothing."""


class _NoLocks(Locks):
    """Holds nothing off: a look at what is half done is told as what it is."""

    @contextlib.contextmanager
    def sharing(self) -> Iterator[None]:
        """Hold off nothing."""
        yield

    @contextlib.contextmanager
    def placing(self, digest: Digest) -> Iterator[None]:
        """Hold off nothing."""
        del digest
        yield
