"""A file of signed documents, one Sigstore bundle a line: what `dis sign --output` writes and `dis challenge` reads."""

from collections.abc import Iterable
from pathlib import Path

from dis_derivations.trust.signed_document import MAX_DOCUMENT_BYTES
from dis_store.errors import InvalidInputError

MAX_BYTES = 64 << 20
MAX_DOCUMENTS = 10_000


def encode_claims(documents: Iterable[bytes]) -> bytes:
    """Return the bytes of a file with these documents, each of which is canonical JSON and so has no line ends."""
    return b"".join(document + b"\n" for document in documents)


def decode_claims(data: bytes, *, name: str) -> tuple[bytes, ...]:
    """Return the documents of a file, unread. Blank lines are none.

    Raises:
        InvalidInputError: The file or a line is too large, or there are too many.
    """
    if len(data) > MAX_BYTES:
        raise InvalidInputError(f"{name} is refused", cause=f"it has more than {MAX_BYTES} bytes")
    lines = tuple(line for line in data.split(b"\n") if line.strip())
    if len(lines) > MAX_DOCUMENTS:
        raise InvalidInputError(
            f"{name} is refused", cause=f"it has more than {MAX_DOCUMENTS} documents"
        )
    if any(len(line) > MAX_DOCUMENT_BYTES for line in lines):
        raise InvalidInputError(
            f"{name} is refused", cause=f"a line has more than {MAX_DOCUMENT_BYTES} bytes"
        )
    return lines


def read_claims(path: Path) -> tuple[bytes, ...]:
    """Return the documents of a file.

    Raises:
        InvalidInputError: It cannot be read, or as `decode_claims`.
    """
    try:
        with path.open("rb") as stream:
            return decode_claims(stream.read(MAX_BYTES + 1), name=str(path))
    except OSError as error:
        raise InvalidInputError(f"{path} cannot be read", cause=error.strerror) from error
