"""Strict access to the members of a decoded JSON document.

Each function takes a member of the type it is named for or says which member of which document is wrong. They stand in
for a schema library where documents are few, small and our own.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, NoReturn, TypeVar

from dis_derivations.manifest import json_pointer
from dis_store.digest import Digest, Sha256
from dis_store.errors import DisError, InvalidInputError

_T = TypeVar("_T")


@dataclass(frozen=True)
class Fields:
    """An object inside a document.

    Attributes:
        document: The document's name, for messages.
        pointer: Where the object is in it.
        values: The object.
        refuse: Makes the error to raise from what is wrong and why.
    """

    document: str
    pointer: str
    values: Mapping[str, Any]
    refuse: Callable[[str, str], DisError]

    def fail(self, pointer: str, cause: str) -> NoReturn:
        """Raise the document's error for the member at `pointer`."""
        raise self.refuse(f"{self.document} is malformed", f"{pointer or 'the document'} {cause}")

    def text(self, key: str) -> str:
        """Return a string."""
        return self._typed(key, str, "a string")

    def boolean(self, key: str) -> bool:
        """Return a boolean."""
        return self._typed(key, bool, "true or false")

    def member(self, key: str) -> "Fields":
        """Return a member object."""
        values = self._typed(key, dict, "an object")
        return Fields(self.document, json_pointer.child(self.pointer, key), values, self.refuse)

    def objects(self, key: str) -> list["Fields"]:
        """Return the objects of a list."""
        return [
            Fields(self.document, pointer, item, self.refuse)
            if isinstance(item, dict)
            else self.fail(pointer, "must be an object")
            for pointer, item in self._items(key)
        ]

    def texts(self, key: str) -> tuple[str, ...]:
        """Return the strings of a list."""
        return tuple(
            item if isinstance(item, str) else self.fail(pointer, "must be a string")
            for pointer, item in self._items(key)
        )

    def token_ids(self, key: str) -> tuple[int, ...]:
        """Return the token ids of a list: integers from 0."""
        items = self._typed(key, list, "a list")
        # There may be millions, so no line of Python looks at each.
        if not set(map(type, items)) <= {int} or min(items, default=0) < 0:
            self.fail(
                json_pointer.child(self.pointer, key), "must hold only token ids, integers from 0"
            )
        return tuple(items)

    def digest(self, key: str) -> Digest:
        """Return a BLAKE3 digest."""
        return self._digest(key, Digest)

    def sha256(self, key: str) -> Sha256:
        """Return a SHA-256 digest."""
        return self._digest(key, Sha256)

    def equal(self, key: str, expected: object) -> None:
        """Check that a member has one certain value."""
        found = self.values.get(key)
        if found != expected or isinstance(found, bool) != isinstance(expected, bool):
            self.fail(
                json_pointer.child(self.pointer, key), f"must be {expected!r}, and is {found!r:.80}"
            )

    def _digest(self, key: str, kind: Callable[[str], _T]) -> _T:
        try:
            return kind(self.text(key))
        except InvalidInputError as error:
            self.fail(json_pointer.child(self.pointer, key), f"must be a digest: {error}")

    def _items(self, key: str) -> list[tuple[str, Any]]:
        pointer = json_pointer.child(self.pointer, key)
        items = self._typed(key, list, "a list")
        return [(json_pointer.child(pointer, index), item) for index, item in enumerate(items)]

    def _typed(self, key: str, kind: type[_T], words: str) -> _T:
        pointer = json_pointer.child(self.pointer, key)
        if key not in self.values:
            self.fail(pointer, "is missing")
        value = self.values[key]
        if type(value) is not kind:
            self.fail(pointer, f"must be {words}")
        return value
