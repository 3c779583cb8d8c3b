"""What the strings of manifests and locks look like: names, paths, digests, versions, times.

Each check returns its value unchanged, since identity is over the document as written, or raises
ValueError with a message that fits after the name of the field.
"""

import re
from datetime import date

from dis_store.digest import Sha256
from dis_store.errors import InvalidInputError

_DIGEST = re.compile(r"(?:sha256:)?[0-9a-fA-F]{64}")
_UNSET = frozenset({"sha256:unset", "unset"})
_COMMIT = re.compile(r"[0-9a-f]{40}")
IMAGE_PATTERN = re.compile(r"[^\s@]+(@sha256:[0-9a-f]{64})?")
CAPABILITY_PATTERN = re.compile(r"[0-9]{1,3}\.[0-9]{1,2}")
_TIMESTAMP = re.compile(r"\d{4}-\d{2}-\d{2}[Tt]\d{2}:\d{2}:\d{2}(?:\.\d+)?(?:[Zz]|[+-]\d{2}:\d{2})")
PLACEHOLDER = re.compile(r"\$\{([^}]*)\}")
_PLACEHOLDERS = frozenset({"run_id", "manifest_name"})
_MAX_NAME_BYTES = 255


def declared_sha256(digest: str | None) -> Sha256 | None:
    """Return a declared digest tagged and in lowercase; None where it is absent or unset."""
    if digest is None or is_unset(digest):
        return None
    return Sha256(f"sha256:{digest.removeprefix('sha256:').lower()}")


def is_unset(digest: str | None) -> bool:
    """Return whether a digest is written as not yet known; an absent one is not written."""
    return digest is not None and digest.lower() in _UNSET


def is_commit(revision: str | None) -> bool:
    """Return whether a revision names one commit for ever: 40 lowercase hexadecimal digits."""
    return revision is not None and _COMMIT.fullmatch(revision) is not None


def is_unset_revision(revision: str | None) -> bool:
    """Return whether no revision is named: it is absent, or written as not yet known."""
    return revision is None or revision.lower() == "unset"


def check_digest(text: str) -> str:
    """Return `text` if it is a SHA-256 digest, or `sha256:unset`, else raise ValueError."""
    if not is_unset(text) and not _DIGEST.fullmatch(text):
        raise ValueError(
            "must be a SHA-256 digest: 'sha256:' and 64 hexadecimal digits, or 'sha256:unset'"
        )
    return text


def check_filled(text: str) -> str:
    """Return `text` if it is text with something in it, else raise ValueError."""
    if not text.strip():
        raise ValueError("must not be empty")
    return text


def check_name(text: str) -> str:
    """Return `text` if it is a name that can be a part of a path, else raise ValueError."""
    wrong = not text.strip() or "/" in text or text.startswith(".") or not text.isprintable()
    if wrong or len(text.encode()) > _MAX_NAME_BYTES:
        raise ValueError(
            "must be a name of 1 to 255 bytes that does not begin with '.' and has no '/' "
            "or control characters"
        )
    return text


def check_file_path(text: str) -> str:
    """Return `text` if the store can hold a file of that relative path, else raise ValueError."""
    from dis_store.path_rules import check_path

    try:
        check_path(text)
    except InvalidInputError as error:
        raise ValueError(
            f"must be a path below the directory of its source: {error.cause}"
        ) from error
    return text


def check_image(text: str) -> str:
    """Return `text` if it names an image by digest or by tag, else raise ValueError."""
    from dis_derivations.images.image_reference import image_reference

    try:
        image_reference(text)
    except InvalidInputError as error:
        raise ValueError(
            "must be the name of an image: NAME@sha256:<64 hexadecimal digits>, or NAME:TAG, which "
            f"`dis lock` pins ({error.cause})"
        ) from error
    return text


def check_capability(text: str) -> str:
    """Return `text` if it is a compute capability, else raise ValueError."""
    if not CAPABILITY_PATTERN.fullmatch(text):
        raise ValueError('must be a compute capability such as "8.0"')
    return text


def check_timestamp(text: str) -> str:
    """Return `text` if it is a time as in RFC 3339, else raise ValueError."""
    if not _TIMESTAMP.fullmatch(text):
        raise ValueError('must be a time as in RFC 3339, such as "2026-01-31T12:00:00Z"')
    return text


def check_date(text: str) -> str:
    """Return `text` if it is a day of the calendar as `YYYY-MM-DD`, else raise ValueError."""
    try:
        if date.fromisoformat(text).isoformat() == text:
            return text
    except ValueError:
        pass
    raise ValueError('must be a date as YYYY-MM-DD, such as "2026-01-31"')


def check_directory_template(text: str) -> str:
    """Return `text` if it is a directory with known placeholders, else raise ValueError."""
    check_filled(text)
    if unknown := sorted(set(PLACEHOLDER.findall(text)) - _PLACEHOLDERS):
        raise ValueError(f"must use only ${{run_id}} and ${{manifest_name}}, not ${{{unknown[0]}}}")
    return text
