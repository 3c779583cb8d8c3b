"""Settings: which of the command line, the environment and the files counts, and what a file may say."""

from pathlib import Path

import pytest

from command_line import Dis
from dis_command.config_files import KEYS, read_config
from dis_command.config_places import project_path
from dis_command.errors import InvalidSettingError
from dis_command.settings import Settings
from dis_store.errors import InvalidInputError, UnfitEnvironmentError


@pytest.fixture
def environment(tmp_path: Path) -> dict[str, str]:
    return {
        "HOME": str(tmp_path),
        "XDG_CONFIG_HOME": str(tmp_path / "config"),
        "XDG_CONFIG_DIRS": f"{tmp_path / 'first'}:relative:{tmp_path / 'second'}",
    }


@pytest.fixture
def project(tmp_path: Path) -> Path:
    (tmp_path / "project" / "deep").mkdir(parents=True)
    return tmp_path / "project"


def write(path: Path, text: str) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text, encoding="utf-8")
    return path


def write_config(tmp_path: Path, text: str, place: str = "config") -> Path:
    return write(tmp_path / place / "dis" / "config.toml", text)


def store_path(flag: str | None, environment: dict[str, str]) -> Path:
    return Path(Settings(environment, Path("/nowhere")).store(flag).value)


def test_the_flag_comes_before_the_variable_before_the_file(
    tmp_path: Path, environment: dict[str, str]
) -> None:
    default = tmp_path / ".local" / "share" / "dis" / "store"
    assert store_path(None, environment) == default
    write_config(tmp_path, 'store = "/from/file"\n')
    assert store_path(None, environment) == Path("/from/file")
    environment["DIS_STORE"] = "/from/variable"
    assert store_path(None, environment) == Path("/from/variable")
    assert store_path("/from/flag", environment) == Path("/from/flag")


def test_the_project_comes_before_the_user_before_the_system(
    tmp_path: Path, environment: dict[str, str], project: Path
) -> None:
    def progress(flag: str | None = None) -> tuple[str, str]:
        found = Settings(environment, project / "deep").progress(flag)
        return found.value, found.origin

    assert progress() == ("auto", "default")
    second = write_config(tmp_path, 'progress = "json"\n', "second")
    assert progress() == ("json", str(second))
    first = write_config(tmp_path, 'progress = "tty"\n', "first")
    assert progress() == ("tty", str(first))
    mine = write_config(tmp_path, 'progress = "plain"\n')
    assert progress() == ("plain", str(mine))
    projects = write(project / "dis.toml", 'progress = "none"\n')
    assert progress() == ("none", str(projects))
    environment["DIS_PROGRESS"] = "tty"
    assert progress() == ("tty", "DIS_PROGRESS")
    assert progress("plain") == ("plain", "--progress")


def test_a_file_that_lacks_a_setting_leaves_it_to_the_next(
    tmp_path: Path, environment: dict[str, str], project: Path
) -> None:
    write(project / "dis.toml", "jobs = 3\n")
    mine = write_config(tmp_path, 'color = "never"\njobs = 5\nwait = 2.5\n')
    settings = Settings(environment, project)
    assert settings.color(None).origin == str(mine)
    assert settings.wait(None).value == "2.5"
    jobs = settings.jobs(None)
    assert jobs is not None
    assert (jobs.value, jobs.origin) == ("3", str(project / "dis.toml"))


@pytest.mark.parametrize(
    ("variables", "expected"),
    [
        ({}, ("never", "file")),
        ({"FORCE_COLOR": "1"}, ("always", "FORCE_COLOR")),
        ({"CLICOLOR_FORCE": "1", "FORCE_COLOR": "0"}, ("always", "CLICOLOR_FORCE")),
        ({"FORCE_COLOR": "1", "DIS_COLOR": "auto"}, ("auto", "DIS_COLOR")),
        ({"FORCE_COLOR": "1", "DIS_COLOR": "always", "NO_COLOR": "1"}, ("never", "NO_COLOR")),
    ],
)
def test_no_color_comes_before_every_other_variable(
    tmp_path: Path,
    environment: dict[str, str],
    variables: dict[str, str],
    expected: tuple[str, str],
) -> None:
    path = write_config(tmp_path, 'color = "never"\n')
    settings = Settings({**environment, **variables}, Path("/nowhere"))
    found = settings.color(None)
    assert (found.value, found.origin.replace(str(path), "file")) == expected
    assert settings.color("always").value == "always"


@pytest.mark.parametrize("key", [key for key, each in KEYS.items() if not each.harmless])
def test_a_project_cannot_say_where_the_store_is_or_what_is_started(
    environment: dict[str, str], project: Path, key: str
) -> None:
    path = write(project / "dis.toml", f'{key} = "/tmp/somebody-elses"\n')
    with pytest.raises(InvalidInputError, match=f"may not set {key}") as refused:
        Settings(environment, project).progress(None)
    assert str(path) in refused.value.what
    assert (f"DIS_{key.upper()}" in str(refused.value.hint)) == KEYS[key].variable


def test_a_cloned_project_that_names_a_store_is_refused_before_anything_is_opened(
    dis: Dis, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("DIS_STORE")
    write(tmp_path / "dis.toml", f'store = "{tmp_path / "theirs"}"\n')
    outcome = dis("realize", "config.json")
    outcome.check_one_block()
    assert outcome.code == 2
    assert "dis.toml may not set store" in outcome.err
    assert not (tmp_path / "theirs").exists()


def test_what_a_project_may_set_is_harmless() -> None:
    assert {key for key, each in KEYS.items() if each.harmless} == {
        "color",
        "progress",
        "jobs",
        "wait",
    }


@pytest.mark.parametrize("mark", [".git", ".hg"])
def test_the_search_for_a_project_ends_at_the_top_of_a_repository(
    environment: dict[str, str], project: Path, mark: str
) -> None:
    path = write(project.parent / "dis.toml", "")
    environment["HOME"] = "/elsewhere"
    assert project_path(environment, project / "deep") == path
    (project / mark).mkdir()
    assert project_path(environment, project / "deep") is None
    inside = write(project / "dis.toml", "")
    assert project_path(environment, project / "deep") == inside


def test_the_search_for_a_project_ends_below_the_home_directory(
    environment: dict[str, str], project: Path
) -> None:
    write(project.parent / "dis.toml", "")
    assert project_path(environment, project) is None


def test_a_relative_path_in_the_file_begins_at_the_file(
    tmp_path: Path, environment: dict[str, str]
) -> None:
    path = write_config(tmp_path, 'store = "nearby"\n')
    assert store_path(None, environment) == path.parent / "nearby"


def test_a_relative_xdg_variable_is_ignored(tmp_path: Path, environment: dict[str, str]) -> None:
    environment["XDG_DATA_HOME"] = "relative"
    assert store_path(None, environment) == tmp_path / ".local" / "share" / "dis" / "store"


def test_without_a_home_directory_the_store_must_be_named() -> None:
    with pytest.raises(UnfitEnvironmentError, match="no home directory"):
        store_path(None, {"XDG_CONFIG_DIRS": "/nowhere"})
    assert store_path("/x", {}) == Path("/x")


@pytest.mark.parametrize("value", ["", " ", "\x00"])
def test_an_empty_store_is_refused(value: str, environment: dict[str, str]) -> None:
    with pytest.raises(InvalidInputError, match="--store names no directory"):
        store_path(value, environment)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("store = ", "not valid TOML"),
        ("store = 3\n", "wrong store"),
        ('stroe = "x"\n', "unknown key 'stroe'"),
        ("[store]\npath = 1\n", "wrong store"),
        ('color = "blue"\n', "wrong color"),
        ('progress = "loud"\n', "wrong progress"),
        ("jobs = 0\n", "wrong jobs"),
        ("jobs = true\n", "wrong jobs"),
        ('jobs = "2"\n', "wrong jobs"),
        ("wait = -1\n", "wrong wait"),
        ("wait = nan\n", "wrong wait"),
        ('wait = "soon"\n', "wrong wait"),
    ],
)
def test_a_broken_file_is_refused(tmp_path: Path, text: str, message: str) -> None:
    with pytest.raises(InvalidInputError, match=message):
        read_config(write_config(tmp_path, text))


def test_a_right_file_is_read(tmp_path: Path) -> None:
    text = 'store = "/s"\ncolor = "never"\npager = ""\njobs = 2\nwait = "forever"\n'
    assert read_config(write_config(tmp_path, text)) == {
        "store": "/s",
        "color": "never",
        "pager": "",
        "jobs": "2",
        "wait": "forever",
    }


@pytest.mark.parametrize(
    ("variable", "value"), [("DIS_JOBS", "0"), ("DIS_WAIT", "soon"), ("DIS_COLOR", "blue")]
)
def test_a_wrong_variable_is_refused_by_name(
    environment: dict[str, str], variable: str, value: str
) -> None:
    settings = Settings({**environment, variable: value}, Path("/nowhere"))
    ask = getattr(settings, variable.removeprefix("DIS_").lower())
    with pytest.raises(InvalidInputError, match=f"{variable} is '{value}'"):
        ask(None)


def test_an_unknown_key_gets_a_suggestion(tmp_path: Path) -> None:
    with pytest.raises(InvalidInputError) as refused:
        read_config(write_config(tmp_path, 'stroe = "x"\n'))
    assert refused.value.hint == "did you mean store?"


def test_bytes_that_are_no_text_are_refused(tmp_path: Path) -> None:
    path = write_config(tmp_path, "")
    path.write_bytes(b"\xff\xfe")
    with pytest.raises(InvalidInputError, match="not valid TOML"):
        read_config(path)


def test_a_directory_that_nobody_can_look_into_is_not_taken_for_an_empty_one(
    tmp_path: Path,
) -> None:
    (tmp_path / "loop").symlink_to("loop")
    environment = {"HOME": str(tmp_path), "XDG_CONFIG_HOME": str(tmp_path / "loop")}
    with pytest.raises(InvalidSettingError, match="cannot be read"):
        _ = Settings(environment, tmp_path).files
