"""Bringing the files of an artifact into the store, which is what locking a local source is."""

import socket
from collections.abc import Callable
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import TYPE_CHECKING

from dis_derivations.graph.keys import fixed_output_key
from dis_derivations.lock.document import LockedFile
from dis_derivations.lock.staleness import retrieval_of
from dis_derivations.manifest.artifact_groups import ArtifactGroup, DeclaredFile
from dis_derivations.realisation.recorded_user import recorded_user
from dis_derivations.sources.source import Source, WantedFile
from dis_store.digest import Digest, Sha256
from dis_store.work_progress import uncounted

if TYPE_CHECKING:
    from dis_store import Store

OUTPUT = "out"


@dataclass(frozen=True)
class GroupPlan:
    """An artifact that is to be locked: its source, and the files that are taken from it."""

    group: ArtifactGroup
    source: Source
    files: tuple[DeclaredFile, ...]

    @property
    def size(self) -> int:
        """The bytes to read, as far as they are known before."""
        return sum(self.source.size(file.path) or 0 for file in self.files)

    @property
    def is_sized(self) -> bool:
        """Whether the bytes of every file are known before."""
        return all(self.source.size(file.path) is not None for file in self.files)


@dataclass(frozen=True)
class Mismatch:
    """A file whose bytes are not those that its manifest declares."""

    name: str
    path: str
    declared: Sha256
    found: Sha256
    source: str


def ingest_group(
    store: "Store",
    plan: GroupPlan,
    check_interrupted: Callable[[], None],
    on_bytes: Callable[[int], None] = uncounted,
) -> tuple[list[LockedFile], list[Mismatch]]:
    """Read the files of an artifact into one object, and record it under the key of its files.

    When a file is not what was declared, nothing is registered and the mismatches are returned.
    `on_bytes` is told of each piece that was read.

    Raises:
        BuildError: A file cannot be read.
    """
    started_at = now()
    # What a server sends is compared at once, so that a mirror can have its turn; a directory's files all together.
    named = plan.group.source
    is_remote = named.type in ("url", "huggingface", "oci") and named.location is None
    wanted = [
        WantedFile(file.path, sha256=file.sha256 if is_remote else None) for file in plan.files
    ]
    with store.new_tree(expected_bytes=plan.size, expected_files=len(plan.files)) as tree:
        written = plan.source.fetch(wanted, tree, check_interrupted, on_bytes)
        pairs = zip(plan.files, written, strict=True)
        mismatches = [
            Mismatch(plan.group.name, file.path, file.sha256, found.sha256, plan.source.describe())
            for file, found in pairs
            if file.sha256 is not None and file.sha256 != found.sha256
        ]
        if mismatches:
            return [], mismatches
        digest = tree.register()
    retrieval = retrieval_of(plan.group)
    locked = [
        LockedFile(
            name=plan.group.name,
            path=file.path,
            size=file.size,
            digest=file.sha256,
            executable=False,
            digest_source="computed",
            retrieval=retrieval,
        )
        for file in written
    ]
    _record(store, locked, digest, started_at)
    return locked, []


def now() -> str:
    """Return the time in UTC as in RFC 3339."""
    return datetime.now(UTC).isoformat(timespec="milliseconds").replace("+00:00", "Z")


def _record(store: "Store", locked: list[LockedFile], digest: Digest, started_at: str) -> None:
    from dis_store import Realisation

    key = fixed_output_key(
        {
            "path": file.path,
            "size": file.size,
            "sha256": str(file.digest),
            "executable": file.executable,
        }
        for file in locked
    )
    record = Realisation(
        key=key,
        builder="files",
        outputs={OUTPUT: digest},
        compared=(OUTPUT,),
        inputs={},
        derivation=None,
        platform={"class": "any", "facts": {}},
        origin="ingested",
        started_at=started_at,
        finished_at=now(),
        host=socket.gethostname(),
        user=recorded_user(),
    )
    # Under the lock, so that of several processes that read the same bytes only one says so; reading
    # them again is no news about them.
    with store.build_lock(key):
        chosen = store.chosen(key)
        if chosen is None or chosen.outputs.get(OUTPUT) != digest:
            store.add_realisation(record)
