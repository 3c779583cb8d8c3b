"""One rule for every file that a command is told to write: what is there stays, but for the same bytes or `--force`."""

from collections.abc import Callable
from pathlib import Path

import pytest

from command_line import SHORTER, Dis, Realised
from file_identity import identity

SHORT = ("--set", "inference.n_prompts=2", "--set", SHORTER)
# The command line up to the option, and the option that takes the file.
COMMANDS: dict[str, Callable[[Realised], tuple[str, ...]]] = {
    "bundle": lambda _: ("bundle", "first", "--output"),
    "build": lambda realised: ("build", str(realised.config), "--output"),
    "store export": lambda _: ("store", "export", "first", "--output"),
    "run, tokens": lambda realised: ("run", str(realised.config), *SHORT, "--token-output"),
    "run, log": lambda realised: ("run", str(realised.config), *SHORT, "--run-log-output"),
}


@pytest.fixture
def argv(own_store: Realised, request: pytest.FixtureRequest) -> tuple[str, ...]:
    return COMMANDS[request.param](own_store)


every_command = pytest.mark.parametrize("argv", COMMANDS, indirect=True)


@every_command
def test_a_file_with_other_content_is_replaced_only_with_force(
    dis: Dis, argv: tuple[str, ...], tmp_path: Path
) -> None:
    target = tmp_path / "mine.tar.gz"
    target.write_text("mine", encoding="utf-8")
    outcome = dis(*argv, target)
    outcome.check_one_block()
    assert (outcome.code, outcome.out) == (2, "")
    assert f"{target} is there already" in outcome.err
    assert "--force" in outcome.err
    assert "dis help E0204" in outcome.err
    assert target.read_text("utf-8") == "mine"
    assert [path for path in tmp_path.iterdir() if path.name.startswith(".mine")] == []
    assert dis(*argv, target, "--force").code == 0
    assert target.read_bytes() != b"mine"


@every_command
def test_the_same_content_again_is_no_error(
    dis: Dis, argv: tuple[str, ...], tmp_path: Path
) -> None:
    target = tmp_path / "new.tar.gz"
    assert dis(*argv, target).code == 0
    before = identity(target)
    assert dis(*argv, target).code == 0
    assert identity(target) == before


@every_command
def test_a_directory_is_never_replaced(dis: Dis, argv: tuple[str, ...], tmp_path: Path) -> None:
    (tmp_path / "place.tar.gz").mkdir()
    outcome = dis(*argv, tmp_path / "place.tar.gz", "--force")
    outcome.check_one_block()
    assert outcome.code == 2
    assert list((tmp_path / "place.tar.gz").iterdir()) == []


@pytest.mark.usefixtures("realised")
@pytest.mark.parametrize("name", ["verify_report.json", "verify_summary.txt"])
def test_a_report_takes_the_place_of_a_report_and_of_nothing_else(
    dis: Dis, tmp_path: Path, name: str
) -> None:
    (tmp_path / name).write_text("mine", encoding="utf-8")
    outcome = dis("verify", "first", "second")
    outcome.check_one_block()
    assert outcome.code == 2
    assert (tmp_path / name).read_text("utf-8") == "mine"
    assert dis("verify", "first", "second", "--force").code == 1
    assert (tmp_path / name).read_text("utf-8") != "mine"
    assert dis("verify", "first", "first").code == 0
    assert '"outputs_identical": true' in (tmp_path / "verify_report.json").read_text("utf-8")
