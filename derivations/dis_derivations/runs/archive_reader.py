"""Reading the archive of a run that may come from anywhere.

Nothing in it is believed: the names must be exactly those that its tree manifests ask for, in their order, every byte
is compared with a digest, and the digest of the bundle is computed again. `tarfile` parses headers here and never
writes a file. What is unpacked is bounded by the sizes in the manifests, headers by an allowance.
"""

import gzip
import shutil
import tarfile
import tempfile
import weakref
import zlib
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import BinaryIO, NoReturn, cast

from blake3 import blake3

from dis_derivations.runs import archive_layout as layout
from dis_derivations.runs.bundle_reader import DirectoryBundle
from dis_store import strict_json
from dis_store.digest import Digest
from dis_store.errors import DisError, IntegrityError, InvalidInputError, UnfitEnvironmentError
from dis_store.tree import Tree

_MAX_HEADER_BYTES = 4096
# All tree manifests together; that of a bundle has one kilobyte.
_MAX_MANIFEST_BYTES = 64 << 20
# What tarfile may read beside the contents of members: headers, padding, its own buffer.
_ALLOWANCE = 1 << 20
_BUFFER_BYTES = 1 << 16
_CHUNK_BYTES = 1 << 20
_MAX_WINDOW = 1 << 27
_GZIP, _ZSTD = b"\x1f\x8b", b"\x28\xb5\x2f\xfd"
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
    with _opened(archive) as stream:
        source = _Members(archive, stream)
        bundle = _header(source)
        trees = layout.lookup(_manifests(source))
        if set(layout.closure_of(bundle, trees)) != source.manifests:
            source.refuse("it has tree manifests that its bundle does not refer to")
        wanted = layout.members(bundle, trees)
        _check_room(directory, sum(member.size for member in wanted if member.shown is not None))
        for member in wanted:
            source.check_next(member.name, member.size)
            target = None if member.shown is None else directory / member.shown
            layout.check_content(member, source.copy(target), str(archive), IntegrityError)
        source.check_end()
    return bundle


def _header(source: "_Members") -> Digest:
    if source.name != layout.HEADER:
        source.refuse(f"it does not begin with {layout.HEADER}")
    document = strict_json.decode(source.read(_MAX_HEADER_BYTES), name=layout.HEADER)
    fields = document if isinstance(document, dict) else {}
    if fields.get("type") != layout.TYPE:
        source.refuse(f"its type is {fields.get('type')!r:.80}, not {layout.TYPE!r}")
    if fields.get("format") != layout.FORMAT:
        raise UnfitEnvironmentError(
            f"{source.archive} cannot be read",
            cause=f"its format is {fields.get('format')!r:.80}, and this version reads {layout.FORMAT}",
        )
    return Digest(str(fields.get("bundle")))


def _manifests(source: "_Members") -> dict[Digest, Tree]:
    """Return the trees by the digests that their manifests have."""
    found: dict[Digest, Tree] = {}
    left = _MAX_MANIFEST_BYTES
    while source.name is not None and source.name.startswith(layout.MANIFESTS):
        name, data = source.name, source.read(left)
        left -= len(data)
        digest = Digest.of(data)
        if name != layout.manifest_name(digest):
            raise IntegrityError(
                f"{name} of {source.archive} is not what it must be",
                cause=f"its digest is {digest}",
            )
        found[digest] = Tree.decode(data)
    source.manifests = set(found)
    return found


def _check_room(directory: Path, needed: int) -> None:
    free = shutil.disk_usage(directory).free
    if free < needed:
        raise UnfitEnvironmentError(
            f"the archive does not fit below {directory.parent}: {needed:,} bytes needed, {free:,} free",
            hint="name a larger place for temporary files: TMPDIR=DIR",
        )


class _Members:
    """The members of an archive, one after the other; each is read once, in order.

    Attributes:
        name: Of the member that comes next; None at the end.
        manifests: The digests of the trees that were read.
    """

    def __init__(self, archive: Path, stream: BinaryIO) -> None:
        self.archive = archive
        self.manifests: set[Digest] = set()
        self._stream = _Allowed(archive, stream)
        try:
            with _damage_told(archive):
                self._tar = tarfile.open(  # noqa: SIM115 - it holds nothing that needs closing
                    fileobj=cast("BinaryIO", self._stream), mode="r|", bufsize=_BUFFER_BYTES
                )
        except IntegrityError as error:
            raise InvalidInputError(
                f"{archive} is not the archive of a run", cause=error.cause
            ) from error
        self._last = b""
        self._advance()

    @property
    def name(self) -> str | None:
        """The name of the member that comes next."""
        return None if self._member is None else self._member.name

    def check_next(self, name: str, size: int) -> None:
        """Refuse an archive in which something else comes next."""
        if self._member is None:
            self.refuse(f"it has no {name}", damaged=True)
        if self._member.name != name:
            self.refuse(f"it has {self._member.name!r:.200} where {name} belongs")
        if self._member.size != size:
            self.refuse(f"its {name} has {self._member.size} bytes, not {size}", damaged=True)

    def check_end(self) -> None:
        """Refuse an archive that holds more."""
        if self._member is not None:
            self.refuse(f"it has {self._member.name!r:.200}, which does not belong to the run")

    def read(self, limit: int) -> bytes:
        """Return the content of the next member."""
        assert self._member is not None  # noqa: S101 - callers look at the name first
        if self._member.size > limit:
            self.refuse(f"its {self._member.name} has more than {limit} bytes")
        return b"".join(self._chunks())

    def copy(self, target: Path | None) -> str:
        """Write the next member to a new file, or nowhere, and return the BLAKE3 of its content."""
        hashed = blake3()
        if target is None:
            for chunk in self._chunks():
                hashed.update(chunk)
            return hashed.hexdigest()
        target.parent.mkdir(parents=True, exist_ok=True)
        with target.open("xb") as stream:
            for chunk in self._chunks():
                hashed.update(chunk)
                stream.write(chunk)
        return hashed.hexdigest()

    def refuse(self, cause: str, *, damaged: bool = False) -> NoReturn:
        """Raise the error of an archive that is none of ours, or was one."""
        if damaged:
            raise IntegrityError(f"{self.archive} is damaged", cause=cause)
        raise InvalidInputError(f"{self.archive} is not the archive of a run", cause=cause)

    def _chunks(self) -> Iterator[bytes]:
        """Yield the content of the next member, and go on to the one after it."""
        assert self._member is not None  # noqa: S101 - callers look at the name first
        left = self._member.size
        self._stream.left += left
        with _damage_told(self.archive):
            stream = self._tar.extractfile(self._member)
        while stream is not None and left:
            with _damage_told(self.archive):
                chunk = stream.read(min(left, _CHUNK_BYTES))
            if not chunk:
                self.refuse("it ends too early", damaged=True)
            left -= len(chunk)
            yield chunk
        self._advance()

    def _advance(self) -> None:
        self._stream.left = max(self._stream.left, _ALLOWANCE)
        with _damage_told(self.archive):
            self._member = self._tar.next()
        member = self._member
        if member is None:
            return
        if member.type not in {tarfile.REGTYPE, tarfile.AREGTYPE} or member.issparse():
            self.refuse(f"its {member.name!r:.200} is not a plain file")
        name = member.name.encode("utf-8", "surrogateescape")
        if name <= self._last:
            self.refuse(f"its {member.name!r:.200} is out of order")
        self._last = name


class _Allowed:
    """A stream from which only so much may be read: a header that claims to be large is no reason to read it all."""

    def __init__(self, archive: Path, stream: BinaryIO) -> None:
        self._archive = archive
        self._stream = stream
        self.left = _ALLOWANCE

    def read(self, size: int) -> bytes:
        """Read at most `size` bytes."""
        self.left -= size
        if self.left < 0:
            raise InvalidInputError(
                f"{self._archive} is not the archive of a run",
                cause=f"between two files it has more than {_ALLOWANCE} bytes",
            )
        data = self._stream.read(size)
        self.left += size - len(data)
        return data


@contextmanager
def _opened(archive: Path) -> Iterator[BinaryIO]:
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
            with gzip.GzipFile(fileobj=stream, mode="rb") as unpacked:
                yield cast("BinaryIO", unpacked)
        elif magic.startswith(_ZSTD):
            import zstandard

            decompressor = zstandard.ZstdDecompressor(max_window_size=_MAX_WINDOW)
            with decompressor.stream_reader(stream, closefd=False) as reader:
                yield cast("BinaryIO", reader)
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


@contextmanager
def _damage_told(archive: Path) -> Iterator[None]:
    """Turn what decompressors and tarfile raise for damaged bytes into an error of ours."""
    from importlib import import_module

    zstd_error: type[Exception] = import_module("zstandard").ZstdError
    try:
        yield
    except (tarfile.TarError, zlib.error, EOFError, gzip.BadGzipFile, zstd_error) as error:
        raise IntegrityError(f"{archive} is damaged", cause=str(error) or None) from error
