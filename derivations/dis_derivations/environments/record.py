"""RECORD: the list of a wheel's files with their hashes, and what is held against it."""

import base64
import csv
import hashlib
import io
from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from dis_store.digest import Sha256

RECORD = "RECORD"
# Those that the standard has (PEP 376, PEP 427) and that are strong enough.
_ALGORITHMS = ("sha256", "sha384", "sha512")
_MOST_BYTES = 64 << 20


@dataclass(frozen=True)
class RecordedFile:
    """What RECORD says of a file.

    Attributes:
        path: As it is written, with `/` between components, relative to where RECORD's directory lies.
        algorithm: Of the hash; empty where none is given.
        digest: The hash in URL-safe base64 without its padding; empty where none is given.
        size: In bytes; None where it is not given.
    """

    path: str
    algorithm: str
    digest: str
    size: int | None

    def difference(self, size: int, digest: bytes) -> str | None:
        """Return what of a file is not as it is recorded; None if all of it is.

        Args:
            size: What it has.
            digest: Its hash by `algorithm`.
        """
        found = base64.urlsafe_b64encode(digest).rstrip(b"=").decode()
        if self.size is not None and self.size != size:
            return f"it has {size} bytes, and RECORD says {self.size}"
        if self.digest.rstrip("=") != found:
            return f"its {self.algorithm} is {found}, and RECORD says {self.digest}"
        return None

    def hasher(self) -> "hashlib._Hash":
        """Return what computes the hash that is recorded.

        Raises:
            ValueError: None is recorded, or a weak one.
        """
        if self.algorithm not in _ALGORITHMS:
            raise ValueError(
                f"RECORD has {self.algorithm or 'no hash'} for {self.path}, and no strong hash"
            )
        return hashlib.new(self.algorithm)


def parse_record(data: bytes) -> dict[str, RecordedFile]:
    """Return the files that RECORD lists, by path.

    Raises:
        ValueError: It cannot be read, or lists a path twice with different hashes.
    """
    if len(data) > _MOST_BYTES:
        raise ValueError(f"RECORD has {len(data)} bytes, and {_MOST_BYTES} are the most")
    found: dict[str, RecordedFile] = {}
    try:
        rows = list(csv.reader(io.StringIO(data.decode("utf-8"), newline=""), strict=True))
    except (UnicodeDecodeError, csv.Error) as error:
        raise ValueError(f"RECORD cannot be read: {error}") from error
    for row in rows:
        if not row:
            continue
        file = _parsed(row)
        # Installers list byte code again, which some wheels bring; it counts for nothing.
        if found.setdefault(file.path, file) != file and not file.path.endswith(".pyc"):
            raise ValueError(f"RECORD lists {file.path} twice, differently")
    return found


def _parsed(row: list[str]) -> RecordedFile:
    path, hashed, size, *_ = [*row, "", ""]
    algorithm, _, digest = hashed.partition("=")
    if size and not (size.isascii() and size.isdigit() and len(size) < 20):  # noqa: PLR2004 - of any file
        raise ValueError(f"RECORD gives {path} the size {size!r:.40}")
    return RecordedFile(path, algorithm if digest else "", digest, int(size) if size else None)


def encode_record(files: Mapping[str, tuple[int, Sha256]], unhashed: Iterable[str]) -> bytes:
    """Return RECORD for files that are there now, sorted by path.

    Args:
        files: Size and SHA-256 by path.
        unhashed: Paths that are listed without; RECORD itself.
    """
    rows = [
        (path, f"sha256={_base64(digest)}", str(size)) for path, (size, digest) in files.items()
    ]
    rows += [(path, "", "") for path in unhashed]
    text = io.StringIO()
    csv.writer(text, lineterminator="\n").writerows(sorted(rows))
    return text.getvalue().encode()


def _base64(digest: Sha256) -> str:
    return base64.urlsafe_b64encode(bytes.fromhex(digest.hex)).rstrip(b"=").decode()
