"""Settings from outside the command line: the environment and `config.toml`."""

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from dis_store.errors import InvalidInputError, UnfitEnvironmentError

_KEYS = ("store",)


def user_directory(environment: Mapping[str, str], variable: str, default: str) -> Path:
    """Return a directory of the XDG base directory specification, with `dis` in it.

    Args:
        environment: The environment.
        variable: `XDG_DATA_HOME` …; a relative path in it is ignored, as the specification asks.
        default: Where it is without the variable, from the home directory.

    Raises:
        UnfitEnvironmentError: There is neither the variable nor a home directory.
    """
    value = environment.get(variable, "")
    if Path(value).is_absolute():
        return Path(value, "dis")
    home = Path(environment.get("HOME", ""))
    if not home.is_absolute():
        raise UnfitEnvironmentError(
            "there is no home directory",
            cause="HOME is not set",
            hint=f"set HOME or {variable}, or name a store: --store DIR",
        )
    return Path(home, default, "dis")


def store_path(flag: str | None, environment: Mapping[str, str]) -> Path:
    """Return where the store is: `--store`, `DIS_STORE`, `config.toml`, or the default.

    Raises:
        InvalidInputError: A path is empty, or `config.toml` is invalid.
    """
    for origin, value in (("--store", flag), ("DIS_STORE", environment.get("DIS_STORE"))):
        if value is not None:
            if not value.strip() or "\x00" in value:
                raise InvalidInputError(
                    f"{origin} names no directory", hint="name a directory, or leave it out"
                )
            return Path(value).absolute()
    path = config_path(environment)
    configured = read_config(path).get("store")
    if configured is not None:
        return (path.parent / Path(configured).expanduser()).absolute()
    return user_directory(environment, "XDG_DATA_HOME", ".local/share") / "store"


def config_path(environment: Mapping[str, str]) -> Path:
    """Return where `config.toml` is, or would be."""
    return user_directory(environment, "XDG_CONFIG_HOME", ".config") / "config.toml"


def read_config(path: Path) -> Mapping[str, str]:
    """Return the settings in `config.toml`; none where there is no such file.

    Raises:
        InvalidInputError: It cannot be read, is not TOML, or has a key or a value that is none of ours.
    """
    try:
        data = path.read_bytes()
    except (FileNotFoundError, NotADirectoryError):
        return {}
    except OSError as error:
        raise InvalidInputError(f"{path} cannot be read", cause=error.strerror) from error
    import tomllib

    try:
        document = tomllib.loads(data.decode("utf-8"))
    except (tomllib.TOMLDecodeError, UnicodeDecodeError) as error:
        raise InvalidInputError(f"{path} is not valid TOML", cause=str(error)) from error
    return {key: _checked(path, key, value) for key, value in document.items()}


def _checked(path: Path, key: str, value: Any) -> str:
    if key not in _KEYS:
        raise InvalidInputError(
            f"{path} has the unknown key {key!r}",
            cause=f"the keys are {', '.join(_KEYS)}",
            hint=_suggestion(key),
        )
    if not isinstance(value, str) or not value.strip():
        raise InvalidInputError(f"{path} has a wrong {key}", cause="it must be a path, as a string")
    return value


def _suggestion(key: str) -> str | None:
    from difflib import get_close_matches

    close = get_close_matches(key, _KEYS, n=1)
    return f"did you mean {close[0]}?" if close else None
