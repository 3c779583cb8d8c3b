"""What every operation on a store stands on: its layout, locks, temporary roots and index, and the safe look-up."""

from collections import OrderedDict
from collections.abc import Iterable
from pathlib import Path
from threading import Lock
from typing import TYPE_CHECKING

from dis_store.digest import Digest, Sha256
from dis_store.environment import reading
from dis_store.errors import IntegrityError, MissingObjectError
from dis_store.index import Index
from dis_store.layout import Layout
from dis_store.locks import Locks
from dis_store.temp_roots import TempRoots

if TYPE_CHECKING:
    from dis_store.tree import Tree

_CACHED_TREES = 256


class Foundation:
    """One open store, as its modules see it."""

    def __init__(self, layout: Layout, locks: Locks, temp_roots: TempRoots, index: Index) -> None:
        self.layout = layout
        self.locks = locks
        self.temp_roots = temp_roots
        self.index = index
        # Objects that were found damaged and are being repaired: as good as missing, to everybody in this process.
        self.distrusted: set[Digest] = set()
        # What files were found to be by this process when somebody asked; None for those that are damaged.
        self.sha256s: dict[Digest, Sha256 | None] = {}
        self.hashing = Lock()
        self._trees: OrderedDict[Digest, Tree] = OrderedDict()
        self._trees_lock = Lock()

    @property
    def top(self) -> Path:
        """The directory of the store."""
        return self.layout.top

    def is_valid(self, digest: Digest) -> bool:
        """Tell whether the object can be served. Only `protect` keeps the answer true."""
        return digest not in self.distrusted and self.has_row(digest) and self._is_on_disk(digest)

    def has_row(self, digest: Digest) -> bool:
        """Tell whether the index knows the object."""
        return self.index.value("SELECT 1 FROM objects WHERE digest = ?", (digest,)) is not None

    def _is_on_disk(self, digest: Digest) -> bool:
        # Two looks at the disk, so that what somebody deleted by hand is built again and not promised.
        return self.layout.manifest(digest).is_file() and self.layout.object(digest).is_dir()

    def protect(self, digests: Iterable[Digest]) -> bool:
        """Keep objects from garbage collection, then tell whether all of them are valid.

        The order is the point: asked the other way round, a collection could come in between.
        """
        wanted = list(dict.fromkeys(digests))
        self.temp_roots.add(wanted)
        return self.are_valid(wanted)

    def are_valid(self, digests: list[Digest]) -> bool:
        """Tell, in one query, whether all of the distinct `digests` are valid."""
        import json

        if not self.distrusted.isdisjoint(digests):
            return False
        found = self.index.value(
            "SELECT count(*) FROM objects WHERE digest IN (SELECT value FROM json_each(?))",
            (json.dumps(digests),),
        )
        return bool(found == len(digests)) and all(map(self._is_on_disk, digests))

    def require(self, digest: Digest) -> None:
        """Protect an object that must be there.

        Raises:
            IntegrityError: It is not valid.
        """
        if not self.protect([digest]):
            raise missing(digest)

    def tree(self, digest: Digest) -> "Tree":
        """Return the manifest of a valid object.

        Raises:
            IntegrityError: The object is not valid, or its manifest is damaged.
        """
        if not self.is_valid(digest):
            raise missing(digest)
        with self._trees_lock:
            if digest in self._trees:
                self._trees.move_to_end(digest)
                return self._trees[digest]
        tree = read_tree(self.layout, digest)
        with self._trees_lock:
            self._trees[digest] = tree
            if len(self._trees) > _CACHED_TREES:
                self._trees.popitem(last=False)
        return tree


def read_tree(layout: Layout, digest: Digest) -> "Tree":
    """Read a manifest from the disk.

    Raises:
        IntegrityError: It is missing, or cannot be read, or its BLAKE3 is not `digest`, or it is no manifest.
    """
    from dis_store.tree import Tree

    try:
        with reading(layout.manifest(digest)):
            data = layout.manifest(digest).read_bytes()
    except FileNotFoundError as error:
        raise MissingObjectError(
            f"the manifest of the object {digest} is missing",
            hint="find what else is damaged: dis store verify",
        ) from error
    if Digest.of(data) != digest:
        raise IntegrityError(
            f"the manifest of the object {digest} is damaged",
            cause=f"its BLAKE3 is {Digest.of(data)}",
            hint="find what else is damaged: dis store verify",
        )
    return Tree.decode(data)


def missing(digest: Digest) -> MissingObjectError:
    """Return the error for an object that is not valid."""
    return MissingObjectError(f"the object {digest} is not in the store")
