"""Settings from outside the command line: the environment and `config.toml`."""

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from dis_store.errors import InvalidInputError, UnfitEnvironmentError

_KEYS = ("store",)
STATE_DIRECTORY = ("XDG_STATE_HOME", ".local/state")


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
        InvalidInputError: A path is empty or not UTF-8, or `config.toml` is invalid.
    """
    for origin, value in (("--store", flag), ("DIS_STORE", environment.get("DIS_STORE"))):
        if value is not None:
            if not value.strip() or "\x00" in value:
                raise InvalidInputError(
                    f"{origin} names no directory", hint="name a directory, or leave it out"
                )
            return _utf8(Path(value).absolute())
    path = config_path(environment)
    configured = read_config(path).get("store")
    if configured is not None:
        return _utf8((path.parent / Path(configured).expanduser()).absolute())
    return _utf8(user_directory(environment, "XDG_DATA_HOME", ".local/share") / "store")


def store_origin(flag: str | None, environment: Mapping[str, str]) -> str:
    """Return where `store_path` takes the store from: an option, a variable, a file or `default`."""
    if flag is not None:
        return "--store"
    if "DIS_STORE" in environment:
        return "DIS_STORE"
    path = config_path(environment)
    if "store" in read_config(path):
        return str(path)
    return directory_origin(environment, "XDG_DATA_HOME")


def directory_origin(environment: Mapping[str, str], variable: str) -> str:
    """Return where `user_directory` takes a directory from: the variable or `default`."""
    return variable if Path(environment.get(variable, "")).is_absolute() else "default"


def _utf8(path: Path) -> Path:
    """Return the path of a store, which must be text: the index can be opened under no other."""
    try:
        str(path).encode("utf-8")
    except UnicodeEncodeError as error:
        raise InvalidInputError(
            f"{path} cannot be a store",
            cause="its path is not UTF-8",
            hint="name another: --store DIR",
        ) from error
    return path


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
