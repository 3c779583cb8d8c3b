"""The files of settings and what each may say.

A project's `dis.toml` comes with whatever somebody cloned. So it may say only what can do no harm: never where the
store is, which may hold anything, and never which program is started.
"""

import re
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from dis_command.errors import InvalidSettingError
from dis_command.setting_values import FOR_EVER, PROGRESS_MODES, TRUST_MODES
from dis_command.terminal import COLOR_MODES

_MAX_BYTES = 1 << 16
_POSITIVE = re.compile(r"0*[1-9][0-9]{0,17}")
_SECONDS = re.compile(r"[0-9]{1,9}(\.[0-9]{1,9})?")


@dataclass(frozen=True)
class Key:
    """A setting that a file may have.

    Attributes:
        accepts: Whether a value is one, written as on the command line.
        values: What values there are, in words.
        kinds: The types that it has in TOML.
        harmless: Whether a project may set it.
        variable: Whether there is a variable for it.
    """

    accepts: Callable[[str], bool]
    values: str
    kinds: tuple[type, ...] = (str,)
    harmless: bool = True
    variable: bool = True


KEYS = {
    "store": Key(lambda text: bool(text.strip()), "a path, as a string", harmless=False),
    "color": Key(COLOR_MODES.__contains__, f"one of {', '.join(COLOR_MODES)}"),
    "progress": Key(PROGRESS_MODES.__contains__, f"one of {', '.join(PROGRESS_MODES)}"),
    "pager": Key(lambda _: True, "a command, as a string", harmless=False),
    "jobs": Key(
        lambda text: _POSITIVE.fullmatch(text) is not None, "a number from 1 on", kinds=(int,)
    ),
    "vllm_python": Key(
        lambda text: bool(text.strip()), "a path of a Python, as a string", harmless=False
    ),
    "transformers_python": Key(
        lambda text: bool(text.strip()), "a path of a Python, as a string", harmless=False
    ),
    "wait": Key(
        lambda text: text == FOR_EVER or _SECONDS.fullmatch(text) is not None,
        f"a number of seconds, or {FOR_EVER}",
        kinds=(int, float, str),
    ),
    "substituters": Key(
        lambda _: True, "a list of references, oci://HOST/REPOSITORY", kinds=(list,), harmless=False
    ),
    "trust": Key(TRUST_MODES.__contains__, f"one of {', '.join(TRUST_MODES)}", harmless=False),
    "trust-threshold": Key(
        lambda text: _POSITIVE.fullmatch(text) is not None,
        "a number from 1 on",
        kinds=(int,),
        harmless=False,
        variable=False,
    ),
    "trusted-keys": Key(
        lambda _: True,
        "tables, [trusted-keys.NAME]",
        kinds=(dict,),
        harmless=False,
        variable=False,
    ),
    "revoked-keys": Key(
        lambda _: True,
        "a list of fingerprints, as strings",
        kinds=(list,),
        harmless=False,
        variable=False,
    ),
    "image-trust": Key(
        TRUST_MODES.__contains__,
        f"one of {', '.join(TRUST_MODES)}",
        harmless=False,
        variable=False,
    ),
    "trusted-identities": Key(
        lambda _: True,
        "tables, [trusted-identities.NAME]",
        kinds=(dict,),
        harmless=False,
        variable=False,
    ),
}


@dataclass(frozen=True)
class ConfigFile:
    """A file of settings that is there, and its values as they would be written on the command line."""

    path: Path
    values: Mapping[str, str]


def config_files(project: Path | None, personal: Iterable[Path]) -> Iterator[ConfigFile]:
    """Yield the files that there are, the most important first: the project's, the user's, those of the system.

    Args:
        project: The file of the project, if there is one.
        personal: Where files of the user and of the system may be, the most important first.

    Raises:
        InvalidSettingError: One of them cannot be read, is not TOML, or says what it may not.
    """
    if project is not None:
        yield ConfigFile(project, read_config(project, project=True))
    for path in personal:
        if values := read_config(path):
            yield ConfigFile(path, values)


def read_config(path: Path, *, project: bool = False) -> Mapping[str, str]:
    """Return the settings in a file; none where there is no such file.

    Raises:
        InvalidSettingError: It cannot be read, is not TOML, or has a key or a value that is none of ours, or that a
            project may not set.
    """
    try:
        with path.open("rb") as stream:
            data = stream.read(_MAX_BYTES + 1)
    except (FileNotFoundError, NotADirectoryError):
        return {}
    except OSError as error:
        raise InvalidSettingError(f"{path} cannot be read", cause=error.strerror) from error
    import tomllib

    if len(data) > _MAX_BYTES:
        raise InvalidSettingError(
            f"{path} is too large", cause=f"settings have at most {_MAX_BYTES} bytes"
        )
    try:
        document = tomllib.loads(data.decode("utf-8"))
    # ValueError: also what is no TOML or no UTF-8, and an integer of more digits than Python converts.
    except (ValueError, RecursionError) as error:
        raise InvalidSettingError(f"{path} is not valid TOML", cause=str(error)) from error
    return {key: _checked(path, key, value, project) for key, value in document.items()}


def _checked(path: Path, key: str, value: Any, project: bool) -> str:
    if key not in KEYS:
        raise InvalidSettingError(
            f"{path} has the unknown key {key!r}",
            cause=f"the keys are {', '.join(KEYS)}",
            hint=_suggestion(key),
        )
    if project and not KEYS[key].harmless:
        raise InvalidSettingError(
            f"{path} may not set {key}",
            cause="it is the file of a project, which may come from anybody",
            hint="set it yourself, in ~/.config/dis/config.toml"
            + (f", or with DIS_{key.upper()}" if KEYS[key].variable else ""),
        )
    # A bool is an int to Python, and no number to anybody else.
    fits = isinstance(value, KEYS[key].kinds) and not isinstance(value, bool)
    if not fits or not KEYS[key].accepts(str(value)):
        raise InvalidSettingError(
            f"{path} has a wrong {key}", cause=f"it must be {KEYS[key].values}"
        )
    return _written(value)


def _written(value: Any) -> str:
    """Return a value as it would be written on the command line; tables and lists as JSON."""
    if not isinstance(value, (dict, list)):
        return str(value)
    import json

    return json.dumps(value, default=lambda each: each.isoformat(), sort_keys=True)


def _suggestion(key: str) -> str | None:
    from difflib import get_close_matches

    close = get_close_matches(key, KEYS, n=1)
    return f"did you mean {close[0]}?" if close else None
