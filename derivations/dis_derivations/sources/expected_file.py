"""What the bytes of a remote file must be, as somebody with the authority to say so has said."""

import hashlib
import os
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from dis_store.digest import Sha256
from dis_store.errors import MismatchError

if TYPE_CHECKING:
    from dis_store import WrittenFile

_PIECE = 1 << 20


@dataclass(frozen=True)
class ExpectedFile:
    """A file, and everything that is known of it before its bytes are there.

    Attributes:
        path: In its repository, and in the tree that is written.
        sha256: From a lock, or from a hub for a file in LFS.
        blob_id: The name that git gives to the bytes: SHA-1 over their length and themselves.
    """

    path: str
    size: int | None = None
    sha256: Sha256 | None = None
    blob_id: str | None = None

    def check(self, written: "WrittenFile", file: Path, source: str) -> None:
        """Refuse a file that has arrived and is another one.

        Args:
            written: What it is.
            file: Where it is.
            source: Where it is from, for the message.

        Raises:
            MismatchError: It is not what was expected; names both digests, or both sizes.
        """
        self._compare(written.size, written.sha256, lambda: blob_id(file), source)

    def check_blob(self, file: Path, source: str) -> None:
        """Refuse a file whose name in git is another one; what else is known of it was compared already.

        Raises:
            MismatchError: As `check`.
        """
        if self.blob_id is not None and self.blob_id != (found := blob_id(file)):
            size = file.stat().st_size
            raise self._mismatch(
                f"git blob {self.blob_id}", f"git blob {found}{self._sizes(size)}", source
            )

    def check_bytes(self, data: bytes, source: str) -> None:
        """Refuse bytes that are not the file.

        Raises:
            MismatchError: As `check`.
        """
        self._compare(len(data), Sha256.of(data), lambda: _blob_id(len(data), [data]), source)

    def _compare(self, size: int, sha256: Sha256, blob: Callable[[], str], source: str) -> None:
        if self.sha256 is not None and self.sha256 != sha256:
            raise self._mismatch(self.sha256, f"{sha256}{self._sizes(size)}", source)
        if self.blob_id is not None and self.blob_id != (found := blob()):
            raise self._mismatch(
                f"git blob {self.blob_id}", f"git blob {found}{self._sizes(size)}", source
            )
        if self.size is not None and self.size != size:
            raise self._mismatch(f"{self.size} bytes", f"{size} bytes", source)

    def _sizes(self, size: int) -> str:
        return (
            "" if size == self.size or self.size is None else f" in {size} bytes, not {self.size}"
        )

    def _mismatch(self, wanted: str, found: str, source: str) -> MismatchError:
        return MismatchError(
            f"{self.path} is not the file that was expected",
            cause=f"wanted {wanted}, found {found} at {source}",
            hint="try again; if it stays so, do not use this source",
        )


def blob_id(file: Path) -> str:
    """Return the name that git gives to a file's bytes.

    Git's SHA-1 is no protection against whoever made both files; the SHA-256 of what was read is what a lock pins.
    """
    with file.open("rb") as stream:
        return _blob_id(os.fstat(stream.fileno()).st_size, iter(lambda: stream.read(_PIECE), b""))


def _blob_id(size: int, pieces: Iterable[bytes]) -> str:
    digest = hashlib.sha1(b"blob %d\0" % size, usedforsecurity=False)
    for piece in pieces:
        digest.update(piece)
    return digest.hexdigest()
