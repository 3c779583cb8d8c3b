"""Single values of a model's config.json, each checked where it is read."""

from collections.abc import Collection, Mapping
from typing import Any

from dis_store.errors import InvalidInputError, UnsupportedError

Config = Mapping[str, Any]

_LARGEST = 1e308


def unsupported(what: str, cause: str | None = None) -> UnsupportedError:
    """Return the refusal of something that the engine does not have."""
    return UnsupportedError(
        f"the reference engine of this version of dis does not support {what}", cause=cause
    )


def malformed(key: str, cause: str, name: str = "config.json") -> InvalidInputError:
    """Return the refusal of a value that no engine could use."""
    return InvalidInputError(f"{key} in {name} cannot be used", cause=cause)


def count(config: Config, key: str, default: int | None = None) -> int:
    """Return a positive integer; null is the default.

    Raises:
        InvalidInputError: The value is something else, or missing without a default.
    """
    value = config.get(key)
    if value is None and default is not None:
        value = default
    if type(value) is not int or value < 1:
        raise malformed(key, f"it must be a positive integer, and is {value!r}")
    return value


def positive(config: Config, key: str, default: float | None = None) -> float:
    """Return a positive number; null is the default.

    Raises:
        InvalidInputError: The value is something else, or missing without a default.
    """
    value = config.get(key)
    if value is None and default is not None:
        return default
    if isinstance(value, bool) or not isinstance(value, int | float) or not 0 < value <= _LARGEST:
        raise malformed(key, f"it must be a positive number, and is {value!r}")
    return float(value)


def flag(config: Config, key: str, *, default: bool = False) -> bool:
    """Return a boolean.

    Raises:
        InvalidInputError: The value is something else.
    """
    value = config.get(key, default)
    if not isinstance(value, bool):
        raise malformed(key, f"it must be true or false, and is {value!r}")
    return value


def per_layer(config: Config, key: str, layers: int) -> list[Any] | None:
    """Return a list with one value a layer, or None where config.json has none.

    Raises:
        InvalidInputError: The value is no list, or has another length.
    """
    value = config.get(key)
    if value is None:
        return None
    if not isinstance(value, list) or len(value) != layers:
        raise malformed(key, f"it must be a list of num_hidden_layers values, {layers}")
    return value


def refuse_unknown(name: str, value: Config, known: Collection[str]) -> None:
    """Refuse an object with a key whose meaning the engine does not know.

    Raises:
        UnfitEnvironmentError: Names the key.
    """
    unknown = sorted(set(value) - set(known))
    if unknown:
        raise unsupported(f"{name}.{unknown[0]}")


def require_only(config: Config, key: str, value: object) -> None:
    """Refuse a key that says anything but `value`; it may be missing or null.

    Raises:
        UnfitEnvironmentError: It says something else.
    """
    if config.get(key) is not None and config[key] != value:
        raise unsupported(f"{key} {config[key]!r}", f"for {config['model_type']} it knows {value}")
