"""Making damaged objects and records whole again.

An object is written anew from the files of it that are good and from good copies of the others, and takes the place of
the damaged tree in one step; that tree goes to quarantine. What nothing can make whole is taken out of service, and is
in quarantine as well: nothing is deleted.
"""

import os
import stat
from collections.abc import Callable, Collection, Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path

from dis_store import closures, lookups, signatures
from dis_store.digest import Digest
from dis_store.environment import reading
from dis_store.errors import DisError, IntegrityError, InvalidInputError
from dis_store.foundation import Foundation, read_tree
from dis_store.garbage_collection.root_survey import survey_roots
from dis_store.hashing import Content
from dis_store.index import Index
from dis_store.integrity.copies import Copies
from dis_store.integrity.inspection import Problem, hash_file
from dis_store.integrity.quarantine import quarantine
from dis_store.layout import Layout
from dis_store.realisations import Realisation, bytes_of
from dis_store.records import write_record
from dis_store.tree import Entry, FileEntry, ReferenceEntry, Tree
from dis_store.writing.tree_writer import TreeWriter

Rebuild = Callable[[Digest], None]
"""Makes an object again, or raises a `DisError` that says why it cannot."""

_OF_OBJECTS = frozenset(
    {
        "missing",
        "extra",
        "changed",
        "unreadable",
        "wrong mode",
        "row without tree",
        "damaged manifest",
    }
)


@dataclass(frozen=True)
class Loss:
    """Something that could not be made whole: a digest or the name of a record, and why."""

    subject: str
    reason: str


@dataclass(frozen=True)
class RepairReport:
    """What a repair did.

    Attributes:
        repaired: Objects that are whole again, from copies of their files.
        rebuilt: Objects that are whole again because they were built again.
        records: Records that were written again from the index.
        lost: What could not be made whole. Objects and records among it are out of service, in quarantine; objects
            that refer to them are out of service too, and stay where they are.
        roots: Roots whose objects an earlier repair had put out of service, and that keep something again.
    """

    repaired: tuple[Digest, ...]
    rebuilt: tuple[Digest, ...]
    records: tuple[str, ...]
    lost: tuple[Loss, ...]
    roots: tuple[str, ...] = ()


def repair(
    foundation: Foundation,
    problems: Sequence[Problem],
    *,
    donors: Sequence[Path] = (),
    rebuild: Rebuild | None = None,
) -> RepairReport:
    """Repair what a verification found; see `Store.repair`."""
    repair_of_objects = _Objects(foundation, problems, Copies(foundation, donors), rebuild)
    repair_of_objects.run()
    records, lost = _repair_records(foundation, problems)
    return RepairReport(
        repaired=tuple(repair_of_objects.repaired),
        rebuilt=tuple(repair_of_objects.rebuilt),
        records=tuple(records),
        lost=(*repair_of_objects.lost, *lost),
        roots=repair_of_objects.roots,
    )


class _Objects:
    def __init__(
        self,
        foundation: Foundation,
        problems: Sequence[Problem],
        copies: Copies,
        rebuild: Rebuild | None,
    ) -> None:
        self._foundation = foundation
        self._copies = copies
        self._rebuild = rebuild
        found = (problem.subject for problem in problems if problem.kind in _OF_OBJECTS)
        self._damaged = [
            each for each in map(Digest, dict.fromkeys(found)) if foundation.has_row(each)
        ]
        self._away = _out_of_service(foundation, problems)
        self.repaired: list[Digest] = []
        self.rebuilt: list[Digest] = []
        self.lost: list[Loss] = []

    def run(self) -> None:
        """Repair every damaged object, those first that others refer to."""
        self._foundation.distrusted.update(self._damaged)
        try:
            order = closures.closure(
                self._damaged, lambda each: lookups.references(self._foundation.index, each)
            )
            reasons = {each: self._try(each) for each in order if each in set(self._damaged)}
            failed = {each: reason for each, reason in reasons.items() if reason is not None}
            _take_out_of_service(self._foundation, failed)
        finally:
            self._foundation.distrusted.difference_update(self._damaged)
        failed |= {
            each: reason
            for each in dict.fromkeys(self._away.values())
            if (reason := self._try(each)) is not None
        }
        self.lost += [Loss(digest, reason) for digest, reason in failed.items()]

    @property
    def roots(self) -> tuple[str, ...]:
        """The roots whose objects are there again."""
        whole = {*self.repaired, *self.rebuilt}
        return tuple(name for name, digest in self._away.items() if digest in whole)

    def _try(self, digest: Digest) -> str | None:
        """Repair one object; return why it cannot be."""
        reason = self._from_copies(digest)
        if reason is None:
            self.repaired.append(digest)
        elif self._rebuild is not None:
            try:
                self._rebuild(digest)
            except DisError as error:
                return f"{reason}; {error}"
            if digest in self._foundation.distrusted or not self._foundation.has_row(digest):
                return f"{reason}; built again, it came out otherwise"
            self.rebuilt.append(digest)
            reason = None
        return reason

    def _from_copies(self, digest: Digest) -> str | None:
        tree = _manifest(self._foundation, digest)
        if tree is None:
            return "its manifest is damaged, and its files do not tell what it was"
        writer = TreeWriter(self._foundation, expected_bytes=0, portable_names=tree.portable_names)
        with writer:
            for entry in tree.entries:
                if (reason := self._write(writer, digest, entry)) is not None:
                    return reason
            writer.register(expected=digest)
        return None

    def _write(self, writer: TreeWriter, digest: Digest, entry: Entry) -> str | None:
        if isinstance(entry, ReferenceEntry):
            try:
                writer.reference(entry.path, entry.object, entry.subpath)
            except (IntegrityError, InvalidInputError):
                return f"it refers to {entry.object}, which is not whole"
            return None
        if self._keep(writer, digest, entry):
            return None
        copy = self._copies.find(entry)
        if copy is None:
            return f"there is no good copy of {entry.path!r}"
        writer.ingest(entry.path, copy, size=entry.size, executable=entry.executable)
        return None

    def _keep(self, writer: TreeWriter, digest: Digest, entry: FileEntry) -> bool:
        """Take over a file of the damaged tree, if it is good, by another name for it and without a copy."""
        real = self._foundation.layout.object(digest) / entry.path
        try:
            status = real.lstat()
        except OSError:
            return False
        if not stat.S_ISREG(status.st_mode) or hash_file(real) != entry.blake3:
            return False
        # What more the index knows of it stays there; what it lacks is found when somebody asks.
        content = Content(entry.size, entry.blake3, known_sha256=None)
        try:
            writer.take(
                entry.path,
                real,
                content,
                inode=(status.st_dev, status.st_ino),
                executable=entry.executable,
                shared=False,
            )
        except OSError:
            return False
        return True


def _manifest(foundation: Foundation, digest: Digest) -> Tree | None:
    """Return the manifest of an object, made again from its tree where it is damaged; None if that is damaged too."""
    try:
        return read_tree(foundation.layout, digest)
    except IntegrityError:
        top = foundation.layout.object(digest)
        for portable in (True, False):
            try:
                tree = Tree(tuple(_entries(top)), portable_names=portable)
            except (DisError, OSError, ValueError):
                continue
            if tree.digest == digest:
                return tree
    return _quarantined_manifest(foundation.layout, digest)


def _quarantined_manifest(layout: Layout, digest: Digest) -> Tree | None:
    """Return the manifest that an earlier repair set aside together with its object."""
    for path in sorted(layout.room("quarantine").glob(f"{digest}.json-*")):
        try:
            with reading(path):
                data = path.read_bytes()
            if Digest.of(data) == digest:
                return Tree.decode(data)
        except DisError:
            continue
    return None


def _out_of_service(foundation: Foundation, problems: Sequence[Problem]) -> dict[str, Digest]:
    """Return the roots that keep what an earlier repair could not make whole: by now there may be copies."""
    good = survey_roots(foundation.layout).good
    named = {each.subject for each in problems if each.kind == "damaged root"} & good.keys()
    return {
        name: good[name].object
        for name in sorted(named)
        if not foundation.has_row(good[name].object)
        and _quarantined_manifest(foundation.layout, good[name].object) is not None
    }


def _entries(top: Path) -> Iterable[Entry]:
    for directory, _, _ in os.walk(top):
        for path in sorted(Path(directory).iterdir()):
            name = path.relative_to(top).as_posix()
            status = path.lstat()
            if stat.S_ISLNK(status.st_mode):
                yield _reference(name, str(path.readlink()))
            elif stat.S_ISREG(status.st_mode):
                found = hash_file(path)
                if isinstance(found, OSError):
                    raise found
                yield FileEntry(name, status.st_size, found, bool(status.st_mode & 0o100))


def _reference(path: str, target: str) -> ReferenceEntry:
    digest, _, subpath = target.removeprefix("../" * (path.count("/") + 2))[3:].partition("/")
    return ReferenceEntry(path, Digest(digest), subpath or None)


def _take_out_of_service(foundation: Foundation, lost: Collection[Digest]) -> None:
    """Move lost objects to quarantine; drop their rows, and those of all that refer to them.

    In this order, so that the next repair, which looks at what has a row, finds what could not be moved.
    """
    if not lost:
        return
    layout = foundation.layout
    moved: list[Digest] = []
    with foundation.locks.collecting():
        try:
            for digest in lost:
                for path in (layout.object(digest), layout.manifest(digest)):
                    if os.path.lexists(path):
                        quarantine(layout, path)
                moved.append(digest)
        finally:
            _forget(foundation.index, moved)


def _forget(index: Index, lost: Collection[Digest]) -> None:
    gone = closures.closure(lost, lambda each: lookups.referrers(index, each))
    with index.transaction() as transaction:
        transaction.execute_many(
            "DELETE FROM refs WHERE referrer IN (SELECT id FROM objects WHERE digest = ?)",
            ((each,) for each in gone),
        )
        transaction.execute_many("DELETE FROM objects WHERE digest = ?", ((each,) for each in gone))


def _repair_records(
    foundation: Foundation, problems: Sequence[Problem]
) -> tuple[list[str], list[Loss]]:
    written: list[str] = []
    lost: list[Loss] = []
    for problem in problems:
        if problem.kind == "damaged realisation":
            if _restore_realisation(foundation, problem.subject):
                written.append(problem.subject)
            else:
                lost.append(Loss(problem.subject, "the index does not know the record"))
        elif problem.kind == "damaged derivation":
            _set_aside_derivation(foundation, Digest(problem.subject))
            lost.append(Loss(problem.subject, "dis realize CONFIG writes it again"))
        elif problem.kind == "damaged signature":
            path = signatures.path_of(foundation.layout, problem.subject)
            if os.path.lexists(path):
                quarantine(foundation.layout, path)
            lost.append(Loss(problem.subject, "dis sign REF signs again"))
    return written, lost


def _restore_realisation(foundation: Foundation, name: str) -> bool:
    """Write the record of a build from the index; without a row, or with a damaged one, set it aside."""
    key, _, build = name.removesuffix(".json").partition("/")
    path = foundation.layout.room("realisations") / key[:2] / name
    sql = "SELECT record FROM realisations WHERE key = ? AND build = ?"
    record = foundation.index.value(sql, (key, build))
    if os.path.lexists(path):
        quarantine(foundation.layout, path)
    if record is None:
        return False
    try:
        realisation = Realisation.decode(bytes_of(record))
    except IntegrityError:
        realisation = None
    if realisation is None or (realisation.key, realisation.build) != (key, build):
        with foundation.index.transaction() as transaction:
            transaction.execute(
                "DELETE FROM realisations WHERE key = ? AND build = ?", (key, build)
            )
        return False
    write_record(foundation, path, realisation.encode())
    return True


def _set_aside_derivation(foundation: Foundation, digest: Digest) -> None:
    path = foundation.layout.derivation(digest)
    if os.path.lexists(path):
        quarantine(foundation.layout, path)
    with foundation.index.transaction() as transaction:
        transaction.execute("DELETE FROM derivations WHERE digest = ?", (digest,))
