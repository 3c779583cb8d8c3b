"""Every setting of one call, with its value and where that comes from."""

from collections.abc import Callable, Iterator
from dataclasses import dataclass

from dis_command import config_places, pager, settings
from dis_command.session import Session


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
    return [*(make(session) for make in _SETTINGS), *_trust(session), *_places(session)]


def _named(name: str, found: settings.Found) -> Setting:
    return Setting(name, found.value, found.origin)


def _progress(session: Session) -> Setting:
    if session.quiet:
        return Setting("progress", "none", "--quiet")
    return _named("progress", session.settings.progress(session.progress))


def _pager(session: Session) -> Setting:
    if session.no_pager:
        return Setting("pager", "", "--no-pager")
    return _named("pager", pager.pager_setting(session.environment, session.settings))


def _debug(session: Session) -> Setting:
    origin = "--debug" if session.debug else settings.DEFAULT
    if not session.debug and "DIS_DEBUG" in session.environment:
        origin = "DIS_DEBUG"
    return Setting("debug", "on" if session.debugging else "off", origin)


def _jobs(session: Session) -> Setting:
    from dis_command.command import job_count

    found = session.settings.jobs(None)
    return Setting("jobs", str(job_count(None)), found.origin if found else settings.DEFAULT)


def _substituters(session: Session) -> Setting:
    found = session.settings.substituters()
    return (
        Setting("substituters", "none", settings.DEFAULT)
        if found is None
        else _named("substituters", found)
    )


def _trust(session: Session) -> Iterator[Setting]:
    """Yield whom the settings trust: names alone, where the settings hold keys and identities."""
    from dis_command.trust import read_trust

    trust = read_trust(session)
    yield _named("trust", session.settings.trust())
    for key, value in (
        ("trust-threshold", str(trust.policy.threshold)),
        ("trusted-keys", ", ".join(each.name for each in trust.keys)),
        ("revoked-keys", ", ".join(sorted(trust.policy.revoked))),
        ("image-trust", trust.images.mode),
        ("trusted-identities", ", ".join(each.name for each in trust.images.identities)),
    ):
        found = session.settings.written(key)
        # The keys that any file revokes are revoked; of all else the first file decides.
        places = [each.origin for each in (found if key == "revoked-keys" else found[:1])]
        yield Setting(key, value or "none", ", ".join(places) or settings.DEFAULT)


def _vllm_python(session: Session) -> Setting:
    found = session.settings.vllm_python(None)
    return _named("vllm_python", found or settings.Found("", settings.DEFAULT))


def _transformers_python(session: Session) -> Setting:
    found = session.settings.transformers_python(None)
    return _named("transformers_python", found or settings.Found("", settings.DEFAULT))


def _places(session: Session) -> Iterator[Setting]:
    """Yield where files are: those of settings, the one of a project only where there is one."""
    environment = session.environment
    directory = settings.working_directory()
    project = None if directory is None else config_places.project_path(environment, directory)
    if project is not None:
        yield Setting("project file", str(project), settings.DEFAULT)
    yield Setting(
        "config file",
        str(config_places.config_path(environment)),
        settings.directory_origin(environment, "XDG_CONFIG_HOME"),
    )
    named = "XDG_CONFIG_DIRS" if environment.get("XDG_CONFIG_DIRS") else settings.DEFAULT
    for path in config_places.system_paths(environment):
        yield Setting("system file", str(path), named)
    variable, default = settings.STATE_DIRECTORY
    yield Setting(
        "error logs",
        str(config_places.user_directory(environment, variable, default)),
        settings.directory_origin(environment, variable),
    )


_SETTINGS: tuple[Callable[[Session], Setting], ...] = (
    lambda session: _named("store", session.settings.store(session.store)),
    lambda session: _named("color", session.settings.color(session.color)),
    _progress,
    _pager,
    _debug,
    _jobs,
    _vllm_python,
    _transformers_python,
    lambda session: _named("wait", session.settings.wait(session.wait)),
    _substituters,
)
