"""Where the store is, and config.toml."""

from pathlib import Path

import pytest

from dis_command.settings import read_config, store_path
from dis_store.errors import InvalidInputError, UnfitEnvironmentError


@pytest.fixture
def environment(tmp_path: Path) -> dict[str, str]:
    return {"HOME": str(tmp_path), "XDG_CONFIG_HOME": str(tmp_path / "config")}


def write_config(tmp_path: Path, text: str) -> Path:
    path = tmp_path / "config" / "dis" / "config.toml"
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text, encoding="utf-8")
    return path


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
        store_path(None, {})


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
    ],
)
def test_a_broken_file_is_refused(tmp_path: Path, text: str, message: str) -> None:
    with pytest.raises(InvalidInputError, match=message):
        read_config(write_config(tmp_path, text))


def test_an_unknown_key_gets_a_suggestion(tmp_path: Path) -> None:
    with pytest.raises(InvalidInputError) as refused:
        read_config(write_config(tmp_path, 'stroe = "x"\n'))
    assert refused.value.hint == "did you mean store?"


def test_bytes_that_are_no_text_are_refused(tmp_path: Path) -> None:
    path = write_config(tmp_path, "")
    path.write_bytes(b"\xff\xfe")
    with pytest.raises(InvalidInputError, match="not valid TOML"):
        read_config(path)
