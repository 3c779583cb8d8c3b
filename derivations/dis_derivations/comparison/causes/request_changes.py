"""What differs between the requests of two runs."""

from collections.abc import Iterator, Mapping
from typing import Any

from dis_derivations.comparison.causes.json_changes import ABSENT, Change, json_changes
from dis_derivations.comparison.causes.text_changes import TextDiff, excerpts, text_diff
from dis_derivations.comparison.sequences import common_prefix
from dis_derivations.manifest import json_pointer
from dis_derivations.runs.bundle_documents import Bundle
from dis_derivations.runs.bundle_reader import ObjectFiles
from dis_store import strict_json
from dis_store.digest import Digest

REQUESTS_DOCUMENT = "requests.json"
_TOKENS = "prompt_token_ids"
_PROMPT = "prompt"
_SHOWN_PROMPT = 38


def request_changes(a: Bundle, b: Bundle, store: ObjectFiles | None) -> tuple[Change, ...]:
    """Return the changes by request and field.

    They come from the requests objects where the store has both, and otherwise from what the bundles themselves say of
    their prompts.
    """
    left, right = requests_by_id(a, store), requests_by_id(b, store)
    if left is None or right is None:
        left, right = _prompts(a), _prompts(b)
    changes = [*_by_request(left, right)]
    common_a, common_b = _common(left, right), _common(right, left)
    if common_a != common_b:
        changes.append(Change("requests", "order", common_a[:8], common_b[:8]))
    return tuple(changes)


def prompt_diff(a: Bundle, b: Bundle, store: ObjectFiles | None) -> TextDiff | None:
    """Return how the first rendered prompt that differs does; None where none does or none is at hand."""
    left, right = requests_by_id(a, store), requests_by_id(b, store)
    for request in left or {}:
        old, new = ((side or {}).get(request, {}).get(_PROMPT) for side in (left, right))
        if isinstance(old, str) and isinstance(new, str) and old != new:
            return text_diff(f"the prompt of {request} as it was rendered", old, new)
    return None


def _by_request(left: Mapping[str, Any], right: Mapping[str, Any]) -> Iterator[Change]:
    for request in [*left, *(each for each in right if each not in left)]:
        if request not in left:
            yield Change("requests", request, ABSENT, "there")
        elif request not in right:
            yield Change("requests", request, "there", ABSENT)
        else:
            yield from _fields(request, left[request], right[request])


def _fields(request: str, old: Mapping[str, Any], new: Mapping[str, Any]) -> Iterator[Change]:
    pointer = json_pointer.child("", request)
    plain_old = {key: value for key, value in old.items() if key != _TOKENS}
    plain_new = {key: value for key, value in new.items() if key != _TOKENS}
    text_old, text_new = plain_old.get(_PROMPT), plain_new.get(_PROMPT)
    if isinstance(text_old, str) and isinstance(text_new, str):
        # A change in the middle of a long prompt would not be seen in its beginning.
        shown = excerpts(text_old, text_new, width=_SHOWN_PROMPT)
        plain_old[_PROMPT], plain_new[_PROMPT] = shown
    yield from json_changes("requests", plain_old, plain_new, pointer)
    ids_old, ids_new = old.get(_TOKENS, []), new.get(_TOKENS, [])
    if ids_old != ids_new:
        place = common_prefix(ids_old, ids_new)
        name = json_pointer.child(json_pointer.child(pointer, _TOKENS), place)
        yield Change("requests", name, _at(ids_old, place), _at(ids_new, place))


def requests_by_id(bundle: Bundle, store: ObjectFiles | None) -> dict[str, Any] | None:
    """Return a run's requests by id; None where the store does not have them, or they are malformed."""
    digest: Digest = bundle.document.requests_digest
    if store is None or not store.is_valid(digest):
        return None
    document = strict_json.decode(
        store.read_bytes(digest, REQUESTS_DOCUMENT), name=REQUESTS_DOCUMENT
    )
    try:
        return {str(request["id"]): _without_id(request) for request in document["requests"]}
    except (KeyError, TypeError, AttributeError):
        # A bundle may name any object, whose requests may say anything.
        return None


def _without_id(request: Mapping[str, Any]) -> dict[str, Any]:
    if not isinstance(request.get(_TOKENS, []), list):
        raise TypeError(_TOKENS)
    return {key: value for key, value in request.items() if key != "id"}


def _prompts(bundle: Bundle) -> dict[str, Any]:
    return {
        sequence.id: {_TOKENS: list(sequence.prompt_token_ids)} for sequence in bundle.sequences
    }


def _common(these: Mapping[str, Any], others: Mapping[str, Any]) -> list[str]:
    return [request for request in these if request in others]


def _at(ids: list[int], place: int) -> Any:
    return ids[place] if place < len(ids) else ABSENT
