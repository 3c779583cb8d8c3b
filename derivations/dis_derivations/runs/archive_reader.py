"""Reading the archive of a run that may come from anywhere.

Nothing in it is believed: the members must be exactly those that its tree manifests ask for, every byte beside their
contents exactly what `dis bundle` writes there (`tar_reader`), every content is compared with a digest, and the digest
of the bundle is computed again. What is unpacked is bounded by the sizes in the manifests.
"""

import gzip
import shutil
import tempfile
import weakref
import zlib
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import BinaryIO, cast

from blake3 import blake3

from dis_derivations.runs import archive_layout as layout
from dis_derivations.runs.bundle_reader import DirectoryBundle
from dis_derivations.runs.left_out import LeftOut, entries_of
from dis_store import strict_json
from dis_store.archives.compression import MAGIC, decompressing
from dis_store.archives.tar_reader import TarReader
from dis_store.digest import Digest
from dis_store.errors import DisError, IntegrityError, InvalidInputError, UnfitEnvironmentError
from dis_store.tree import Tree

_MAX_HEADER_BYTES = 4096
# All tree manifests together; that of a bundle has one kilobyte.
_MAX_MANIFEST_BYTES = 64 << 20
_GZIP = b"\x1f\x8b"
_OTHERS = {b"BZh": "bzip2", b"\xfd7zXZ": "xz"}


class ArchiveBundle(DirectoryBundle):
    """The bundle in an archive, unpacked into a temporary directory that goes when this object goes.

    Args:
        archive: The file.

    Raises:
        InvalidInputError: It is no archive of a run.
        IntegrityError: It is damaged, or its bytes are not what its tree manifests say.
        UnfitEnvironmentError: It cannot be read or unpacked here.
    """

    def __init__(self, archive: Path) -> None:
        self._archive = archive
        directory = Path(tempfile.mkdtemp(prefix="dis-archive-"))
        self._remove = weakref.finalize(self, shutil.rmtree, directory, ignore_errors=True)
        try:
            self._digest = unpack(archive, directory)
        except BaseException:
            self._remove()
            raise
        super().__init__(directory)

    def describe(self) -> str:
        """Return what messages call this bundle."""
        return f"archive {self._archive}"

    def digest(self) -> Digest:
        """Return the bundle's digest, which was computed from the archive."""
        return self._digest

    def refusal(self, what: str, cause: str | None = None) -> DisError:
        """Return the error for a bundle that contradicts itself."""
        hint = "make the archive again: dis bundle REF"
        return InvalidInputError(f"{what} in {self.describe()}", cause=cause, hint=hint)


def unpack(archive: Path, directory: Path) -> Digest:
    """Write the files that the bundle shows into an empty directory, and return the bundle's digest.

    Raises:
        InvalidInputError, IntegrityError, UnfitEnvironmentError: As `ArchiveBundle` says. What was written until
            then is for the caller to remove.
    """
    with opened(archive) as stream:
        source = TarReader(
            stream,
            name=str(archive),
            kind="the archive of a run",
            header=layout.member_header,
            record_bytes=layout.RECORD_BYTES,
        )
        bundle, gaps, head = _header(archive, source)
        manifests = _manifests(source)
        trees = layout.lookup(manifests)
        if set(layout.closure_of(bundle, trees)) != set(manifests):
            source.refuse("it has tree manifests that its bundle does not refer to")
        wanted, found = layout.divided(bundle, trees, gaps.keys())
        if layout.header(bundle, found) != head:
            source.damaged(f"its {layout.HEADER} is not what belongs there")
        _check_room(directory, sum(member.size for member in wanted if member.shown is not None))
        for member in wanted:
            target = None if member.shown is None else directory / member.shown
            content = _copied(source, member, target)
            layout.check_content(member, content, str(archive), IntegrityError)
        source.check_end()
    return bundle


def _header(archive: Path, source: TarReader) -> tuple[Digest, dict[str, LeftOut], bytes]:
    """Return the bundle, what is said to be left out of it, and the bytes that say so."""
    try:
        source.next_block()
    except IntegrityError as error:
        source.refuse(error.cause or "it is empty")
    data = source.document(lambda _: layout.HEADER, _MAX_HEADER_BYTES)
    document = strict_json.decode(data, name=layout.HEADER)
    fields = document if isinstance(document, dict) else {}
    if fields.get("type") != layout.TYPE:
        source.refuse(f"its type is {fields.get('type')!r:.80}, not {layout.TYPE!r}")
    found = fields.get("format")
    if type(found) is int and found > layout.FORMAT_WITH_GAPS:
        raise UnfitEnvironmentError(
            f"{archive} cannot be read",
            cause=f"its format is {found}, and this version reads {layout.FORMAT_WITH_GAPS}",
        )
    bundle = fields.get("bundle")
    gaps: dict[str, LeftOut] = {}
    try:
        digest = Digest(bundle) if isinstance(bundle, str) else None
        if "left_out" in fields:
            gaps = entries_of(fields["left_out"])
    except (InvalidInputError, KeyError, TypeError, ValueError):
        digest = None
    if digest is None or layout.header(digest, list(gaps.values())) != data:
        source.damaged(f"its {layout.HEADER} is not what belongs there")
    return digest, gaps, data


def _manifests(source: TarReader) -> dict[Digest, Tree]:
    """Return the trees by the digests that their manifests have."""
    found: dict[Digest, Tree] = {}
    left, last = _MAX_MANIFEST_BYTES, ""
    while source.next_block().startswith(layout.MANIFESTS.encode()):
        data = source.document(lambda data: layout.manifest_name(Digest.of(data)), left)
        left -= len(data)
        digest = Digest.of(data)
        if digest <= last:
            source.refuse("its manifests are out of order")
        found[digest], last = Tree.decode(data), digest
    return found


def _copied(source: TarReader, member: layout.Member, target: Path | None) -> str:
    """Write the next member to a new file, or nowhere, and return the BLAKE3 of its content."""
    hashed = blake3()
    with _written_to(target) as write:
        for chunk in source.chunks(member.name, member.size):
            hashed.update(chunk)
            write(chunk)
    return hashed.hexdigest()


@contextmanager
def _written_to(target: Path | None) -> Iterator[Callable[[bytes], object]]:
    if target is None:
        yield lambda _: None
        return
    target.parent.mkdir(parents=True, exist_ok=True)
    with target.open("xb") as stream:
        yield stream.write


def _check_room(directory: Path, needed: int) -> None:
    free = shutil.disk_usage(directory).free
    if free < needed:
        raise UnfitEnvironmentError(
            f"the archive does not fit below {directory.parent}: {needed:,} bytes needed, {free:,} free",
            hint="name a larger place for temporary files: TMPDIR=DIR",
        )


class _Unzipped:
    """The bytes that gzip packed; what it raises for damaged ones becomes an error of ours."""

    def __init__(self, archive: Path, stream: gzip.GzipFile) -> None:
        self._archive = archive
        self._stream = stream

    def read(self, size: int) -> bytes:
        """Read at most `size` bytes."""
        try:
            return self._stream.read(size)
        except (zlib.error, EOFError, gzip.BadGzipFile) as error:
            raise IntegrityError(f"{self._archive} is damaged", cause=str(error) or None) from error


@contextmanager
def opened(archive: Path) -> Iterator[BinaryIO]:
    """Give the uncompressed bytes of an archive; what compresses it is told by its first bytes."""
    if archive.exists() and not archive.is_file():  # a pipe would be waited for
        raise InvalidInputError(f"{archive} is not a regular file")
    try:
        stream = archive.open("rb")
    except OSError as error:
        raise InvalidInputError(f"{archive} cannot be read", cause=error.strerror) from error
    with stream:
        magic = stream.read(6)
        stream.seek(0)
        if magic.startswith(_GZIP):
            with gzip.GzipFile(fileobj=stream, mode="rb") as unzipped:
                yield cast("BinaryIO", _Unzipped(archive, unzipped))
        elif magic.startswith(MAGIC):
            with decompressing(stream, str(archive)) as unpacked:
                yield unpacked
        else:
            _refuse_other_compression(archive, magic)
            yield stream


def _refuse_other_compression(archive: Path, magic: bytes) -> None:
    for start, name in _OTHERS.items():
        if magic.startswith(start):
            raise UnfitEnvironmentError(
                f"{archive} cannot be read",
                cause=f"it is compressed with {name}, and dis reads gzip and zstd",
                hint="unpack it, and name the .tar",
            )
