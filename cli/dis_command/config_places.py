"""Where files of settings lie, and which counts more; only looking, so that a call without any starts at once."""

import contextlib
from collections.abc import Iterator, Mapping
from pathlib import Path

from dis_store.errors import UnfitEnvironmentError

PROJECT_FILE = "dis.toml"
# What marks the top of a working copy, whoever manages its versions.
_REPOSITORY_MARKS = (".git", ".hg", ".jj", ".svn")
_SYSTEM_DIRECTORIES = "/etc/xdg"


def personal_paths(environment: Mapping[str, str]) -> Iterator[Path]:
    """Yield where files of the user and of the system may be, the most important first."""
    # Without a home directory there is no file of the user.
    with contextlib.suppress(UnfitEnvironmentError):
        yield config_path(environment)
    yield from system_paths(environment)


def config_path(environment: Mapping[str, str]) -> Path:
    """Return where the user's file is, or would be."""
    return user_directory(environment, "XDG_CONFIG_HOME", ".config") / "config.toml"


def system_paths(environment: Mapping[str, str]) -> list[Path]:
    """Return where files of the system may be, the most important first."""
    named = environment.get("XDG_CONFIG_DIRS") or _SYSTEM_DIRECTORIES
    return [
        Path(directory, "dis", "config.toml")
        for directory in named.split(":")
        if Path(directory).is_absolute()
    ]


def project_path(environment: Mapping[str, str], directory: Path) -> Path | None:
    """Return the nearest `dis.toml` from `directory` upwards.

    The search ends at the top of a repository, below the home directory, and at the root.
    """
    home = Path(environment.get("HOME", ""))
    for place in (directory, *directory.parents):
        if place == home:
            return None
        path = place / PROJECT_FILE
        if path.is_file():
            return path
        if any((place / mark).exists() for mark in _REPOSITORY_MARKS):
            return None
    return None


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
