"""Where the members of a tar archive lie in its file, without unpacking anything."""

import os
import tarfile
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import BinaryIO

from dis_store.errors import BuildError, InvalidInputError

# Headers are of 512 bytes, and what extends them is a name or a time.
_MAX_READ = 1 << 20
_MAX_MEMBERS = 100_000
_COMPRESSED = {b"\x1f\x8b": "gunzip", b"\x28\xb5": "unzstd", b"BZ": "bunzip2", b"\xfd7": "unxz"}


@dataclass(frozen=True)
class TarMember:
    """A regular file in an archive.

    Attributes:
        offset: Of its first byte in the file of the archive.
        size: In bytes.
    """

    offset: int
    size: int


@dataclass(frozen=True)
class TarMembers:
    """What an archive holds.

    Attributes:
        files: Regular files by name.
        links: Names of links, with the names that they lead to, as written.
    """

    files: Mapping[str, TarMember]
    links: Mapping[str, str]


class _Careful:
    """A file that gives only as much at once as headers need: a header may say that it is as long as the disk."""

    def __init__(self, stream: BinaryIO, name: str) -> None:
        self._stream = stream
        self._name = name

    def read(self, size: int = -1) -> bytes:
        if not 0 <= size <= _MAX_READ:
            raise InvalidInputError(
                f"{self._name} is no archive of an image", cause="a header of it is too long"
            )
        return self._stream.read(size)

    def seek(self, position: int, whence: int = os.SEEK_SET) -> int:
        return self._stream.seek(position, whence)

    def tell(self) -> int:
        return self._stream.tell()


def tar_members(path: Path) -> TarMembers:
    """Return what a tar archive holds. Names are keys and nothing else: no path is made of them.

    Raises:
        BuildError: It cannot be read.
        InvalidInputError: It is no tar archive, a compressed one, or one that holds a name twice.
    """
    name = str(path)
    try:
        with path.open("rb") as stream:
            _refuse_compressed(stream, name)
            size = os.fstat(stream.fileno()).st_size
            return _walk(_Careful(stream, name), name, size)
    except OSError as error:
        raise BuildError(f"{name} cannot be read", cause=error.strerror) from error


def _walk(stream: _Careful, name: str, total: int) -> TarMembers:
    files: dict[str, TarMember] = {}
    links: dict[str, str] = {}
    try:
        with tarfile.open(fileobj=stream, mode="r:", ignore_zeros=False) as archive:  # type: ignore[call-overload]  # it reads, seeks and tells, which is all that is asked for
            for count, member in enumerate(archive, 1):
                if count > _MAX_MEMBERS:
                    raise _refusal(name, f"it holds more than {_MAX_MEMBERS} files")
                own = member.name.removeprefix("./")
                if member.isdir():
                    continue
                if own in files or own in links:
                    raise _refusal(name, f"it holds {own!r:.120} twice")
                if member.issym() or member.islnk():
                    links[own] = member.linkname
                elif member.isreg() and not member.issparse():
                    if member.size < 0 or member.offset_data + member.size > total:
                        raise _refusal(name, f"it ends before {own!r:.120} does")
                    files[own] = TarMember(member.offset_data, member.size)
                else:
                    raise _refusal(name, f"{own!r:.120} is no regular file")
                # The module keeps every header that it has read.
                archive.members = []
    except (tarfile.TarError, EOFError, ValueError) as error:
        raise _refusal(name, str(error)) from error
    return TarMembers(files, links)


def _refuse_compressed(stream: BinaryIO, name: str) -> None:
    start = stream.read(2)
    stream.seek(0)
    if start in _COMPRESSED:
        raise InvalidInputError(
            f"{name} is no archive of an image",
            cause="it is compressed",
            hint=f"{_COMPRESSED[start]} it first",
        )


def _refusal(name: str, cause: str) -> InvalidInputError:
    return InvalidInputError(f"{name} is no archive of an image", cause=cause)
