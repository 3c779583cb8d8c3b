"""The store as its users see it: one class, thin over the modules that do the work."""

import contextlib
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Self

from dis_store import plans
from dis_store.digest import Digest
from dis_store.environment import reported
from dis_store.opening import open_foundation
from dis_store.reading import StoreReader

if TYPE_CHECKING:
    from dis_store.garbage_collection.collection import CollectionReport, Progress, RetirementPolicy
    from dis_store.garbage_collection.space_goal import SpaceGoal
    from dis_store.integrity.inspection import Problem
    from dis_store.integrity.optimisation import OptimisationReport
    from dis_store.integrity.pace import Pace
    from dis_store.integrity.reindexing import ReindexReport
    from dis_store.integrity.repair import Rebuild, RepairReport
    from dis_store.integrity.verification import VerificationReport
    from dis_store.integrity.verification_round import RoundReport
    from dis_store.lock_holder import LockHolder
    from dis_store.patience import Patience
    from dis_store.realisations import Realisation
    from dis_store.roots import Root
    from dis_store.writing.tree_writer import TreeWriter


class Store(StoreReader):
    """A content-addressed store in one directory, shared by any number of threads and processes.

    What this process wrote or asked for with `protect` is safe from garbage collection until the store is
    closed. Methods raise `UnfitEnvironmentError` when the disk is full or refuses, and `IntegrityError` when
    something asked for is not valid. Open it after a fork, not before.
    """

    @classmethod
    def open(
        cls,
        path: Path,
        *,
        create: bool = True,
        reading: bool = False,
        patience: "Patience | None" = None,
    ) -> Self:
        """Open the store at `path`, and remove what dead processes left unfinished in it.

        Args:
            path: The directory.
            create: Whether to make a store where there is nothing, or an empty directory.
            reading: Whether only questions are going to be asked: a store that may not be written is then
                opened all the same, and nothing in it is touched or protected.
            patience: How to wait for locks that other processes hold; None for ever and in silence.

        Raises:
            InvalidInputError: There is no store, or something else is there.
            IntegrityError: The record of its format is lost or damaged.
            UnfitEnvironmentError: The store is too new, not writable, or on a network file system.
            LockTimeoutError: Here and in other methods: the patience is over.
        """
        path = path.absolute()
        with reported(path):
            return cls(open_foundation(path, create=create, reading=reading, patience=patience))

    # Objects

    def protect(self, digest: Digest) -> bool:
        """Keep the object for as long as the store is open, then tell whether it is there."""
        return self.protect_all([digest])

    def protect_all(self, digests: Iterable[Digest]) -> bool:
        """Keep objects for as long as the store is open, then tell whether all of them are there."""
        with reported(self.path):
            return self._foundation.protect(digests)

    # Writing

    def new_tree(
        self,
        *,
        expected_bytes: int = 0,
        expected_files: int = 1,
        portable_names: bool = True,
        reuses: bool = True,
    ) -> "TreeWriter":
        """Begin a new object, written inside `with`; nothing remains of it unless it is registered.

        Args:
            expected_bytes: How much is going to be written, so that a full disk is noticed first.
            expected_files: How many files.
            portable_names: False only for an environment made of other people's packages, whose names
                need not work on other systems; the manifest records it.
            reuses: False where files must come from their source although the store has them, as evidence.
        """
        from dis_store.writing.tree_writer import TreeWriter

        return TreeWriter(
            self._foundation,
            expected_bytes=expected_bytes,
            expected_files=expected_files,
            portable_names=portable_names,
            reuses=reuses,
        )

    def check_room(self, size: int, *, files: int = 1) -> None:
        """Refuse what cannot fit, before anything of it is written.

        Args:
            size: The bytes of the files that come.
            files: How many files come.

        Raises:
            DiskFullError: Says how much is needed and how much there is, and what to remove to make room.
        """
        from dis_store.writing.room import check_room

        check_room(self._foundation, size, files=files)

    def check_inodes(self, files: int) -> None:
        """Refuse more files than the file system can still name; the rest as in `check_room`."""
        from dis_store.writing.room import check_inodes

        check_inodes(self._foundation, files)

    def advice_for_room(self, lacking: int) -> str:
        """Return what to do so that the disk has so many bytes more, as a command where one does it."""
        from dis_store.writing.room import advice

        return advice(self._foundation, lacking)

    # Derivations

    def add_derivation(self, data: bytes) -> Digest:
        """Keep a derivation; return its digest.

        Raises:
            InvalidInputError: `data` is not canonical JSON of a derivation.
        """
        from dis_store import derivations

        with reported(self.path):
            return derivations.add(self._foundation, [data])[0]

    def add_derivations(self, records: Sequence[bytes]) -> list[Digest]:
        """Keep many derivations, which costs little more than to keep one; the rest as in `add_derivation`."""
        from dis_store import derivations

        with reported(self.path):
            return derivations.add(self._foundation, records)

    def protect_derivations(self, digests: Sequence[Digest]) -> list[Digest]:
        """Keep derivations for as long as the store is open; return those that are not there."""
        from dis_store import derivations

        with reported(self.path):
            return derivations.protect(self._foundation, digests)

    def remember_outputs(self, evaluated: Mapping[Digest, Mapping[str, Digest]]) -> None:
        """Note which objects derivations evaluated to, by output name.

        Raises:
            IntegrityError: An output is not in the store.
        """
        from dis_store import derivations

        with reported(self.path):
            derivations.remember_outputs(self._foundation, evaluated)

    # Realisations

    def add_realisation(self, realisation: "Realisation") -> "Realisation":
        """Record a build; return the record with its build id. The first for a key stays the chosen one.

        Raises:
            IntegrityError: An output is not in the store.
        """
        from dis_store import realisations

        with reported(self.path):
            return realisations.add(self._foundation, realisation)

    def add_signature(self, key: Digest, data: bytes) -> Digest:
        """Keep a signed document about a key of which a build is recorded, or about an object; return its digest.

        It keeps nothing alive, and goes with the last record of the key, or with the object.

        Raises:
            InvalidInputError: There is neither, or the document is too large.
        """
        from dis_store import signatures

        with reported(self.path):
            return signatures.add(self._foundation, key, data)

    def is_full_of_signatures(self, key: Digest) -> bool:
        """Tell whether a key or an object has as many signed documents as are kept."""
        from dis_store import signatures

        return signatures.is_full(self._foundation.layout, key)

    def chosen(self, key: Digest) -> "Realisation | None":
        """Return the record that answers for a key, its outputs protected and valid; None if none can."""
        from dis_store import realisations

        with reported(self.path):
            return realisations.chosen(self._foundation, key)

    # Roots

    def set_root(self, name: str, root: "Root", *, force: bool = False) -> None:
        """Keep an object under a name, in place of what the name kept before.

        If that was the same object, the longer retention stays; with `force`, that of `root` alone counts.

        Raises:
            InvalidInputError: The name is refused.
            RetainedRootError: It keeps something else for some time yet, and `force` does not allow to let go of it.
            IntegrityError: The object is not in the store.
        """
        from dis_store import roots

        with reported(self.path):
            roots.set_root(self._foundation, name, root, force=force)

    def note_use(self, name: str) -> None:
        """Note that what a named root keeps is used now, for policies that give up what is used no more.

        It waits for no disk, and does nothing where there is no such root or the store may only be read.
        """
        from dis_store import last_use, roots

        roots.check_name(name)
        last_use.note_use(self._foundation.layout, name)

    def remove_root(self, name: str, *, force: bool = False) -> None:
        """Remove a named root.

        Raises:
            InvalidInputError: There is none of that name.
            RetainedRootError: It is kept for some time yet, and `force` does not allow to let go of it.
        """
        from dis_store import roots

        with reported(self.path):
            roots.remove_root(self._foundation, name, force=force)

    def add_result_link(self, link: Path, root: "Root") -> None:
        """Make a symlink outside the store to an object, and keep the object while it is there.

        Raises:
            InvalidInputError: Something else is at `link`, or it cannot be made.
            IntegrityError: The object is not in the store.
        """
        from dis_store import result_links

        with reported(self.path):
            result_links.add(self._foundation, link, root)

    # Locks

    @property
    def patience(self) -> "Patience | None":
        """How to wait for locks that other processes hold; None for ever and in silence."""
        return self._foundation.locks.patience

    @contextlib.contextmanager
    def build_lock(
        self, key: Digest, on_wait: "Callable[[LockHolder], None] | None" = None
    ) -> Iterator[None]:
        """Be the only builder of a key among all processes, for the time of a block.

        Args:
            key: What is built.
            on_wait: Called once, before waiting, with who holds the lock.
        """
        with contextlib.ExitStack() as stack:
            with reported(self.path):
                stack.enter_context(self._foundation.locks.building(key, on_wait))
            yield

    # Upkeep

    def collect_garbage(
        self,
        *,
        dry_run: bool = False,
        policy: "RetirementPolicy | None" = None,
        goal: "SpaceGoal | None" = None,
        drop_inputs: bool = False,
        progress: "Progress | None" = None,
    ) -> "CollectionReport":
        """Delete what no root keeps; works on a full disk.

        Args:
            dry_run: Only report what would go, and what each root keeps.
            policy: Which automatic roots may be given up; none if it is not given.
            goal: When it is enough; all that no root keeps if it is not given.
            drop_inputs: Whether roots give up the realised inputs of what they keep.
            progress: Told about the work as it goes on, from several threads.

        Raises:
            IntegrityError: A root cannot be read, so that nobody knows what it keeps.
        """
        from dis_store.garbage_collection.collection import (
            CollectionRequest,
            RetirementPolicy,
            collect,
        )
        from dis_store.garbage_collection.space_goal import SpaceGoal

        request = CollectionRequest(
            dry_run, policy or RetirementPolicy(), goal or SpaceGoal(), drop_inputs
        )
        with reported(self.path):
            return collect(self._foundation, request, progress)

    def verify(
        self,
        digests: Sequence[Digest] | None = None,
        *,
        jobs: int = 1,
        pace: "Pace | None" = None,
        progress: Callable[[int, int], None] | None = None,
    ) -> "VerificationReport":
        """Read objects again and compare them with their digests; change nothing.

        Args:
            digests: Which objects; None for all, and for everything else that the store holds.
            jobs: How many threads read and hash.
            pace: Read no faster than this.
            progress: Called with how many more bytes were read, and how many there are in all; from several
                threads.
        """
        from dis_store.integrity.verification import verify

        with reported(self.path):
            return verify(self._foundation, digests, jobs=jobs, pace=pace, progress=progress)

    def verify_onwards(
        self,
        *,
        jobs: int = 1,
        max_bytes: int | None = None,
        pace: "Pace | None" = None,
        progress: Callable[[int, int], None] | None = None,
    ) -> "RoundReport":
        """Verify objects in the order of their digests, from where the call before stopped; remember how far it came.

        When all objects were read the records are verified, and the next call begins a new round.

        Args:
            jobs: How many threads read and hash.
            max_bytes: Stop after about so many bytes; None: at the end of the round.
            pace: Read no faster than this.
            progress: As for `verify`, for one step after the other.
        """
        from dis_store.integrity.verification_round import verify_onwards

        with reported(self.path):
            return verify_onwards(
                self._foundation, jobs=jobs, max_bytes=max_bytes, pace=pace, progress=progress
            )

    def repair(
        self,
        problems: Sequence["Problem"],
        *,
        donors: Sequence[Path] = (),
        rebuild: "Rebuild | None" = None,
    ) -> "RepairReport":
        """Make whole what a verification found damaged; what cannot be made whole goes out of service.

        Args:
            problems: What was found.
            donors: Files and directories that may hold good copies of files; nothing in them is trusted.
            rebuild: Called for what no copy can help; must make the object again, or raise a `DisError`.
        """
        from dis_store.integrity.repair import repair

        with reported(self.path):
            return repair(self._foundation, problems, donors=donors, rebuild=rebuild)

    def reindex(
        self, *, jobs: int = 1, progress: Callable[[int, int], None] | None = None
    ) -> "ReindexReport":
        """Rebuild the index from the disk alone, reading every file; closures are admitted whole or not.

        Args:
            jobs: How many threads read and hash.
            progress: Called with how many more bytes were read, and how many there are; from several threads.
        """
        from dis_store.integrity.reindexing import reindex

        with reported(self.path):
            return reindex(self._foundation, jobs=jobs, progress=progress)

    def optimise(
        self,
        digests: Sequence[Digest] | None = None,
        *,
        dry_run: bool = False,
        progress: Callable[[int, int], None] | None = None,
    ) -> "OptimisationReport":
        """Let equal files of objects, of all where none are named, share one inode.

        Args:
            digests: Which objects.
            dry_run: Only report what would be shared.
            progress: Called with how many more objects were looked at, and how many there are.
        """
        from dis_store.integrity.optimisation import optimise

        with reported(self.path):
            return optimise(self._foundation, digests, dry_run=dry_run, progress=progress)

    # The plan cache

    def remember_plan(self, key: Digest, value: str, objects: Sequence[Digest]) -> None:
        """Keep an answer under a key for as long as all the objects that it rests on are there."""
        plans.remember(self._foundation, key, value, objects)

    def recall_plan(self, key: Digest) -> str | None:
        """Return the answer under a key, its objects protected and valid; else None."""
        with reported(self.path):
            return plans.recall(self._foundation, key)
