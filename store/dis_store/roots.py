"""Roots: the names that keep objects from garbage collection."""

from dataclasses import dataclass, replace
from datetime import UTC, datetime
from typing import Any

from dis_store.digest import Digest
from dis_store.durability import fsync_directory
from dis_store.errors import InvalidInputError
from dis_store.foundation import Foundation, missing
from dis_store.layout import Layout
from dis_store.path_rules import check_path
from dis_store.records import decode_record, encode_record, write_record

FORMAT = 1
_SUFFIX = ".json"
MAX_NAME_BYTES = 255 - len(_SUFFIX)


@dataclass(frozen=True)
class Root:
    """What a root keeps.

    Attributes:
        object: The object, with its closure.
        derivation: The derivation it came from, with those that it names.
        key: Its key, with all realisations of it and, through their inputs, of what it was made from.
        automatic: Whether dis made the root itself, so that a retirement policy may remove it.
        label: What a person calls it.
        created_at: UTC, ISO 8601; filled when the root is set, if it is empty.
    """

    object: Digest
    derivation: Digest | None = None
    key: Digest | None = None
    automatic: bool = False
    label: str = ""
    created_at: str = ""

    def encode(self) -> bytes:
        """Return the record as it is on disk: canonical JSON."""
        return encode_record("root", FORMAT, vars(self))

    @classmethod
    def decode(cls, data: bytes, *, name: str = "a root") -> "Root":
        """Parse a record; `Root.decode(r.encode()) == r`.

        Raises:
            IntegrityError: It is no root.
        """
        return root_from_json(decode_record(data, kind="root", version=FORMAT, name=name), name)


def root_from_json(document: dict[str, Any], name: str) -> Root:
    """Return the root that a decoded record describes.

    Raises:
        IntegrityError: A field is missing or malformed.
    """
    from dis_store.errors import IntegrityError

    try:
        return Root(
            object=Digest(document["object"]),
            derivation=_optional(document["derivation"]),
            key=_optional(document["key"]),
            automatic=bool(document["automatic"]),
            label=str(document["label"]),
            created_at=str(document["created_at"]),
        )
    except (KeyError, TypeError, InvalidInputError) as error:
        raise IntegrityError(
            f"{name} is damaged", cause=f"{type(error).__name__}: {error}"
        ) from error


def _optional(text: str | None) -> Digest | None:
    return None if text is None else Digest(text)


def check_name(name: str) -> None:
    """Accept the name of a root: one component of a path that no command takes for something else.

    Raises:
        InvalidInputError: The name is refused.
    """
    check_path(name)
    cause = None
    if "/" in name:
        cause = "it holds a slash, which makes it a path"
    elif name.startswith(("-", ".")):
        cause = f"it begins with {name[0]!r}"
    elif name.endswith((_SUFFIX, ".tar.gz", ".tar.zst")):
        cause = "its ending makes it a path"
    elif len(name.encode()) > MAX_NAME_BYTES:
        cause = f"it is longer than {MAX_NAME_BYTES} bytes"
    if cause is not None:
        raise InvalidInputError(f"the root name {name!r} is refused", cause=cause)


def set_root(foundation: Foundation, name: str, root: Root) -> None:
    """Write a root, in place of one of the same name. Durable when it returns.

    Raises:
        InvalidInputError: The name is refused.
        IntegrityError: The object is not in the store.
    """
    check_name(name)
    foundation.require(root.object)
    data = stamped(root).encode()
    with foundation.locks.sharing():
        if not foundation.is_valid(root.object):
            raise missing(root.object)
        write_record(foundation, foundation.layout.root(name), data)


def stamped(root: Root) -> Root:
    """Return the root with its time filled in."""
    now = datetime.now(UTC).isoformat(timespec="seconds")
    return root if root.created_at else replace(root, created_at=now)


def read_root(layout: Layout, name: str) -> Root | None:
    """Return a named root, None if there is none.

    Raises:
        IntegrityError: Its record is damaged.
    """
    try:
        data = layout.root(name).read_bytes()
    except (FileNotFoundError, NotADirectoryError):
        return None
    return Root.decode(data, name=f"the root {name!r}")


def read_roots(layout: Layout) -> dict[str, Root]:
    """Return all named roots, by name.

    Raises:
        IntegrityError: A record is damaged. Nobody may guess what it kept.
    """
    names = sorted(
        path.name.removesuffix(_SUFFIX) for path in layout.room("roots").glob(f"*{_SUFFIX}")
    )
    found = ((name, read_root(layout, name)) for name in names)
    return {name: root for name, root in found if root is not None}


def remove_root(foundation: Foundation, name: str) -> None:
    """Remove a named root. What it kept goes with the next collection.

    Raises:
        InvalidInputError: There is none of that name.
    """
    check_name(name)
    path = foundation.layout.root(name)
    try:
        path.unlink()
    except FileNotFoundError as error:
        raise InvalidInputError(
            f"there is no root {name!r}", hint="list them with: dis root list"
        ) from error
    fsync_directory(path.parent)
