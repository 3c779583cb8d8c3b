"""Stopping the single operations that could make something huge before anyone can count it.

`template_cost` charges for values when they are there; `'a' * 10**12` never would be.
"""

import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import wraps
from typing import Any

from dis_derivations.tokenization.template_errors import GIVE_ANOTHER, RunawayTemplateError

MAX_TEXT = 16 << 20
"""The most characters, or elements, that one operation may make."""

MAX_INTEGER_BITS = 4096
MAX_WIDTH = 10_000
"""The largest number that a filter, or a method of a text, takes as an argument."""

_WIDE_FORMAT = re.compile(r"\d{5}|\*|\{[^{}]*\{")
_WIDTH_METHODS = frozenset({"center", "ljust", "rjust", "zfill", "expandtabs"})
_ANY_NUMBER_FILTERS = frozenset({"default", "d"})
_PER_LINE_FILTERS = frozenset({"indent", "wordwrap"})


def too_large(what: str) -> RunawayTemplateError:
    """Return the error for an operation that would make something huge."""
    return RunawayTemplateError(
        "the chat template makes something too large",
        cause=what,
        hint=GIVE_ANOTHER,
    )


def check_operation(operator: str, left: Any, right: Any) -> None:
    """Refuse `left operator right` if its result would be huge.

    Raises:
        RunawayTemplateError: It would be.
    """
    if operator == "%" and isinstance(left, str):
        check_format(left, [right])
    elif operator == "*":
        for repeated, count in ((left, right), (right, left)):
            if isinstance(repeated, str | list | tuple) and isinstance(count, int):
                _check_size(len(repeated) * count, "it repeats something too often")
        _check_bits(left, right, _bits(left) + _bits(right))
    elif operator == "**":
        _check_bits(left, right, _bits(left) * abs(right) if isinstance(right, int) else 0)


def check_format(template: str, arguments: Sequence[Any]) -> None:
    """Refuse to fill a format string if the result could be huge.

    Raises:
        RunawayTemplateError: It could be.
    """
    if _WIDE_FORMAT.search(template):
        raise too_large("it formats something to a width that no prompt needs")
    places = template.count("{") + template.count("%")
    _check_size(len(template) + places * _length(arguments), "it formats something too large")


def checked_arguments(
    called: Any, arguments: tuple[Any, ...], keywords: Mapping[str, Any]
) -> tuple[Any, ...]:
    """Return the arguments for a call, with iterators made lists; refuse one with a huge result.

    Raises:
        RunawayTemplateError: It is a method of a text, and what it returns would be huge.
    """
    text, name = getattr(called, "__self__", None), getattr(called, "__name__", "")
    if not isinstance(text, str):
        return arguments
    arguments = tuple(map(_listed, arguments))
    values = [*arguments, *keywords.values()]
    if name in _WIDTH_METHODS:
        _check_width(values)
        _check_size(text.count("\t") * MAX_WIDTH, "it may expand too many tabulators")
    elif name == "translate":
        raise too_large("it calls translate, which is not available to templates")
    elif name == "join" and values:
        _check_join(text, values[0])
    elif name == "replace":
        _check_replace(text, values)
    return arguments


def guarded_filter(name: str, function: Callable[..., Any]) -> Callable[..., Any]:
    """Return a filter that refuses arguments with which its result would be huge."""

    @wraps(function)
    def guarded(*arguments: Any, **keywords: Any) -> Any:
        if name == "join":
            arguments = tuple(map(_listed, arguments))
        # A context or an environment may come first; it is neither a number nor a text.
        values = [*arguments, *keywords.values()]
        if name not in _ANY_NUMBER_FILTERS:
            _check_width(values[1:])
        _check_filter(name, values)
        return function(*arguments, **keywords)

    return guarded


def _check_filter(name: str, values: Sequence[Any]) -> None:
    texts = [value for value in values if isinstance(value, str)]
    if name == "join":
        lists = [value for value in values if isinstance(value, list | tuple | dict | range)]
        for joined in lists or texts[:1]:
            _check_join(max(texts, key=len, default=""), joined)
    elif name == "format" and texts:
        check_format(texts[0], values)
    elif name == "replace":
        _check_replace(texts[0] if texts else "", texts[1:])
    elif name in _PER_LINE_FILTERS and len(texts) > 1:
        _check_size(len(texts[0]) * len(texts[1]), "it indents or wraps with a long text")


def _listed(value: Any) -> Any:
    # What has no length yet, like the result of `map`, must be there before it can be judged.
    return list(value) if isinstance(value, Iterator) else value


def _check_size(size: int, what: str) -> None:
    if size > MAX_TEXT:
        raise too_large(what)


def _check_width(values: Sequence[Any]) -> None:
    if any(isinstance(value, int) and abs(value) > MAX_WIDTH for value in values):
        raise too_large(f"it uses a number above {MAX_WIDTH} as a width or a count")


def _check_join(separator: str, values: Any) -> None:
    if isinstance(values, str | list | tuple | dict | range):
        size = len(values) * len(separator) + _length(values)
        _check_size(size, "it joins texts to one that is too long")


def _check_replace(text: str, values: Sequence[Any]) -> None:
    if len(values) > 1 and isinstance(values[0], str) and isinstance(values[1], str):
        size = len(text) + text.count(values[0]) * len(values[1])
        _check_size(size, "it replaces pieces of a text by long ones")


def _length(value: Any) -> int:
    """Return the characters of all texts inside a value, or about as many as it would print."""
    if isinstance(value, str):
        return len(value)
    if isinstance(value, dict):
        return sum(map(_length, value)) + sum(map(_length, value.values()))
    return sum(map(_length, value)) if isinstance(value, list | tuple) else 32


def _bits(value: Any) -> int:
    return value.bit_length() if isinstance(value, int) else 0


def _check_bits(left: Any, right: Any, bits: int) -> None:
    if isinstance(left, int) and isinstance(right, int) and bits > MAX_INTEGER_BITS:
        raise too_large("it computes with integers that are too long")
