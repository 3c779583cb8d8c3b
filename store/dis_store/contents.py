"""What an object shows at its paths, references followed through manifests and never through symlinks."""

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from itertools import count
from pathlib import Path
from typing import NoReturn

from dis_store.digest import Digest
from dis_store.environment import reading
from dis_store.errors import IntegrityError, InvalidInputError
from dis_store.layout import Layout
from dis_store.path_rules import MAX_DEPTH, MAX_PATH_BYTES
from dis_store.tree import FileEntry, ReferenceEntry, Tree

# References may lead to one object many times over; a few kilobytes of manifests could otherwise name 2^64 files.
MAX_FILES = 1_000_000
# A file that more references than this stand before could not be opened by name either: Linux follows 40 links.
MAX_REFERENCE_DEPTH = 64

Trees = Callable[[Digest], Tree]


@dataclass(frozen=True)
class ResolvedFile:
    """A regular file that an object shows.

    Attributes:
        path: Where the object shows it.
        size: Bytes.
        blake3: The digest of the content.
        executable: Whether it may be executed.
        real: The file itself, in the store.
        owner: The object whose own file it is.
    """

    path: str
    size: int
    blake3: Digest
    executable: bool
    real: Path
    owner: Digest

    @property
    def own_path(self) -> str:
        """Where the owner has it."""
        return "/".join(self.real.parts[self.real.parts.index(self.owner) + 1 :])


def resolve_file(digest: Digest, path: str, trees: Trees, layout: Layout) -> ResolvedFile:
    """Return the file that the object shows at `path`.

    Raises:
        InvalidInputError: It shows none.
        IntegrityError: An object on the way is not valid.
    """
    owner, inner = digest, path
    while True:
        tree = trees(owner)
        entry = tree.by_path.get(inner)
        if isinstance(entry, FileEntry):
            return _resolved(path, entry, owner, layout)
        reference = _reference_above(tree, inner)
        if reference is None:
            raise InvalidInputError(f"the object {digest} has no file {path!r}")
        owner, inner = reference.object, _continued(reference, inner)


def resolve_all(digest: Digest, trees: Trees, layout: Layout) -> list[ResolvedFile]:
    """Return every file that the object shows, sorted by the bytes of its path.

    Raises:
        IntegrityError: An object is not valid, or references lead to more than a million entries, through more than
            `MAX_REFERENCE_DEPTH` objects, or to a path that is longer than that of a file may be.
    """
    walk = _Walk(digest, trees, layout)
    return sorted(walk.below(digest, None, "", 0), key=lambda file: file.path.encode())


class _Walk:
    """The way through an object and all that it refers to, held within bounds."""

    def __init__(self, digest: Digest, trees: Trees, layout: Layout) -> None:
        self._digest = digest
        self._trees = trees
        self._layout = layout
        # Entries are counted, not files: references that fan out and end in empty objects show no file at all.
        self._steps = count(1)

    def below(
        self, digest: Digest, place: str | None, shown_as: str, depth: int
    ) -> Iterator[ResolvedFile]:
        """Yield the files at or below the entry or directory `place` of an object, renamed to `shown_as`."""
        if depth > MAX_REFERENCE_DEPTH:
            self._refuse(f"its references lead through more than {MAX_REFERENCE_DEPTH} objects")
        for entry in self._trees(digest).entries:
            if next(self._steps) > MAX_FILES:
                self._refuse(f"its references lead to more than {MAX_FILES} entries")
            rest = _below(entry.path, place)
            if rest is None:
                continue
            shown = "/".join(part for part in (shown_as, rest) if part)
            if isinstance(entry, FileEntry):
                self._check_length(shown)
                yield _resolved(shown, entry, digest, self._layout)
            else:
                yield from self.below(entry.object, entry.subpath, shown, depth + 1)

    def _check_length(self, shown: str) -> None:
        # Each object keeps to these bounds, and one inside another need not.
        if shown.count("/") >= MAX_DEPTH or len(shown.encode()) > MAX_PATH_BYTES:
            self._refuse(
                f"its references put a file deeper than {MAX_DEPTH} levels or {MAX_PATH_BYTES} bytes"
            )

    def _refuse(self, cause: str) -> NoReturn:
        raise IntegrityError(f"the object {self._digest} is refused", cause=cause)


def _below(path: str, directory: str | None) -> str | None:
    """Return `path` relative to `directory`, "" for the same, None if it is elsewhere."""
    if directory is None:
        return path
    if path == directory:
        return ""
    return path[len(directory) + 1 :] if path.startswith(f"{directory}/") else None


def _reference_above(tree: Tree, path: str) -> ReferenceEntry | None:
    """Return the reference at `path` or at a directory of it."""
    while path:
        entry = tree.by_path.get(path)
        if entry is not None:
            return entry if isinstance(entry, ReferenceEntry) else None
        path = path.rpartition("/")[0]
    return None


def _continued(reference: ReferenceEntry, path: str) -> str:
    rest = path[len(reference.path) + 1 :]
    return "/".join(part for part in (reference.subpath, rest) if part)


def _resolved(path: str, entry: FileEntry, owner: Digest, layout: Layout) -> ResolvedFile:
    real = layout.object(owner) / entry.path
    return ResolvedFile(path, entry.size, entry.blake3, entry.executable, real, owner)


def read_verified(file: ResolvedFile) -> bytes:
    """Return the content of a file that is small enough to be hashed every time.

    Raises:
        IntegrityError: It is gone, or cannot be read, or is not what it must be.
    """
    try:
        with reading(file.real):
            data = file.real.read_bytes()
    except FileNotFoundError as error:
        raise changed(file, "it is not there any more") from error
    found = Digest.of(data)
    if found != file.blake3:
        raise changed(file, f"its BLAKE3 is {found}, and must be {file.blake3}")
    return data


def changed(file: ResolvedFile, cause: str) -> IntegrityError:
    """Return the error for a file of an object that is not what it must be."""
    return IntegrityError(
        f"{file.own_path} of the object {file.owner[:12]} has changed in the store",
        cause=cause,
        hint="see what else is damaged: dis store verify --all; then set it aside and make it again: "
        "dis store reindex, dis realize CONFIG --rebuild",
    )
