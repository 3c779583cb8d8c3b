"""Reading what the store holds again, and comparing it with what it must be. Nothing is changed."""

from collections.abc import Callable, Collection, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import get_args

from dis_store import derivations, signatures
from dis_store.digest import Digest
from dis_store.errors import DisError, IntegrityError
from dis_store.foundation import Foundation, read_tree
from dis_store.garbage_collection.root_survey import survey_roots
from dis_store.integrity.hash_pool import digests_of_inodes
from dis_store.integrity.inspection import FileCheck, Findings, Problem, ProblemKind, inspect
from dis_store.integrity.pace import Pace
from dis_store.layout import Layout
from dis_store.realisations import Realisation, bytes_of
from dis_store.result_links import survey_links
from dis_store.sharded import digests_on_disk, is_directory, sharded_names

MAKE_AGAIN = (
    "make again what is missing: dis realize CONFIG --rebuild; "
    "or free what was built from it, once no root keeps it: dis gc"
)
_PUT_BACK = (
    "put back a copy of the record, or what it keeps (dis realize CONFIG, dis store add PATH); "
    "or give it up: dis root remove NAME"
)
_ALL: frozenset[ProblemKind] = frozenset(get_args(ProblemKind))
_REMEDIES: tuple[tuple[frozenset[ProblemKind], str], ...] = (
    (
        frozenset({"damaged root"}),
        _PUT_BACK,
    ),
    (
        _ALL - {"damaged root", "incomplete", "tree without row"},
        "make whole what is damaged: dis store verify --all --repair",
    ),
    (
        _ALL - {"damaged root", "incomplete"},
        "or set it aside: dis store reindex",
    ),
    (
        _ALL - {"damaged root", "damaged signature", "tree without row"},
        MAKE_AGAIN,
    ),
    (
        frozenset({"damaged signature"}),
        "sign again what lost a signature: dis sign REF",
    ),
)

Progress = Callable[[int, int], None]
"""Called with how many more bytes were read, and how many there are to read; from several threads."""


@dataclass(frozen=True)
class VerificationReport:
    """What a verification found.

    Attributes:
        objects: How many objects were looked at.
        files: How many files were read; one that several objects share counts once.
        bytes: How many bytes they have.
        problems: What is wrong; empty if everything is as it must be.
    """

    objects: int
    files: int
    bytes: int
    problems: tuple[Problem, ...]

    @property
    def ok(self) -> bool:
        """Whether nothing is wrong."""
        return not self.problems

    @property
    def remedies(self) -> tuple[str, ...]:
        """What to do about the problems, in this order, with the commands."""
        return remedies({problem.kind for problem in self.problems})


def remedies(kinds: Collection[ProblemKind]) -> tuple[str, ...]:
    """Return what to do about kinds of problems, in this order, with the commands."""
    return tuple(text for cured, text in _REMEDIES if cured.intersection(kinds))


def verify(
    foundation: Foundation,
    digests: Sequence[Digest] | None,
    *,
    jobs: int,
    pace: Pace | None = None,
    progress: Progress | None = None,
) -> VerificationReport:
    """Verify objects, or all objects and records; see `Store.verify`. With a `pace`, no faster than that."""
    if digests is None:
        foundation.index.check()
    wanted = all_objects(foundation) if digests is None else list(dict.fromkeys(digests))
    # A collection may not take away under our hands what we are about to call missing.
    foundation.protect(wanted)
    found = Findings()
    for digest in wanted:
        _inspect_object(foundation, digest, found)
    if digests is None:
        found.problems.extend(problems_of_records(foundation))
    read = _read(found.checks, jobs, pace, progress)
    found.problems.extend(read.problems)
    return VerificationReport(
        len(wanted), read.files, read.bytes, tuple(sorted(found.problems, key=_place))
    )


def _place(problem: Problem) -> tuple[str, str, str]:
    return (problem.subject, problem.path or "", problem.kind)


def all_objects(foundation: Foundation) -> list[Digest]:
    """Return what the index calls an object."""
    return [Digest(digest) for (digest,) in foundation.index.query("SELECT digest FROM objects")]


def _inspect_object(foundation: Foundation, digest: Digest, found: Findings) -> None:
    if not foundation.has_row(digest):
        found.problems.append(Problem("missing", digest, None, "the index does not know it"))
        return
    directory = foundation.layout.object(digest)
    if not directory.is_dir():
        found.problems.append(Problem("row without tree", digest))
    try:
        tree = read_tree(foundation.layout, digest)
    except IntegrityError as error:
        found.problems.append(Problem("damaged manifest", digest, None, str(error)))
        return
    if directory.is_dir():
        findings = inspect(directory, tree)
        found.problems.extend(findings.problems)
        found.checks.extend(findings.checks)
    for entry in tree.references:
        if not foundation.has_row(entry.object):
            detail = f"it leads to {entry.object}, which the index does not know"
            found.problems.append(Problem("missing", digest, entry.path, detail))


@dataclass(frozen=True)
class _Reading:
    files: int
    bytes: int
    problems: tuple[Problem, ...]


def _read(
    checks: Sequence[FileCheck], jobs: int, pace: Pace | None, progress: Progress | None
) -> _Reading:
    sizes = {check.inode: check.entry.size for check in checks}
    total = sum(sizes.values())

    def count(amount: int) -> None:
        if progress is not None:
            progress(amount, total)
        if pace is not None:
            pace(amount)

    count(0)
    digests = digests_of_inodes(checks, jobs=jobs, mapped=pace is None, on_bytes=count)
    judged = (check.judge(digests[check.inode]) for check in checks)
    problems = tuple(problem for problem in judged if problem is not None)
    return _Reading(len(sizes), total, problems)


def problems_of_records(foundation: Foundation) -> Iterator[Problem]:
    """Yield what is wrong beside the objects: trees without rows, derivations, realisations, roots."""
    yield from _trees_without_rows(foundation)
    yield from _damaged_derivations(foundation)
    yield from _damaged_realisations(foundation)
    yield from damaged_signatures(foundation.layout)
    yield from damaged_roots(foundation.layout)
    yield from _roots_of_nothing(foundation)


def _trees_without_rows(foundation: Foundation) -> Iterator[Problem]:
    layout = foundation.layout
    known = set(all_objects(foundation))
    on_disk = {
        **digests_on_disk(layout.room("manifests")),
        **digests_on_disk(layout.room("objects")),
    }
    for digest, path in on_disk.items():
        if digest in known:
            continue
        # It may be on its way in: whoever registers it holds this lock until the row is there.
        with foundation.locks.placing(digest):
            if path.exists() and not foundation.has_row(digest):
                yield _without_row(foundation, digest, f"in {path.parent.parent.name}/")


def _without_row(foundation: Foundation, digest: Digest, where: str) -> Problem:
    """Tell an object that the index may not have, since something it refers to is gone, from one that it lost."""
    try:
        references = read_tree(foundation.layout, digest).references
    except IntegrityError:
        references = ()
    for entry in references:
        if not foundation.has_row(entry.object):
            detail = f"it leads to {entry.object}, which is not there"
            return Problem("incomplete", digest, entry.path, detail)
    return Problem("tree without row", digest, None, where)


def _damaged_derivations(foundation: Foundation) -> Iterator[Problem]:
    layout = foundation.layout
    rows = {Digest(each) for (each,) in foundation.index.query("SELECT digest FROM derivations")}
    for digest in sorted(rows | digests_on_disk(layout.room("derivations")).keys()):
        try:
            derivations.check(derivations.read(layout, digest))
        except DisError as error:
            # One that a collection has just deleted is no damage.
            with foundation.locks.placing(digest):
                if layout.derivation(digest).exists() or _has_row(foundation, digest):
                    yield Problem("damaged derivation", digest, None, str(error))


def damaged_signatures(layout: Layout) -> list[Problem]:
    """Return what is wrong with signatures: those that are not what their names say."""
    return [
        Problem("damaged signature", name, None, detail)
        for name, detail in signatures.damaged(layout)
    ]


def _has_row(foundation: Foundation, derivation: Digest) -> bool:
    sql = "SELECT 1 FROM derivations WHERE digest = ?"
    return foundation.index.value(sql, (derivation,)) is not None


def _damaged_realisations(foundation: Foundation) -> Iterator[Problem]:
    room = foundation.layout.room("realisations")
    rows = foundation.index.query("SELECT key, build, record FROM realisations")
    expected = {f"{key}/{build}.json": bytes_of(record) for key, build, record in rows}
    names = {f"{path.parent.name}/{path.name}" for path in _record_files(foundation)}
    for name in sorted(names | expected.keys()):
        problem = _judge_realisation(name, expected.get(name), room / name[:2] / name)
        if problem is not None:
            yield problem


def _record_files(foundation: Foundation) -> Iterator[Path]:
    for directory in sharded_names(foundation.layout.room("realisations")):
        if is_directory(directory):
            yield from directory.iterdir()


def _judge_realisation(name: str, expected: bytes | None, path: Path) -> Problem | None:
    try:
        data = path.read_bytes()
        realisation = Realisation.decode(data)
    except (OSError, DisError) as error:
        return Problem("damaged realisation", name, None, str(error))
    if f"{realisation.key}/{realisation.build}.json" != name:
        return Problem("damaged realisation", name, None, "it belongs under another name")
    if expected is not None and data != expected:
        return Problem("damaged realisation", name, None, "the index says something else")
    return None


_KEPT = {
    "object": "SELECT 1 FROM objects WHERE digest = ?",
    "derivation": "SELECT 1 FROM derivations WHERE digest = ?",
    "key": "SELECT 1 FROM realisations WHERE key = ?",
}


def _roots_of_nothing(foundation: Foundation) -> Iterator[Problem]:
    """Yield the roots that keep what the index does not know: a single wrong digit makes one of them so."""
    layout = foundation.layout
    for name, root in survey_roots(layout).good.items():
        for kept, sql in _KEPT.items():
            digest = getattr(root, kept)
            if digest is None or foundation.index.value(sql, (digest,)) is not None:
                continue
            # One that was removed meanwhile, with what it kept, is no damage.
            if survey_roots(layout).good.get(name) == root:
                detail = f"it keeps the {kept} {digest}, which the index does not know"
                yield Problem("damaged root", name, None, detail)


def damaged_roots(layout: Layout) -> Iterator[Problem]:
    """Yield the roots and result links whose records cannot be read."""
    for name, error in survey_roots(layout).damaged.items():
        yield Problem("damaged root", name, None, str(error))
    for path, error in survey_links(layout)[1].items():
        yield Problem("damaged root", f"auto/{path.stem}", None, str(error))
