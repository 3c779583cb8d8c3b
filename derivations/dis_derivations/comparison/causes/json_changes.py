"""What changed between two JSON documents, member by member."""

import re
from collections.abc import Iterator
from dataclasses import dataclass
from enum import Enum
from typing import Any

from dis_derivations.manifest import json_pointer

_SHOWN_CHARACTERS = 400
_SHOWN_ITEMS = 32
_NAMES = ("name", "id", "path", "digest")
_DIGEST = re.compile(r"sha256:[0-9a-f]{64}")


class Absent(Enum):
    """The value of a member that is not there."""

    ABSENT = "absent"


ABSENT = Absent.ABSENT


@dataclass(frozen=True)
class Change:
    """One thing that is not the same in A and in B.

    Attributes:
        where: The document or kind of thing: `manifest`, `file`, `tensor`, `engine.json` …
        name: A JSON Pointer into a document, or the thing's name.
        old: A's value, shortened where it is long; `ABSENT` where A has none.
        new: B's value.
    """

    where: str
    name: str
    old: Any
    new: Any

    def to_json(self) -> dict[str, Any]:
        """Return the change; a side that has no value has no member."""
        sides = {"old": self.old, "new": self.new}
        present = {key: value for key, value in sides.items() if value is not ABSENT}
        return {"where": self.where, "name": self.name, **present}


def json_changes(where: str, old: Any, new: Any, pointer: str = "") -> tuple[Change, ...]:
    """Return the changes between two values in the order of their names.

    Lists of plain values (token ids, stop sequences) change as a whole; lists of objects change item by item.
    """
    return tuple(_changes(where, old, new, pointer))


def keyed(value: Any) -> Any:
    """Return a JSON value whose lists of named things are objects by name, so that an insertion moves nothing.

    A thing is named by `name`, `id`, `path` or `digest`, whichever all of a list have and no two share. A list of
    digests, such as the layers of an image, changes item by item.
    """
    if isinstance(value, dict):
        return {key: keyed(item) for key, item in value.items()}
    if not isinstance(value, list):
        return value
    if value and all(isinstance(item, str) and _DIGEST.fullmatch(item) for item in value):
        return {str(place): item for place, item in enumerate(value)}
    for name in _NAMES:
        names = [item.get(name) if isinstance(item, dict) else None for item in value]
        if names and all(isinstance(each, str) for each in names) and len({*names}) == len(names):
            return {str(each): keyed(item) for each, item in zip(names, value, strict=True)}
    return [keyed(item) for item in value]


def changed(where: str, name: str, old: Any, new: Any) -> Change:
    """Return a change with its values shortened."""
    return Change(where, name, shortened(old), shortened(new))


def shortened(value: Any) -> Any:
    """Return a value short enough for a report: long texts and lists end in a remark on their length."""
    if isinstance(value, str) and len(value) > _SHOWN_CHARACTERS:
        return f"{value[:_SHOWN_CHARACTERS]}… ({len(value)} characters)"
    if isinstance(value, list) and len(value) > _SHOWN_ITEMS:
        return [*map(shortened, value[:_SHOWN_ITEMS]), f"… ({len(value)} items)"]
    if isinstance(value, list):
        return [shortened(item) for item in value]
    if isinstance(value, dict):
        return {key: shortened(item) for key, item in value.items()}
    return value


def same_value(old: Any, new: Any) -> bool:
    """Return whether two JSON values are the same; 1 and true are not, 1 and 1.0 are."""
    if isinstance(old, bool) or isinstance(new, bool):
        return old is new
    if isinstance(old, list) and isinstance(new, list):
        return len(old) == len(new) and all(map(same_value, old, new))
    if isinstance(old, dict) and isinstance(new, dict):
        return old.keys() == new.keys() and all(same_value(old[key], new[key]) for key in old)
    return bool(old == new)


def _changes(where: str, old: Any, new: Any, pointer: str) -> Iterator[Change]:
    # What only one side has is taken apart as well, since its members may be about different things.
    if old is ABSENT and _has_members(new):
        old = type(new)()
    elif new is ABSENT and _has_members(old):
        new = type(old)()
    if isinstance(old, dict) and isinstance(new, dict):
        for key in sorted({*old, *new}):
            member = json_pointer.child(pointer, key)
            yield from _changes(where, old.get(key, ABSENT), new.get(key, ABSENT), member)
    elif isinstance(old, list) and isinstance(new, list) and _holds_objects(old, new):
        for index in range(max(len(old), len(new))):
            yield from _changes(
                where, _item(old, index), _item(new, index), json_pointer.child(pointer, index)
            )
    elif not same_value(old, new):
        yield changed(where, pointer, old, new)


def _has_members(value: Any) -> bool:
    return bool(value) and (
        isinstance(value, dict) or (isinstance(value, list) and _holds_objects(value))
    )


def _holds_objects(*lists: list[Any]) -> bool:
    return any(isinstance(item, dict | list) for each in lists for item in each)


def _item(items: list[Any], index: int) -> Any:
    return items[index] if index < len(items) else ABSENT
