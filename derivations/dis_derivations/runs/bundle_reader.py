"""Reading the files of a run's bundle, wherever it lies.

A bundle is an object of the store, or a directory of real files that `dis run --run-dir` laid out or somebody unpacked.
Nothing here follows a symlink out of such a directory, and no whole file is read that has no bound on its size.
"""

import os
import stat
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, BinaryIO, Protocol

from dis_derivations.runs.bundle import (
    ACTIVATIONS_FILE,
    BUNDLE_DOCUMENT,
    ENGINE_DOCUMENT,
    LOCK_DOCUMENT,
    LOGITS_FILE,
    MANIFEST_DOCUMENT,
    TOKENS_DOCUMENT,
    TRACE_FILE,
)
from dis_store.digest import Digest
from dis_store.environment import reading
from dis_store.errors import DisError, IntegrityError, InvalidInputError

if TYPE_CHECKING:
    from dis_derivations.runs.left_out import LeftOut
    from dis_store.tensors.tensor_scan import Tensor

# What a bundle is made of. A run directory holds more beside it, the log, which is no part of it.
MEMBERS = (
    BUNDLE_DOCUMENT,
    MANIFEST_DOCUMENT,
    LOCK_DOCUMENT,
    TOKENS_DOCUMENT,
    ENGINE_DOCUMENT,
    LOGITS_FILE,
    ACTIVATIONS_FILE,
    TRACE_FILE,
)

MAX_DOCUMENT_BYTES = 64 * 2**20
# Token ids of a large run are by far the largest document: 512 MiB hold about 80 million of them.
_MAX_BYTES: Mapping[str, int] = {TOKENS_DOCUMENT: 512 * 2**20}


class ObjectFile(Protocol):
    """A file of an object, with references followed; `dis_store.ResolvedFile` is one."""

    @property
    def path(self) -> str:
        """Its path in the object."""
        ...

    @property
    def size(self) -> int:
        """How many bytes it has."""
        ...

    @property
    def blake3(self) -> Digest:
        """The digest of its content."""
        ...

    @property
    def real(self) -> Path:
        """The regular file that holds it."""
        ...


class ObjectFiles(Protocol):
    """What comparing runs needs of a store; `dis_store.Store` is one."""

    def is_valid(self, digest: Digest) -> bool:
        """Return whether the store has an object, whole."""
        ...

    def files(self, digest: Digest) -> Sequence[ObjectFile]:
        """Return every file of an object."""
        ...

    def tensors(self, file: ObjectFile) -> "tuple[Tensor, ...]":
        """Return the tensors of a file; none unless it is a safetensors file."""
        ...

    def file_path(self, digest: Digest, path: str) -> Path:
        """Return the regular file behind an entry."""
        ...

    def read_bytes(self, digest: Digest, path: str) -> bytes:
        """Return a file's content."""
        ...


class BundleReader(Protocol):
    """The files of one bundle. Paths are relative, with `/` between their parts."""

    def describe(self) -> str:
        """Return what messages call this bundle."""
        ...

    def digest(self) -> Digest | None:
        """Return the bundle's digest; None where the bundle is a directory of files."""
        ...

    def names(self) -> list[str]:
        """Return the paths of all files, sorted."""
        ...

    def read_bytes(self, path: str) -> bytes:
        """Return a document's bytes.

        Raises:
            DisError: The bundle has no such file (`refusal` says of which class), or it is too large to be read whole.
        """
        ...

    def open(self, path: str) -> BinaryIO:
        """Open a file for reading from any offset.

        Raises:
            DisError: The bundle has no such file.
        """
        ...

    def path(self, path: str) -> Path:
        """Return the regular file behind a path.

        Raises:
            DisError: The bundle has no such file.
        """
        ...

    def left_out(self) -> "Mapping[str, LeftOut]":
        """Return by path what belongs to the bundle and is not with its other files."""
        ...

    def lacks(self, path: str) -> bool:
        """Return whether a file was left out, and cannot be read from anywhere else."""
        ...

    def refusal(self, what: str, cause: str | None = None) -> DisError:
        """Return the error for a bundle that contradicts itself.

        It is an `IntegrityError` for an object of the store, whose bytes were made by dis, and an
        `InvalidInputError` for files that anyone may have edited.
        """
        ...


class StoredBundle:
    """A bundle in the store."""

    def __init__(self, store: ObjectFiles, digest: Digest) -> None:
        self._store = store
        self._digest = digest
        self._files = {file.path: file for file in store.files(digest)}

    def describe(self) -> str:
        """Return what messages call this bundle."""
        return f"bundle {self._digest[:12]}"

    def digest(self) -> Digest:
        """Return the bundle's digest."""
        return self._digest

    def names(self) -> list[str]:
        """Return the paths of all files, sorted."""
        return sorted(self._files)

    def read_bytes(self, path: str) -> bytes:
        """Return a document's bytes, which are those that the object must have."""
        data = _read_bounded(self, path)
        found = Digest.of(data)
        if found != self._files[path].blake3:
            raise self.refusal(
                f"{path} is damaged",
                f"its BLAKE3 is {found}, and must be {self._files[path].blake3}",
            )
        return data

    def open(self, path: str) -> BinaryIO:
        """Open a file for reading from any offset."""
        real = self.path(path)
        try:
            return real.open("rb")
        except OSError as error:
            raise IntegrityError(
                f"{path} of {self.describe()} cannot be read",
                cause=error.strerror,
                hint="see what else is damaged: dis store verify --all",
            ) from error

    def path(self, path: str) -> Path:
        """Return the regular file behind a path."""
        if path not in self._files:
            raise _missing(self, path)
        return self._store.file_path(self._digest, path)

    def left_out(self) -> "Mapping[str, LeftOut]":
        """Return nothing: an object is whole."""
        return {}

    def lacks(self, path: str) -> bool:
        """Return False: an object is whole."""
        del path
        return False

    def file_digest(self, path: str) -> Digest | None:
        """Return the digest of a file's content, for which the store vouches; None where there is no such file."""
        file = self._files.get(path)
        return None if file is None else file.blake3

    def is_at_hand(self, path: str) -> bool:
        """Return whether a file can be read without fetching it: what is in the store can."""
        return path in self._files

    def refusal(self, what: str, cause: str | None = None) -> DisError:
        """Return the error for a bundle that contradicts itself."""
        hint = f"check its bytes: dis store verify {self._digest[:12]}"
        return IntegrityError(f"{what} in {self.describe()}", cause=cause, hint=hint)


class DirectoryBundle:
    """A bundle as a directory of real files.

    Args:
        path: The directory, or the `bundle.json` in it.

    Raises:
        InvalidInputError: There is no such directory, or it has no `bundle.json`.
    """

    def __init__(self, path: Path) -> None:
        self._given = path.parent if path.name == BUNDLE_DOCUMENT and not path.is_dir() else path
        if not self._given.is_dir():
            raise InvalidInputError(
                f"{path} is no run directory", cause="there is no such directory"
            )
        self._root = self._given.resolve()
        self._left_out: Mapping[str, LeftOut] | None = None
        self._borrowed: dict[str, Path] = {}
        if not (self._root / BUNDLE_DOCUMENT).exists():
            raise InvalidInputError(
                f"{self._given} is no run directory",
                cause=f"it has no {BUNDLE_DOCUMENT}",
                hint="name the directory that dis run made, or its bundle.json",
            )

    def describe(self) -> str:
        """Return what messages call this bundle."""
        return f"run directory {self._given}"

    def digest(self) -> Digest | None:
        """Return None: files alone do not say how the bundle was divided into objects."""

    def names(self) -> list[str]:
        """Return the paths of all files, sorted; symlinks that leave the directory are not among them."""
        found: list[str] = []
        for folder, _, files in os.walk(self._root):
            for file in files:
                name = (Path(folder) / file).relative_to(self._root).as_posix()
                if self._is_inside((Path(folder) / file).resolve()):
                    found.append(name)
        return sorted(found)

    def read_bytes(self, path: str) -> bytes:
        """Return a document's bytes."""
        return _read_bounded(self, path)

    def open(self, path: str) -> BinaryIO:
        """Open a file for reading from any offset."""
        try:
            return self.path(path).open("rb")
        except OSError as error:
            what = f"{path} of {self.describe()} cannot be read"
            raise InvalidInputError(what, cause=error.strerror) from error

    def left_out(self) -> "Mapping[str, LeftOut]":
        """Return by path what `left_out.json` says is not in the directory."""
        if self._left_out is None:
            # Imported here: most directories are whole.
            from dis_derivations.runs.left_out import LEFT_OUT_DOCUMENT, read_document

            self._left_out = {}
            if (self._root / LEFT_OUT_DOCUMENT).exists():
                try:
                    self._left_out = read_document(self.read_bytes(LEFT_OUT_DOCUMENT))
                except InvalidInputError as error:
                    raise self.refusal(error.what, error.cause) from error
        return self._left_out

    def borrow(self, store: ObjectFiles) -> None:
        """Read what was left out where a store has it, by its digest."""
        for path, entry in self.left_out().items():
            if not store.is_valid(entry.object):
                continue
            for file in store.files(entry.object):
                if file.path == entry.subpath and file.blake3 == entry.blake3:
                    self._borrowed[path] = file.real

    def lacks(self, path: str) -> bool:
        """Return whether a file was left out, and the store that was asked has none like it."""
        return path in self.left_out() and path not in self._borrowed

    def path(self, path: str) -> Path:
        """Return the regular file behind a path."""
        if path in self._borrowed:
            return self._borrowed[path]
        real = (self._root / path).resolve()
        if not self._is_inside(real):
            raise InvalidInputError(
                f"{path} of {self.describe()} is refused",
                cause="it is a link that leads out of the directory",
                hint="put the file itself into the directory",
            )
        try:
            mode = real.stat().st_mode
        except OSError as error:
            raise _missing(self, path) from error
        if not stat.S_ISREG(mode):
            cause = "it is not a regular file"
            raise InvalidInputError(f"{path} of {self.describe()} is refused", cause=cause)
        return real

    def refusal(self, what: str, cause: str | None = None) -> DisError:
        """Return the error for a bundle that contradicts itself."""
        hint = "make the directory again: dis run CONFIG --run-dir DIR"
        return InvalidInputError(f"{what} in {self.describe()}", cause=cause, hint=hint)

    def _is_inside(self, real: Path) -> bool:
        return real.is_relative_to(self._root)


def _read_bounded(reader: BundleReader, path: str) -> bytes:
    limit = _MAX_BYTES.get(path, MAX_DOCUMENT_BYTES)
    with reader.open(path) as stream, reading(f"{path} of {reader.describe()}"):
        # What is asked for is allocated, however little there is.
        size = os.fstat(stream.fileno()).st_size
        data = stream.read(min(size, limit) + 1)
    if len(data) > limit:
        cause = f"it has more than {limit // 2**20} MiB"
        raise InvalidInputError(f"{path} of {reader.describe()} is too large", cause=cause)
    return data


def _missing(reader: BundleReader, path: str) -> DisError:
    if path == BUNDLE_DOCUMENT:
        cause = f"it has no {BUNDLE_DOCUMENT}"
        return InvalidInputError(f"{reader.describe()} is not the bundle of a run", cause=cause)
    return reader.refusal(f"there is no {path}")
