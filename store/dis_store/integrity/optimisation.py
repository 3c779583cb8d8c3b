"""Letting equal files that do not share an inode share one.

Registration shares already. What is left: files that were moved into the store, files that a full directory or a
limit on links kept apart, and stores whose `links/` was lost.
"""

import os
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from dis_store.digest import Digest
from dis_store.durability import ensure_directory, fsync_directory, write_new
from dis_store.foundation import Foundation
from dis_store.integrity.inspection import EXECUTABLE_MODE, FILE_MODE
from dis_store.lookups import objects
from dis_store.tree import FileEntry
from dis_store.work_progress import Progress, counter
from dis_store.writing.registration import same_bytes, tolerated
from dis_store.writing.work_space import UNSEALED, WorkSpace, seal_directory, work_space


@dataclass(frozen=True)
class OptimisationReport:
    """What an optimisation did, or would do.

    Attributes:
        objects: How many objects were looked at.
        files: How many files share the inode of an equal one now and did not before.
        freed_bytes: The bytes of the inodes that lost their last names.
        damaged: Files that differ from those that they must equal; nothing was done about them.
    """

    objects: int
    files: int
    freed_bytes: int
    damaged: tuple[Path, ...]


def optimise(
    foundation: Foundation,
    digests: Sequence[Digest] | None,
    *,
    dry_run: bool,
    progress: Progress | None = None,
) -> OptimisationReport:
    """Share what is not shared; see `Store.optimise`."""
    wanted = objects(foundation.index) if digests is None else list(digests)
    report = OptimisationReport(0, 0, 0, ())
    done = counter(progress, len(wanted))
    with work_space(foundation.layout.room("tmp")) as space:
        for digest in wanted:
            # What was collected meanwhile is no loss.
            if foundation.protect([digest]):
                report = _add(report, _Sharing(foundation, space, digest, dry_run).run())
            done(1)
    return report


def _add(one: OptimisationReport, other: OptimisationReport) -> OptimisationReport:
    return OptimisationReport(
        one.objects + other.objects,
        one.files + other.files,
        one.freed_bytes + other.freed_bytes,
        one.damaged + other.damaged,
    )


class _Sharing:
    """The optimisation of one object."""

    def __init__(
        self, foundation: Foundation, space: WorkSpace, digest: Digest, dry_run: bool
    ) -> None:
        self._foundation = foundation
        self._space = space
        self._digest = digest
        self._dry_run = dry_run
        self._files = self._freed = 0
        self._damaged: list[Path] = []

    def run(self) -> OptimisationReport:
        for entry in self._foundation.tree(self._digest).files:
            self._share(entry)
        return OptimisationReport(1, self._files, self._freed, tuple(self._damaged))

    def _share(self, entry: FileEntry) -> None:
        layout = self._foundation.layout
        real = layout.object(self._digest) / entry.path
        link = layout.link(entry.blake3, executable=entry.executable)
        try:
            status = real.lstat()
        except OSError:
            self._damaged.append(real)
            return
        if status.st_mode & 0o7777 != (EXECUTABLE_MODE if entry.executable else FILE_MODE):
            self._damaged.append(real)
        elif not os.path.lexists(link):
            # A second name without one in `links/` is somebody else's, who could write to what we would share.
            if status.st_nlink == 1 and not self._dry_run:
                with tolerated():
                    ensure_directory(link.parent)
                    os.link(real, link)
        elif not os.path.samestat(status, link.lstat()):
            self._replace(real, status, link)

    def _replace(self, real: Path, status: os.stat_result, link: Path) -> None:
        if link.is_symlink() or link.lstat().st_mode != status.st_mode:
            return
        if not same_bytes(real, link):
            self._damaged.append(real)
            return
        with tolerated():
            if not self._dry_run:
                name = self._space.fresh()
                os.link(link, name)
                with self._foundation.locks.placing(self._digest):
                    self._rename(name, real)
            self._files += 1
            self._freed += status.st_size if status.st_nlink == 1 else 0

    def _rename(self, name: Path, real: Path) -> None:
        """Put a file in the place of another one in a directory that nobody may write to."""
        note = self._space.path / UNSEALED
        write_new(note, str(real.parent.relative_to(self._foundation.top)).encode())
        fsync_directory(self._space.path)
        try:
            real.parent.chmod(0o755)
            name.replace(real)
        finally:
            seal_directory(real.parent)
            fsync_directory(real.parent)
            note.unlink()
