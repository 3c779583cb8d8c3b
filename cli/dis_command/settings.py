"""The settings of one call: an option comes before a variable, that before a file, that before a default."""

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING

from dis_command.config_places import personal_paths, project_path, user_directory
from dis_command.errors import InvalidSettingError
from dis_command.setting_values import FOR_EVER
from dis_store.errors import InvalidInputError

if TYPE_CHECKING:
    from dis_command.config_files import ConfigFile

DEFAULT = "default"
STATE_DIRECTORY = ("XDG_STATE_HOME", ".local/state")
_DATA_DIRECTORY = ("XDG_DATA_HOME", ".local/share")
_TURNED_OFF = {"", "0"}
_FORCING = ("FORCE_COLOR", "CLICOLOR_FORCE")


@dataclass(frozen=True, eq=False, repr=False)
class Found:
    """A value and where it comes from: an option, a variable, a file or `default`."""

    value: str
    origin: str


class Settings:
    """What the environment and the files of settings say; the files are read when they are first asked for.

    Args:
        environment: The environment.
        directory: Where the search for the file of a project begins; the working directory if it is None.
    """

    def __init__(self, environment: Mapping[str, str], directory: Path | None = None) -> None:
        self._environment = environment
        self._directory = directory

    @cached_property
    def files(self) -> "tuple[ConfigFile, ...]":
        """The files that there are, the most important first.

        Raises:
            InvalidSettingError: One of them says what it may not.
        """
        directory = self._directory or working_directory()
        project = None if directory is None else project_path(self._environment, directory)
        personal = list(personal_paths(self._environment))
        if project is None and not any(map(_may_be_there, personal)):
            return ()
        from dis_command.config_files import config_files

        return tuple(config_files(project, personal))

    def store(self, flag: str | None) -> Found:
        """Return the path of the store.

        Raises:
            InvalidInputError: It is empty or not UTF-8, or a file is invalid.
        """
        for origin, value in (("--store", flag), ("DIS_STORE", self._environment.get("DIS_STORE"))):
            if value is not None:
                if not value.strip() or "\x00" in value:
                    raise InvalidInputError(
                        f"{origin} names no directory", hint="name a directory, or leave it out"
                    )
                return Found(_utf8(Path(value).absolute()), origin)
        for file in self.files:
            if "store" in file.values:
                place = file.path.parent / Path(file.values["store"]).expanduser()
                return Found(_utf8(place.absolute()), str(file.path))
        place = user_directory(self._environment, *_DATA_DIRECTORY) / "store"
        return Found(_utf8(place), directory_origin(self._environment, _DATA_DIRECTORY[0]))

    def color(self, flag: str | None) -> Found:
        """Return when to colour; `auto` leaves it to the stream.

        Raises:
            InvalidSettingError: `DIS_COLOR` or a file says something else.
        """
        if flag is not None:
            return Found(flag, "--color")
        if self._environment.get("NO_COLOR"):
            return Found("never", "NO_COLOR")
        if (found := self._variable("color")) is not None:
            return found
        for name in _FORCING:
            if self._environment.get(name, "0") not in _TURNED_OFF:
                return Found("always", name)
        return self._from_files("color") or Found("auto", DEFAULT)

    def progress(self, flag: str | None) -> Found:
        """Return how progress is shown.

        Raises:
            InvalidSettingError: `DIS_PROGRESS` or a file says something else.
        """
        if flag is not None:
            return Found(flag, "--progress")
        return self._variable("progress") or self._from_files("progress") or Found("auto", DEFAULT)

    def jobs(self, flag: int | None) -> Found | None:
        """Return how many pieces of work to do at a time; None for as many as there are processors.

        Raises:
            InvalidSettingError: `DIS_JOBS` or a file says something else.
        """
        if flag is not None:
            return Found(str(flag), "--jobs")
        return self._variable("jobs") or self._from_files("jobs")

    def wait(self, flag: str | None) -> Found:
        """Return how many seconds to wait for a lock, or `forever`.

        Raises:
            InvalidSettingError: `DIS_WAIT` or a file says something else.
        """
        if flag is not None:
            return Found(flag, "--wait")
        return self._variable("wait") or self._from_files("wait") or Found(FOR_EVER, DEFAULT)

    def substituters(self) -> Found | None:
        """Return the repositories that are asked before something is built, apart by spaces; None where there are none.

        Raises:
            InvalidSettingError: A file says something else than a list of texts.
        """
        value = self._environment.get("DIS_SUBSTITUTERS")
        if value is not None:
            return Found(value, "DIS_SUBSTITUTERS") if value.strip() else None
        found = self._from_files("substituters")
        if found is None:
            return None
        import json

        listed = json.loads(found.value)
        if not all(isinstance(each, str) and each and " " not in each for each in listed):
            raise InvalidSettingError(
                f"{found.origin} has a wrong substituters",
                cause="it must be a list of references, oci://HOST/REPOSITORY",
            )
        return Found(" ".join(listed), found.origin) if listed else None

    def trust(self, flag: str | None = None) -> Found:
        """Return what is asked of builds that others made: `require`, `warn` or `off`.

        Raises:
            InvalidSettingError: `DIS_TRUST` or a file says something else.
        """
        if flag is not None:
            return Found(flag, "--trust")
        return self._variable("trust") or self._from_files("trust") or Found("require", DEFAULT)

    def written(self, key: str) -> list[Found]:
        """Return what each file says of a key, the most important file first; tables and lists as JSON.

        Raises:
            InvalidSettingError: A file is invalid.
        """
        return [
            Found(file.values[key], str(file.path)) for file in self.files if key in file.values
        ]

    def vllm_python(self, flag: str | None) -> Found | None:
        """Return the Python of an environment that has vLLM; None where nobody named one.

        Raises:
            InvalidSettingError: A file is invalid.
        """
        return self._interpreter("vllm_python", flag)

    def transformers_python(self, flag: str | None) -> Found | None:
        """Return the Python of an environment that has transformers; None where nobody named one.

        Raises:
            InvalidSettingError: A file is invalid.
        """
        return self._interpreter("transformers_python", flag)

    def _interpreter(self, key: str, flag: str | None) -> Found | None:
        if flag is not None:
            return Found(flag, f"--{key.replace('_', '-')}")
        if (found := self._variable(key)) is not None:
            return found
        for file in self.files:
            if key in file.values:
                place = file.path.parent / Path(file.values[key]).expanduser()
                return Found(str(place), str(file.path))
        return None

    def configured_pager(self) -> Found | None:
        """Return the pager of the files; the variables come before it."""
        return self._from_files("pager")

    def _variable(self, key: str) -> Found | None:
        name = f"DIS_{key.upper()}"
        value = self._environment.get(name)
        if not value:
            return None
        from dis_command.config_files import KEYS

        if not KEYS[key].accepts(value):
            raise InvalidSettingError(
                f"{name} is {value!r}", cause=f"it must be {KEYS[key].values}"
            )
        return Found(value, name)

    def _from_files(self, key: str) -> Found | None:
        for file in self.files:
            if key in file.values:
                return Found(file.values[key], str(file.path))
        return None


def _may_be_there(path: Path) -> bool:
    """Tell whether there is a file, or may be one where nobody may look: reading it says why."""
    try:
        path.lstat()
    except (FileNotFoundError, NotADirectoryError):
        return False
    except OSError:
        return True
    return True


def directory_origin(environment: Mapping[str, str], variable: str) -> str:
    """Return where `user_directory` takes a directory from: the variable or `default`."""
    return variable if Path(environment.get(variable, "")).is_absolute() else DEFAULT


def working_directory() -> Path | None:
    """Return where the command was called; None where that is gone."""
    try:
        return Path.cwd()
    except OSError:  # it is gone
        return None


def _utf8(path: Path) -> str:
    """Return the path of a store, which must be text: the index can be opened under no other."""
    try:
        str(path).encode("utf-8")
    except UnicodeEncodeError as error:
        raise InvalidInputError(
            f"{path} cannot be a store",
            cause="its path is not UTF-8",
            hint="name another: --store DIR",
        ) from error
    return str(path)
