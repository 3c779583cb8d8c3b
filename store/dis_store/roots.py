"""Roots: the names that keep objects from garbage collection."""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from typing import Any

from dis_store.digest import Digest
from dis_store.durability import fsync_directory
from dis_store.environment import reading
from dis_store.errors import DamagedRootError, IntegrityError, InvalidInputError
from dis_store.foundation import Foundation, missing
from dis_store.last_use import note_use
from dis_store.layout import Layout
from dis_store.path_rules import check_path
from dis_store.records import decode_record, encode_record, write_record

FORMAT = 1
SUFFIX = ".json"
MAX_NAME_BYTES = 255 - len(SUFFIX)


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
            IntegrityError: `data` is not exactly the encoding of a root.
        """
        root = root_from_json(decode_record(data, kind="root", version=FORMAT, name=name), name)
        if root.encode() != data:
            raise IntegrityError(
                f"{name} is damaged", cause="it is not the encoding of what it says"
            )
        return root


def root_from_json(document: dict[str, Any], name: str) -> Root:
    """Return the root that a decoded record describes.

    Raises:
        IntegrityError: A field is missing or malformed.
    """
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
    cause = _fault_of_name(name)
    if cause is not None:
        raise InvalidInputError(f"the root name {name[:200]!r} is refused", cause=cause)


def _fault_of_name(name: str) -> str | None:
    if "/" in name:
        return "it holds a slash, which makes it a path"
    if name.startswith(("-", ".")):
        return f"it begins with {name[0]!r}"
    if name.endswith((SUFFIX, ".tar", ".tgz")) or ".tar." in name:
        return "its ending makes it a path"
    try:
        check_path(name)
    except InvalidInputError as refusal:
        return refusal.cause
    if len(name.encode()) > MAX_NAME_BYTES:
        return f"it is longer than {MAX_NAME_BYTES} bytes"
    return None


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
        note_use(foundation.layout, name)


def stamped(root: Root) -> Root:
    """Return the root with its time filled in."""
    now = datetime.now(UTC).isoformat(timespec="seconds")
    return root if root.created_at else replace(root, created_at=now)


def read_root(layout: Layout, name: str) -> Root | None:
    """Return a named root, None if there is none.

    Raises:
        IntegrityError: Its record is damaged.
    """
    path = layout.root(name)
    try:
        with reading(f"the root {name!r}"):
            data = path.read_bytes()
        return Root.decode(data, name=f"the root {name!r}")
    except (FileNotFoundError, NotADirectoryError, IsADirectoryError):
        return None
    except IntegrityError as error:
        raise DamagedRootError(
            error.what,
            cause=f"{path}: {error.cause}",
            hint=remedy([name]),
        ) from error


def remedy(names: Sequence[str]) -> str:
    """Return what to do about damaged roots."""
    import shlex

    return f"put back a copy, or give up what was kept: dis root remove {shlex.join(names)}"


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
