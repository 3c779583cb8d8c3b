"""Archives of runs of `deterministic_inference.cli`: a run directory as one tar file, mostly compressed.

They come from anywhere. Only the files that a run has are taken, each under the name that it must have; links, devices
and everything else are passed over. What is read and what is written is bounded.
"""

import contextlib
import shutil
import tarfile
import tempfile
import weakref
from pathlib import Path
from typing import TYPE_CHECKING, BinaryIO

from dis_derivations.runs import archive_layout
from dis_derivations.runs.archive_reader import opened
from dis_derivations.runs.bundle import BUNDLE_DOCUMENT, is_older
from dis_derivations.runs.older_run import MEMBERS, OlderDirectory, OlderRun, load_older_run
from dis_store import strict_json
from dis_store.errors import InvalidInputError

if TYPE_CHECKING:
    from dis_derivations.runs.reference import Resolved

_BLOCK = tarfile.BLOCKSIZE
_CHUNK = 1 << 20
# Far more than a run directory has, with what somebody may have put beside it.
_MOST_MEMBERS = 10_000
_MOST_BYTES = 4 << 30
_MOST_FILE_BYTES = 512 << 20
# The directory of the run may be named, with "./" before it.
_DEEPEST = 2


class OlderArchive(OlderDirectory):
    """A run in an archive, unpacked into a temporary directory that goes when this object goes.

    Args:
        archive: The file.

    Raises:
        InvalidInputError: It is no archive of such a run.
        IntegrityError: It is damaged.
        UnfitEnvironmentError: It cannot be read or unpacked here.
    """

    def __init__(self, archive: Path) -> None:
        directory = Path(tempfile.mkdtemp(prefix="dis-older-"))
        self._remove = weakref.finalize(self, shutil.rmtree, directory, ignore_errors=True)
        self._archive = archive
        try:
            with opened(archive) as stream:
                _unpack(archive, stream, directory)
            super().__init__(directory)
        except BaseException:
            self._remove()
            raise

    def describe(self) -> str:
        """Return what messages call this run."""
        return f"the older run {self._archive}"


def older_run(thing: "Resolved") -> OlderRun | None:
    """Return the run of the older tool that a REF names; None where it names anything else.

    Raises:
        InvalidInputError: It is one, and malformed.
        IntegrityError: It is an archive that is damaged.
    """
    if thing.path is None:
        return None
    if thing.kind == "run directory":
        directory = OlderDirectory(thing.path)
        return load_older_run(directory) if _is_older(directory) else None
    if thing.kind == "archive" and not _is_of_dis(thing.path):
        archive = OlderArchive(thing.path)
        return load_older_run(archive) if _is_older(archive) else None
    return None


def _is_older(directory: OlderDirectory) -> bool:
    """Return whether a `bundle.json` is of the older tool; what is wrong with any other is for others to say."""
    try:
        data = directory.read_bytes(BUNDLE_DOCUMENT)
        return is_older(strict_json.decode(data, name=BUNDLE_DOCUMENT))
    except InvalidInputError:
        return False


def _is_of_dis(archive: Path) -> bool:
    with opened(archive) as stream:
        first = _header(archive, stream)
    return first is None or first.name == archive_layout.HEADER


def _unpack(archive: Path, stream: BinaryIO, directory: Path) -> None:
    left, members = _MOST_BYTES, 0
    while (member := _header(archive, stream)) is not None:
        members += 1
        padded = member.size + -member.size % _BLOCK
        left -= _BLOCK + padded
        if members > _MOST_MEMBERS or left < 0:
            raise InvalidInputError(
                f"{archive} is refused",
                cause=f"it holds more than {_MOST_MEMBERS} files or {_MOST_BYTES >> 30} GiB",
            )
        name = member.name.rpartition("/")[2]
        target = directory / name
        if not member.isreg() or name not in MEMBERS or member.name.count("/") > _DEEPEST:
            _copy(archive, stream, padded, None)
            continue
        if member.size > _MOST_FILE_BYTES or target.exists():
            cause = "it is there twice" if target.exists() else "it is too large"
            raise InvalidInputError(f"{member.name:.200} of {archive} is refused", cause=cause)
        _copy(archive, stream, member.size, target)
        _copy(archive, stream, padded - member.size, None)


def _header(archive: Path, stream: BinaryIO) -> tarfile.TarInfo | None:
    """Return the next member; None at the end, and for what is no tar file."""
    block = b""
    while len(block) < _BLOCK and (more := stream.read(_BLOCK - len(block))):
        block += more
    try:
        member = tarfile.TarInfo.frombuf(block, "utf-8", "surrogateescape")
    except tarfile.HeaderError:
        if block.strip(b"\0"):
            raise InvalidInputError(
                f"{archive} is no archive of a run", cause="it is no tar file"
            ) from None
        return None
    # Headers can hold such numbers, and reading a negative number of bytes is reading all that there are.
    if member.size < 0:
        raise InvalidInputError(
            f"{archive} is no archive of a run",
            cause=f"a file in it has {member.size} bytes",
        )
    return member


def _copy(archive: Path, stream: BinaryIO, size: int, target: Path | None) -> None:
    with contextlib.ExitStack() as stack:
        file = None if target is None else stack.enter_context(target.open("xb"))
        while size:
            chunk = stream.read(min(size, _CHUNK))
            if not chunk:
                raise InvalidInputError(f"{archive} is damaged", cause="it ends too early")
            size -= len(chunk)
            if file is not None:
                file.write(chunk)
