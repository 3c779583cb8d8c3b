"""Single values of a GGUF file, each checked where it is read."""

import struct

from dis_derivations.artifacts.gguf_header import GgufHeader
from dis_derivations.artifacts.regular_file import UnreadableWeightsError, UnsupportedWeightsError

_FLOAT32 = 6


def unsupported(what: str, cause: str | None = None) -> UnsupportedWeightsError:
    """Return the refusal of something that is not converted."""
    return UnsupportedWeightsError(
        f"this version of dis does not convert GGUF files with {what}",
        cause=cause,
        hint="use the publisher's safetensors version of this model",
    )


def malformed(key: str, cause: str) -> UnreadableWeightsError:
    """Return the refusal of a value that nobody could use."""
    return UnreadableWeightsError(
        f"{key} in the GGUF file cannot be used",
        cause=cause,
        hint="get the file again from its publisher",
    )


def count(header: GgufHeader, key: str, default: int | None = None) -> int:
    """Return a positive integer.

    Raises:
        UnreadableWeightsError: The value is something else, or missing without a default.
    """
    value = header.values.get(key, default)
    if type(value) is not int or value < 1:
        raise malformed(key, f"it must be a positive integer, and is {value!r:.80}")
    return value


def number(header: GgufHeader, key: str, default: float | None = None) -> float:
    """Return a positive number: of a single-precision one the shortest decimal that means it.

    Who writes such a file rounds `0.00001` to single precision. This gives `0.00001` back, which rounds to the same.

    Raises:
        UnreadableWeightsError: The value is something else, or missing without a default.
    """
    value = header.values.get(key, default)
    if type(value) is not float or not 0 < value < float("inf"):
        raise malformed(key, f"it must be a positive number, and is {value!r:.80}")
    if header.kinds.get(key) != _FLOAT32:
        return value
    # Nine digits tell any single-precision number from all others.
    written = (float(f"{value:.{digits}g}") for digits in range(1, 9))
    return next((short for short in written if _single(short) == _single(value)), value)


def _single(value: float) -> bytes | None:
    try:
        return struct.pack("<f", value)
    except OverflowError:
        return None


def text(header: GgufHeader, key: str) -> str | None:
    """Return a text, or None where there is none.

    Raises:
        UnreadableWeightsError: The value is something else.
    """
    value = header.values.get(key)
    if value is not None and not isinstance(value, str):
        raise malformed(key, f"it must be a text, and is {value!r:.80}")
    return value


def flag(header: GgufHeader, key: str, *, default: bool = False) -> bool:
    """Return true or false.

    Raises:
        UnreadableWeightsError: The value is something else.
    """
    value = header.values.get(key, default)
    if not isinstance(value, bool):
        raise malformed(key, f"it must be true or false, and is {value!r:.80}")
    return value


def texts(header: GgufHeader, key: str) -> tuple[str, ...]:
    """Return a list of texts.

    Raises:
        UnreadableWeightsError: The value is something else, or missing.
    """
    value = header.values.get(key)
    if not isinstance(value, tuple) or not all(isinstance(item, str) for item in value):
        raise malformed(key, "it must be a list of texts")
    return value  # type: ignore[return-value]  # looked at above, item by item


def token_id(header: GgufHeader, name: str, tokens: int) -> int | None:
    """Return the id of a special token, as `eos`, or None where the file names none.

    Raises:
        UnreadableWeightsError: It is no id of the vocabulary.
    """
    key = f"tokenizer.ggml.{name}_token_id"
    value = header.values.get(key)
    if value is None:
        return None
    if type(value) is not int or not 0 <= value < tokens:
        raise malformed(key, f"it must be the id of a token, below {tokens}, and is {value!r:.80}")
    return value
