"""Writing a run as one archive: the same bytes every time (docs/internals/formats/archive.md)."""

import gzip
import hashlib
import re
import tarfile
from collections.abc import Collection, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from io import BytesIO
from pathlib import Path
from typing import TYPE_CHECKING, BinaryIO, cast

from blake3 import blake3

from dis_derivations.runs import archive_layout as layout
from dis_derivations.runs.bundle import REFERENCED_RESULTS
from dis_derivations.runs.bundle_reader import MEMBERS
from dis_derivations.runs.left_out import LeftOut, missing_files
from dis_derivations.runs.output_file import appearing, check_place
from dis_derivations.runs.reference import Resolved
from dis_store.archives.compression import compressing
from dis_store.digest import Digest, Sha256
from dis_store.environment import reading
from dis_store.errors import IntegrityError, InvalidInputError, MissingObjectError
from dis_store.hashing import digest_of
from dis_store.tree import Entry, FileEntry, ReferenceEntry, Tree

if TYPE_CHECKING:
    from dis_derivations.runs.bundle_documents import Bundle
    from dis_store import Store

# What compressors are given at a time: the same division into blocks, so the same bytes, whatever the files' sizes.
_BLOCK_BYTES = 1 << 20
_NAME_DIGITS = 8
_LONGEST_LABEL = 100
_NOT_IN_NAMES = re.compile(r"[^A-Za-z0-9._+-]+")


@dataclass(frozen=True)
class Archive:
    """An archive that was written: `size` and `sha256` are those of the file; `left_out` is not in it."""

    path: Path
    bundle: Digest
    size: int
    sha256: Sha256
    left_out: tuple[LeftOut, ...] = ()


@dataclass(frozen=True)
class PlannedArchive:
    """An archive that would be written: `size` is that of its files before they are compressed."""

    path: Path
    bundle: Digest
    files: int
    size: int
    left_out: tuple[LeftOut, ...] = ()


def include_of(store: "Store", resolved: Resolved, digest: Digest) -> tuple[str, ...]:
    """Return the words of `outputs.bundle_policy.include` that go with a run: its root has them, and no bundle.

    Of several roots the one that the REF names answers, else the automatic one before those of people.
    """
    if resolved.root is not None and resolved.entry is not None:
        return resolved.entry.include
    roots = [each for each in store.survey_roots().good.values() if each.object == digest]
    said = sorted((each for each in roots if each.include), key=lambda each: not each.automatic)
    return said[0].include if said else ()


def plan_archive(
    store: "Store",
    resolved: Resolved,
    output: Path | None = None,
    *,
    include: Collection[str] | None = None,
) -> PlannedArchive:
    """Return what `archive_run` would write, writing nothing.

    Raises:
        InvalidInputError, IntegrityError: As `archive_run`, but files of the run are not read.
    """
    digest, target = _what_and_where(store, resolved, output)
    words = include if include is not None else include_of(store, resolved, digest)
    members, gaps = _division(store, digest, words)
    size = sum(each.size for each in members)
    return PlannedArchive(target, digest, len(members), size, tuple(gaps))


def archive_run(
    store: "Store",
    resolved: Resolved,
    output: Path | None = None,
    *,
    replace: bool = False,
    include: Collection[str] | None = None,
) -> Archive:
    """Write the archive of a run, in the store or laid out as a directory, and return it.

    Args:
        store: Holds the run.
        resolved: The run.
        output: Where the archive goes, ending in `.tar.gz` or `.tar.zst`; by default `NAME.DIGITS.tar.gz` in the
            working directory.
        replace: Whether a file with other content may be replaced.
        include: Words for what of the run goes in, all of it where there are none; None for what the manifest of the
            run says.

    Raises:
        InvalidInputError: It is no run, `output` has another ending or is there already, or the store does not have the
            run of a directory.
        IntegrityError: A file of the run is damaged.
        UnfitEnvironmentError: The archive cannot be written.
    """
    digest, target = _what_and_where(store, resolved, output)
    words = include if include is not None else include_of(store, resolved, digest)
    with appearing(target, replace=replace) as stream:
        counted = _Counted(stream)
        with _compressed(target, cast("BinaryIO", counted)) as packed:
            gaps = _write(store, digest, words, packed)
    return Archive(target, digest, counted.size, counted.sha256, tuple(gaps))


def _what_and_where(store: "Store", resolved: Resolved, output: Path | None) -> tuple[Digest, Path]:
    """Return the bundle and the file that its archive becomes."""
    from dis_derivations.runs.bundle_documents import load_bundle

    bundle = load_bundle(resolved.bundle(store))
    digest = _stored(store, resolved, bundle)
    target = output if output is not None else Path(_default_name(bundle, digest))
    if not target.name.endswith(layout.SUFFIXES):
        raise InvalidInputError(
            f"{target} is no name for an archive",
            cause=f"it must end with {' or '.join(layout.SUFFIXES)}",
        )
    check_place(target)
    return digest, target


def _default_name(bundle: "Bundle", digest: Digest) -> str:
    label = _NOT_IN_NAMES.sub("-", bundle.document.name).strip("-.")[:_LONGEST_LABEL] or "run"
    return f"{label}.{digest[:_NAME_DIGITS]}{layout.SUFFIXES[0]}"


def _stored(store: "Store", resolved: Resolved, bundle: "Bundle") -> Digest:
    """Return the bundle as an object of the store."""
    if resolved.kind == "run directory":
        return _of_directory(store, bundle)
    digest = resolved.object()
    if not store.protect(digest):
        raise MissingObjectError(f"the object {digest} is not in the store")
    return digest


def _of_directory(store: "Store", bundle: "Bundle") -> Digest:
    """Return the object that a run directory was laid out from, after comparing every file with it."""
    reader, entries = bundle.reader, list[Entry]()
    found = {name: reader.path(name) for name in reader.names() if name in MEMBERS}
    digests = {name: digest_of(path) for name, path in found.items()}
    for name, path in found.items():
        if name in REFERENCED_RESULTS:
            entries.append(ReferenceEntry(name, bundle.document.results, name))
        else:
            entries.append(FileEntry(name, path.stat().st_size, digests[name]))
    for name, entry in reader.left_out().items():
        entries.append(ReferenceEntry(name, bundle.document.results, name))
        digests[name] = entry.blake3
    digest = Tree(tuple(sorted(entries, key=lambda entry: entry.path.encode()))).digest
    if not store.protect(digest):
        raise InvalidInputError(
            f"the {reader.describe()} cannot be archived",
            cause=f"its bundle {digest[:12]} is not in this store, and a directory does not hold all of it",
            hint="name the store that has the run: --store DIR",
        )
    for file in store.files(digest):
        if digests.get(file.path) != file.blake3:
            raise InvalidInputError(
                f"{file.path} of the {reader.describe()} is not that of its bundle {digest[:12]}",
                hint="archive the run itself: name its root or its digest",
            )
    return digest


@contextmanager
def _compressed(target: Path, stream: BinaryIO) -> Iterator[BinaryIO]:
    """Give a stream that compresses into another, with nothing in its header but what the format asks for."""
    if target.name.endswith(".gz"):
        with gzip.GzipFile(
            filename="", mode="wb", compresslevel=layout.GZIP_LEVEL, fileobj=stream, mtime=0
        ) as packed:
            yield cast("BinaryIO", packed)
        return
    with compressing(stream) as packed:
        yield packed


def _division(
    store: "Store", bundle: Digest, include: Collection[str]
) -> tuple[list[layout.Member], list[LeftOut]]:
    return layout.divided(bundle, layout.lookup(_trees(store, bundle)), missing_files(include))


def _trees(store: "Store", bundle: Digest) -> dict[Digest, Tree]:
    return {digest: store.tree(digest) for digest in store.closure([bundle])}


def _write(
    store: "Store", bundle: Digest, include: Collection[str], stream: BinaryIO
) -> list[LeftOut]:
    trees = _trees(store, bundle)
    members, gaps = _division(store, bundle, include)
    with tarfile.open(
        fileobj=stream, mode="w|", bufsize=_BLOCK_BYTES, format=tarfile.PAX_FORMAT
    ) as tar:
        _add(tar, layout.HEADER, layout.header(bundle, gaps))
        for digest in sorted(trees):
            _add(tar, layout.manifest_name(digest), trees[digest].encode())
        for member in members:
            if member.data is not None:
                _add(tar, member.name, member.data)
            else:
                _add_file(tar, member, store.object_path(member.owner) / member.path)
    return gaps


def _add(tar: tarfile.TarFile, name: str, data: bytes) -> None:
    tar.addfile(layout.information(name, len(data)), BytesIO(data))


def _add_file(tar: tarfile.TarFile, member: layout.Member, source: Path) -> None:
    """Copy a file of the store, hashing what is copied: an archive must not spread damage."""
    with source.open("rb") as stream:
        hashed = _Hashed(stream)
        try:
            tar.addfile(layout.information(member.name, member.size), cast("BinaryIO", hashed))
        except OSError as error:
            if error.errno is not None:
                raise
            raise IntegrityError(f"{source} is shorter than it must be") from error
    layout.check_content(member, hashed.digest, f"object {member.owner[:12]}", IntegrityError)


class _Hashed:
    """A stream that hashes what is read from it."""

    def __init__(self, stream: BinaryIO) -> None:
        self._stream = stream
        self._hash = blake3()

    def read(self, size: int = -1) -> bytes:
        """Read at most `size` bytes."""
        with reading(self._stream.name):
            data = self._stream.read(size)
        self._hash.update(data)
        return data

    @property
    def digest(self) -> str:
        """The digest of what was read."""
        return self._hash.hexdigest()


class _Counted:
    """A stream that counts and hashes what is written to it."""

    def __init__(self, stream: BinaryIO) -> None:
        self._stream = stream
        self._hash = hashlib.sha256()
        self.size = 0

    def write(self, data: bytes) -> int:
        """Write all of `data`."""
        self._hash.update(data)
        self.size += len(data)
        self._stream.write(data)
        return len(data)

    def flush(self) -> None:
        """Pass on what is buffered."""
        self._stream.flush()

    @property
    def sha256(self) -> Sha256:
        """The digest of what was written."""
        return Sha256(f"sha256:{self._hash.hexdigest()}")
