"""What differs between two tokenizers: vocabulary, merges, added tokens, and the steps around them."""

from collections.abc import Iterator, Mapping
from itertools import zip_longest
from typing import Any

from dis_derivations.comparison.causes.json_changes import ABSENT, Change, changed, json_changes

TOKENIZER_FILE = "tokenizer.json"
_SHOWN = 4
# Each is a step of its own on the way from text to ids.
_STEPS = ("normalizer", "pre_tokenizer", "post_processor", "decoder", "truncation", "padding")


def tokenizer_changes(old: Any, new: Any) -> tuple[Change, ...]:
    """Return what differs between two `tokenizer.json`, by part.

    Args:
        old: A's document.
        new: B's document.
    """
    if not isinstance(old, dict) or not isinstance(new, dict):
        return json_changes(TOKENIZER_FILE, old, new)
    return tuple(_changes(old, new))


def _changes(old: Mapping[str, Any], new: Mapping[str, Any]) -> Iterator[Change]:
    model_a, model_b = _object(old.get("model")), _object(new.get("model"))
    yield from _vocabulary(model_a.get("vocab"), model_b.get("vocab"))
    yield from _merges(model_a.get("merges"), model_b.get("merges"))
    left = {key: value for key, value in model_a.items() if key not in ("vocab", "merges")}
    right = {key: value for key, value in model_b.items() if key not in ("vocab", "merges")}
    yield from json_changes(TOKENIZER_FILE, left, right, "/model")
    yield from _added(old.get("added_tokens"), new.get("added_tokens"))
    for step in _STEPS:
        if old.get(step) != new.get(step):
            yield from json_changes(TOKENIZER_FILE, old.get(step), new.get(step), f"/{step}")


def _vocabulary(old: Any, new: Any) -> Iterator[Change]:
    """Compare by token, or by place where the vocabulary is a list, as that of a unigram model."""
    if old == new:
        return
    if not isinstance(old, dict) or not isinstance(new, dict):
        yield from _list_change("/model/vocab", old, new)
        return
    removed = [token for token in old if token not in new]
    added = [token for token in new if token not in old]
    moved = [token for token in old if token in new and old[token] != new[token]]
    if removed or added:
        yield changed("vocabulary", "tokens", _listed(removed), _listed(added))
    if moved:
        names = moved[:_SHOWN]
        yield changed(
            "vocabulary",
            f"ids of {len(moved)} tokens",
            ", ".join(f"{name!r} {old[name]}" for name in names),
            ", ".join(f"{name!r} {new[name]}" for name in names),
        )


def _listed(tokens: list[str]) -> Any:
    if not tokens:
        return ABSENT
    shown = ", ".join(map(repr, tokens[:_SHOWN]))
    return f"{len(tokens)} only here: {shown}" + (", …" if len(tokens) > _SHOWN else "")


def _merges(old: Any, new: Any) -> Iterator[Change]:
    if old != new:
        yield from _list_change("/model/merges", old, new)


def _list_change(pointer: str, old: Any, new: Any) -> Iterator[Change]:
    """Yield the first place at which two lists differ, and how many places do."""
    if not isinstance(old, list) or not isinstance(new, list):
        yield from json_changes(TOKENIZER_FILE, old, new, pointer)
        return
    places = [
        place
        for place, (left, right) in enumerate(zip_longest(old, new, fillvalue=ABSENT))
        if left != right
    ]
    first = places[0]
    name = f"{pointer}/{first}" + (f" and {len(places) - 1} more" if len(places) > 1 else "")
    yield changed(TOKENIZER_FILE, name, _at(old, first), _at(new, first))


def _at(items: list[Any], place: int) -> Any:
    return items[place] if place < len(items) else ABSENT


def _added(old: Any, new: Any) -> Iterator[Change]:
    left, right = _by_id(old), _by_id(new)
    yield from json_changes(TOKENIZER_FILE, left, right, "/added_tokens")


def _by_id(tokens: Any) -> dict[str, Any]:
    listed = tokens if isinstance(tokens, list) else []
    return {str(each.get("id")): each for each in listed if isinstance(each, dict)}


def _object(value: Any) -> Mapping[str, Any]:
    return value if isinstance(value, dict) else {}
