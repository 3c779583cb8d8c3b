"""Reading single files out of a wheel that nobody trusts: bounded, unpacked nowhere, nothing of it run."""

import stat
import struct
import zipfile
import zlib
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from types import TracebackType
from typing import IO, Self

from dis_store.errors import InvalidInputError
from dis_store.path_rules import check_path

_MAX_DIRECTORY_BYTES = 16 << 20
_MOST_MEMBERS = 1 << 16
# Numbers of a model compress to a half at best, and its texts to a tenth.
_MOST_RATIO = 100
_FREE_BYTES = 1 << 20
_PIECE_BYTES = 1 << 20
_METHODS = frozenset({zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED})
_ENCRYPTED = 0x1
# The records at the end of an archive: their marks, their lengths, and where the size of the list of members is.
_END, _END_BYTES, _END_SIZE_AT = b"PK\x05\x06", 22, 12
_LOCATOR, _LOCATOR_BYTES, _LOCATOR_PLACE_AT = b"PK\x06\x07", 20, 8
_END64, _END64_BYTES, _END64_SIZE_AT = b"PK\x06\x06", 56, 40
_LONGEST_COMMENT = (1 << 16) - 1
_IN_LONG_RECORD = (1 << 32) - 1
# What the library raises when an archive is not what it says; OSError where it is sent to a place before its beginning.
_FAULTS = (
    zipfile.BadZipFile,
    zlib.error,
    struct.error,
    EOFError,
    OSError,
    RuntimeError,
    ValueError,
)


class WheelArchive:
    """A wheel whose files can be read; a context manager.

    Args:
        path: Where it is.
        name: What messages call it; the name of the file if None.
        most_ratio: How many times its packed size a file of it may have, beyond the first MiB.

    Raises:
        InvalidInputError: It is no wheel, lists too much, or has a name that leads elsewhere.
    """

    def __init__(
        self, path: Path, *, name: str | None = None, most_ratio: int = _MOST_RATIO
    ) -> None:
        self._name = name or path.name
        self._most_ratio = most_ratio
        with self._faults():
            _check_directory(path)
            self._archive = zipfile.ZipFile(path)
        try:
            self._members = self._listed()
        except BaseException:
            self._archive.close()
            raise

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self._archive.close()

    @property
    def names(self) -> list[str]:
        """The paths of its files, sorted."""
        return sorted(self._members)

    def __contains__(self, path: str) -> bool:
        return path in self._members

    def size(self, path: str) -> int:
        """Return the bytes that a file claims to have."""
        return self._members[path].file_size

    def is_executable(self, path: str) -> bool:
        """Tell whether a file is marked as a program."""
        return bool((self._members[path].external_attr >> 16) & 0o111)

    def pieces(self, path: str) -> Iterator[bytes]:
        """Yield the bytes of a file of the wheel in pieces of a bounded size.

        Raises:
            InvalidInputError: It is a link, would grow too much, or is not what the wheel says of it, which may show
                only after its last piece.
        """
        member = self._members[path]
        self._check(member)
        left = member.file_size
        with self._faults(), self._archive.open(member) as stream:
            while piece := stream.read(_PIECE_BYTES):
                left -= len(piece)
                yield piece
        if left:
            raise self._refusal(f"it is damaged: {path} in it has {left} bytes less than it says")

    def _listed(self) -> dict[str, zipfile.ZipInfo]:
        infos = self._archive.infolist()
        if len(infos) > _MOST_MEMBERS:
            raise self._refusal(f"it lists {len(infos)} files; {_MOST_MEMBERS} are the most")
        members: dict[str, zipfile.ZipInfo] = {}
        for info in infos:
            name = info.orig_filename
            try:
                check_path(name.removesuffix("/"))
            except InvalidInputError as error:
                raise self._refusal(
                    f"it lists {name[:80]!r}: {error.cause or error.what}"
                ) from error
            if name in members:
                raise self._refusal(f"it lists {name!r} twice")
            if not name.endswith("/"):
                members[name] = info
        return members

    def _check(self, member: zipfile.ZipInfo) -> None:
        kind = stat.S_IFMT(member.external_attr >> 16)
        if kind not in {0, stat.S_IFREG}:
            raise self._refusal(
                f"{member.filename} in it is a link or another thing that is no file"
            )
        if member.flag_bits & _ENCRYPTED or member.compress_type not in _METHODS:
            raise self._refusal(f"{member.filename} in it is encrypted, or packed as no wheel is")
        if member.file_size > _FREE_BYTES + self._most_ratio * member.compress_size:
            raise self._refusal(
                f"{member.filename} in it would grow from {member.compress_size} to {member.file_size} bytes"
            )

    def _refusal(self, cause: str) -> InvalidInputError:
        return InvalidInputError(f"the wheel {self._name} is refused", cause=cause)

    @contextmanager
    def _faults(self) -> Iterator[None]:
        try:
            yield
        except _FAULTS as error:
            raise self._refusal(
                f"it is damaged: {str(error)[:200] or type(error).__name__}"
            ) from error


def _check_directory(path: Path) -> None:
    """Refuse a list of members that is too long to be read, which the library would read whole.

    Raises:
        ValueError: It is too long, or there is none.
    """
    size = path.stat().st_size
    with path.open("rb") as file:
        start = max(0, size - _END_BYTES - _LONGEST_COMMENT)
        file.seek(start)
        tail = file.read()
        at = tail.rfind(_END)
        if at < 0 or len(tail) - at < _END_BYTES:
            raise ValueError("it is no zip archive")
        (length,) = struct.unpack_from("<I", tail, at + _END_SIZE_AT)
        long_ones = list(_long_lengths(file, start + at - _LOCATOR_BYTES))
    lengths = long_ones if long_ones and length == _IN_LONG_RECORD else [length, *long_ones]
    if max(lengths) > _MAX_DIRECTORY_BYTES:
        raise ValueError(
            f"its list of files has {max(lengths)} bytes; {_MAX_DIRECTORY_BYTES} are the most"
        )


def _long_lengths(file: IO[bytes], locator_at: int) -> Iterator[int]:
    """Yield how long the list is by the record for long archives, in each place where a reader may look for it."""
    if locator_at < 0:
        return
    file.seek(locator_at)
    locator = file.read(_LOCATOR_BYTES)
    if not locator.startswith(_LOCATOR):
        return
    (named,) = struct.unpack_from("<Q", locator, _LOCATOR_PLACE_AT)
    for place in {min(named, locator_at), max(0, locator_at - _END64_BYTES)}:
        file.seek(place)
        record = file.read(_END64_BYTES)
        if len(record) == _END64_BYTES and record.startswith(_END64):
            yield struct.unpack_from("<Q", record, _END64_SIZE_AT)[0]
