"""Every setting of one call, with its value and where that comes from."""

from collections.abc import Callable
from dataclasses import dataclass

from dis_command import pager, settings
from dis_command.session import Session

_DEFAULT = "default"
_TURNED_OFF = {"", "0"}


@dataclass(frozen=True)
class Setting:
    """A setting: `origin` is an option, a variable, a file or `default`."""

    name: str
    value: str
    origin: str


def settings_of(session: Session) -> list[Setting]:
    """Return all settings.

    Raises:
        InvalidInputError: One of them is malformed.
    """
    return [make(session) for make in _SETTINGS]


def _store(session: Session) -> Setting:
    return Setting(
        "store", str(session.store_path), settings.store_origin(session.store, session.environment)
    )


def _color(session: Session) -> Setting:
    if session.color is not None:
        return Setting("color", session.color, "--color")
    if session.environment.get("NO_COLOR"):
        return Setting("color", "never", "NO_COLOR")
    for name in ("FORCE_COLOR", "CLICOLOR_FORCE"):
        if session.environment.get(name, "0") not in _TURNED_OFF:
            return Setting("color", "always", name)
    return Setting("color", "auto", _DEFAULT)


def _progress(session: Session) -> Setting:
    if session.quiet:
        return Setting("progress", session.progress_mode, "--quiet")
    if session.progress is not None:
        return Setting("progress", session.progress, "--progress")
    origin = "DIS_PROGRESS" if session.environment.get("DIS_PROGRESS") else _DEFAULT
    return Setting("progress", session.progress_mode, origin)


def _pager(session: Session) -> Setting:
    if session.no_pager:
        return Setting("pager", "", "--no-pager")
    value, variable = pager.pager_setting(session.environment)
    return Setting("pager", value, variable or _DEFAULT)


def _debug(session: Session) -> Setting:
    origin = "--debug" if session.debug else _DEFAULT
    if not session.debug and "DIS_DEBUG" in session.environment:
        origin = "DIS_DEBUG"
    return Setting("debug", "on" if session.debugging else "off", origin)


def _config_file(session: Session) -> Setting:
    variable = "XDG_CONFIG_HOME"
    return Setting(
        "config file",
        str(settings.config_path(session.environment)),
        settings.directory_origin(session.environment, variable),
    )


def _error_logs(session: Session) -> Setting:
    variable, default = settings.STATE_DIRECTORY
    return Setting(
        "error logs",
        str(settings.user_directory(session.environment, variable, default)),
        settings.directory_origin(session.environment, variable),
    )


_SETTINGS: tuple[Callable[[Session], Setting], ...] = (
    _store,
    _color,
    _progress,
    _pager,
    _debug,
    _config_file,
    _error_logs,
)
