"""Rebuilding the index from the disk alone.

Every file is read: the SHA-256 that others speak is nowhere but in the index. An object is admitted when it is whole
and all that it refers to is admitted. What is damaged moves to quarantine; what is whole but refers to something that
is not there stays where it is, for the day that it comes back.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path

from dis_store import derivations, realisations, signatures
from dis_store.closures import closure
from dis_store.digest import Digest
from dis_store.environment import reading
from dis_store.errors import DisError, IntegrityError
from dis_store.foundation import Foundation, read_tree
from dis_store.hashing import Content, hash_content
from dis_store.index import Transaction
from dis_store.integrity.hash_pool import read_each_inode_once
from dis_store.integrity.inspection import FileCheck, Problem, about_the_disk, inspect
from dis_store.integrity.quarantine import quarantine
from dis_store.integrity.verification import (
    MAKE_AGAIN,
    damaged_roots,
    damaged_signatures,
    remedies,
)
from dis_store.layout import Layout
from dis_store.realisations import Realisation
from dis_store.sharded import digests_on_disk, is_directory, sharded_names
from dis_store.tree import Tree
from dis_store.work_progress import Progress, counter
from dis_store.writing.index_rows import enter_contents, enter_object
from dis_store.writing.ingestion import open_source


@dataclass(frozen=True)
class ReindexReport:
    """What a reindexing found.

    Attributes:
        objects: The objects that were admitted.
        incomplete: Objects that are whole, but refer to some that are not admitted.
        derivations: How many derivations were admitted.
        realisations: How many realisation records were admitted.
        problems: What was damaged: it is in quarantine now. Damaged roots stay where they are, so that nobody
            takes what they kept for garbage.
    """

    objects: tuple[Digest, ...]
    incomplete: tuple[Digest, ...]
    derivations: int
    realisations: int
    problems: tuple[Problem, ...]

    @property
    def remedies(self) -> tuple[str, ...]:
        """What to do about what was not admitted, with the commands."""
        kinds = {problem.kind for problem in self.problems}
        lost = self.incomplete or kinds - {"damaged root", "damaged signature"}
        return (*remedies(kinds & {"damaged root"}), *([MAKE_AGAIN] if lost else []))


@dataclass(frozen=True)
class _Survey:
    """What the disk holds."""

    trees: Mapping[Digest, Tree]
    contents: Sequence[Content]
    derivations: Sequence[Digest]
    realisations: Sequence[Realisation]
    problems: Sequence[Problem]
    damaged: Sequence[Path]


def reindex(
    foundation: Foundation, *, jobs: int, progress: Progress | None = None
) -> ReindexReport:
    """Rebuild the index; see `Store.reindex`."""
    with foundation.locks.collecting():
        survey = _survey(foundation.layout, jobs, progress)
        for path in survey.damaged:
            quarantine(foundation.layout, path)
        admitted = _admitted(survey.trees)
        foundation.index.rebuild(lambda transaction: _fill(transaction, survey, admitted))
    return ReindexReport(
        objects=tuple(admitted),
        incomplete=tuple(digest for digest in survey.trees if digest not in set(admitted)),
        derivations=len(survey.derivations),
        realisations=len(survey.realisations),
        problems=(*survey.problems, *damaged_roots(foundation.layout)),
    )


def _fill(transaction: Transaction, survey: _Survey, admitted: Sequence[Digest]) -> None:
    enter_contents(transaction, survey.contents)
    for digest in admitted:
        enter_object(transaction, survey.trees[digest])
    transaction.execute_many(
        "INSERT INTO derivations(digest) VALUES (?)", ((digest,) for digest in survey.derivations)
    )
    transaction.execute_many(
        realisations.INSERT,
        (
            (each.key, each.build, each.sequence, each.encode().decode())
            for each in survey.realisations
        ),
    )


def _admitted(trees: Mapping[Digest, Tree]) -> list[Digest]:
    """Return the objects whose closures are whole, references first."""
    references = {
        digest: {entry.object for entry in tree.references} for digest, tree in trees.items()
    }
    admitted: dict[Digest, None] = {}
    for digest in closure(sorted(trees), lambda each: references.get(each, ())):
        if digest in trees and references[digest] <= admitted.keys():
            admitted[digest] = None
    return list(admitted)


def _survey(layout: Layout, jobs: int, progress: Progress | None) -> _Survey:
    problems: list[Problem] = []
    trees, checks = _structures(layout, problems)
    sizes = {check.inode: check.entry.size for check in checks}
    on_bytes = counter(progress, sum(sizes.values()))
    found = read_each_inode_once(checks, partial(_content_of, on_bytes=on_bytes), jobs=jobs)
    for check in checks:
        content = found[check.inode]
        problem = check.judge(content if isinstance(content, OSError) else content.blake3)
        if problem is not None:
            problems.append(problem)
    bad = {problem.subject for problem in problems}
    damaged = [
        path
        for room in ("objects", "manifests")
        for digest, path in digests_on_disk(layout.room(room)).items()
        if digest in bad
    ]
    records = _Records(layout)
    return _Survey(
        trees={digest: tree for digest, tree in trees.items() if digest not in bad},
        contents=[content for content in found.values() if isinstance(content, Content)],
        derivations=records.derivations,
        realisations=records.realisations,
        problems=[*problems, *records.problems],
        damaged=[*damaged, *records.damaged],
    )


def _structures(
    layout: Layout, problems: list[Problem]
) -> tuple[dict[Digest, Tree], list[FileCheck]]:
    """Read every manifest, and compare every tree with its own as far as that needs no content."""
    trees: dict[Digest, Tree] = {}
    checks: list[FileCheck] = []
    on_disk = digests_on_disk(layout.room("manifests")) | digests_on_disk(layout.room("objects"))
    for digest in sorted(on_disk):
        try:
            trees[digest] = read_tree(layout, digest)
        except IntegrityError as error:
            problems.append(Problem("damaged manifest", digest, None, str(error)))
            continue
        findings = inspect(layout.object(digest), trees[digest])
        problems.extend(findings.problems)
        checks.extend(findings.checks)
    return trees, checks


def _content_of(path: Path, *, on_bytes: Callable[[int], None]) -> Content | OSError:
    try:
        with open_source(path) as descriptor:
            return hash_content(descriptor, on_bytes=on_bytes)
    except OSError as error:
        return about_the_disk(error)
    except DisError as error:
        if isinstance(error.__cause__, OSError):
            return about_the_disk(error.__cause__)
        return OSError(str(error))


class _Records:
    """The derivations and realisations on disk, the damaged ones set apart."""

    def __init__(self, layout: Layout) -> None:
        self.derivations: list[Digest] = []
        self.realisations: list[Realisation] = []
        self.problems: list[Problem] = []
        self.damaged: list[Path] = []
        self._read_derivations(layout)
        self._read_realisations(layout)
        self.problems += damaged_signatures(layout)
        self.damaged += (signatures.path_of(layout, name) for name, _ in signatures.damaged(layout))

    def _read_derivations(self, layout: Layout) -> None:
        for digest, path in digests_on_disk(layout.room("derivations")).items():
            try:
                derivations.check(derivations.read(layout, digest))
            except DisError as error:
                self.problems.append(Problem("damaged derivation", digest, None, str(error)))
                self.damaged.append(path)
            else:
                self.derivations.append(digest)

    def _read_realisations(self, layout: Layout) -> None:
        for directory in filter(is_directory, sharded_names(layout.room("realisations"))):
            for path in sorted(directory.iterdir()):
                name = f"{directory.name}/{path.name}"
                try:
                    with reading(path):
                        data = path.read_bytes()
                    realisation = Realisation.decode(data)
                    _check_place(realisation, name)
                except DisError as error:
                    self.problems.append(Problem("damaged realisation", name, None, str(error)))
                    self.damaged.append(path)
                else:
                    self.realisations.append(realisation)


def _check_place(realisation: Realisation, name: str) -> None:
    if f"{realisation.key}/{realisation.build}.json" != name:
        raise IntegrityError(
            "a realisation record is damaged", cause="it belongs under another name"
        )
