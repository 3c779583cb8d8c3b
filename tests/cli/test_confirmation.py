"""Before something is given up, a person is asked; a script must say so itself, and nothing ever hangs."""

import os
import subprocess
from pathlib import Path

import pytest

from command_line import Dis, Realised
from dis_command.confirmation import Loss, confirm
from dis_command.errors import UnconfirmedError
from pseudo_terminal import OnTerminal


def terminal(python: str, *argv: str) -> OnTerminal:
    environment = {**os.environ, "TERM": "xterm", "NO_COLOR": "1"}
    return OnTerminal([python, "-m", "dis_command", *argv], environment, typed=True)


def roots(dis: Dis) -> set[str]:
    return {each["name"] for each in dis("root", "list", "--json").document}


@pytest.mark.parametrize(("answer", "code"), [("n", 2), ("", 2), ("no", 2), ("y", 0), ("YES", 0)])
def test_removing_roots_is_asked_for_with_what_they_keep(
    dis: Dis, python: str, own_store: Realised, answer: str, code: int
) -> None:
    before = roots(dis)
    gone = {name for name in before if name == "first" or name.startswith("quickstart.")}
    with terminal(python, "root", "remove", *sorted(gone)) as process:
        process.read_until(lambda text: text.endswith("Go on? [y/N] "))
        assert f"{len(gone)} roots would be dropped, and " in process.written
        assert " objects, " in process.written
        assert "iB be freed" in process.written
        assert all(f"  {name}\n" in process.written for name in gone)
        process.type(f"{answer}\n")
        assert process.finish() == (code, "")
    assert roots(dis) == (before - gone if code == 0 else before)
    if code:
        assert "error: nothing was changed" in process.written


def test_the_end_of_the_input_is_no_yes(dis: Dis, python: str, own_store: Realised) -> None:
    with terminal(python, "root", "remove", "first") as process:
        process.read_until(lambda text: text.endswith("[y/N] "))
        process.type("\x04")
        assert process.finish()[0] == 2
    assert "first" in roots(dis)


def test_with_yes_nothing_is_asked(dis: Dis, python: str, own_store: Realised) -> None:
    with terminal(python, "root", "remove", "first", "--yes") as process:
        assert process.finish()[0] == 0
    assert "[y/N]" not in process.written
    assert "first" not in roots(dis)


def test_what_other_roots_keep_is_not_counted_as_lost(
    dis: Dis, python: str, own_store: Realised
) -> None:
    assert dis("root", "add", "golden", "first").code == 0
    with terminal(python, "root", "remove", "golden") as process:
        process.read_until(lambda text: text.endswith("[y/N] "))
        assert "1 root would be dropped, and 0 objects, 0 B be freed" in process.written
        process.type("y\n")
        assert process.finish()[0] == 0


def test_the_root_whose_record_is_damaged_can_be_removed(
    dis: Dis, python: str, own_store: Realised
) -> None:
    record = own_store.store / "roots" / "first.json"
    record.chmod(0o644)
    record.write_text("{", encoding="utf-8")
    with terminal(python, "root", "remove", "first") as process:
        process.read_until(lambda text: text.endswith("[y/N] "))
        assert "what these roots keep is not known" in process.written
        process.type("y\n")
        assert process.finish()[0] == 0
    assert "first" not in roots(dis)


def test_without_a_terminal_removing_a_root_goes_on_because_it_deletes_nothing(
    dis: Dis, own_store: Realised
) -> None:
    objects = len(dis("path-info", "-r", "first", "--json").document)
    digest = Path(own_store.first).name
    assert dis("root", "remove", "first").code == 0
    assert len(dis("path-info", "-r", digest, "--json").document) == objects


RETIRING = [("--keep-last", "0"), ("--keep-free", "900T")]


@pytest.mark.parametrize("option", RETIRING, ids=lambda option: option[0])
def test_without_a_terminal_a_collection_that_drops_roots_of_runs_needs_yes(
    dis: Dis, own_store: Realised, option: tuple[str, str]
) -> None:
    before = roots(dis)
    outcome = dis("gc", *option)
    outcome.check_one_block()
    assert (outcome.code, outcome.out) == (2, "")
    assert "2 roots would be dropped" in outcome.err
    assert "--yes" in outcome.err
    assert "dis help E0205" in outcome.err
    assert dis("gc", *option, "--json").error["code"] == "E0205"
    assert roots(dis) == before
    assert own_store.path_of("first").is_dir()
    assert len(dis("gc", *option, "--yes", "--json").document["retired_roots"]) == 2
    assert roots(dis) == {"first", "second"}


def test_a_collection_that_drops_nothing_asks_nothing(dis: Dis, own_store: Realised) -> None:
    assert dis("gc").code == 0
    assert dis("gc", "--older-than", "1h").code == 0
    assert dis("gc", "--max-freed", "1G").code == 0
    assert dis("gc", "--keep-last", "0", "--dry-run").code == 0
    assert dis("gc", "--keep-last", "0", "--yes").code == 0
    assert dis("gc", "--keep-last", "0").code == 0


@pytest.mark.parametrize(("answer", "code"), [("n", 2), ("y", 0)])
def test_on_a_terminal_a_collection_asks_before_it_drops_roots_of_runs(
    dis: Dis, python: str, own_store: Realised, answer: str, code: int
) -> None:
    assert dis("root", "remove", "second").code == 0
    before = roots(dis)
    with terminal(python, "gc", "--keep-last", "0") as process:
        process.read_until(lambda text: text.endswith("Go on? [y/N] "))
        assert "2 roots would be dropped, and " in process.written
        process.type(f"{answer}\n")
        assert process.finish()[0] == code
    assert roots(dis) == (before if code else {"first"})
    assert own_store.path_of("second").exists() == bool(code)


def test_without_a_terminal_a_loss_needs_yes() -> None:
    loss = Loss(("a", "b"), 3, 2048)
    with pytest.raises(UnconfirmedError) as refused:
        confirm(loss, yes=False)
    assert "--yes" in str(refused.value.hint)
    assert refused.value.what == "2 roots would be dropped, and 3 objects, 2.0 KiB be freed"
    confirm(loss, yes=True)


def test_a_name_cannot_steer_the_terminal_of_the_question() -> None:
    text = str(Loss([f"a\x1b[2J{number}" for number in range(30)], 1, 1))
    assert "\x1b" not in text
    assert text.endswith("  and 10 more")


@pytest.mark.parametrize("streams", ["stdin", "stderr"])
def test_one_stream_that_is_no_terminal_is_enough_not_to_ask(
    dis: Dis, python: str, own_store: Realised, streams: str
) -> None:
    argv = [python, "-m", "dis_command", "root", "remove", "first"]
    master, slave = os.openpty()
    ends = {"stdin": slave, "stderr": slave} | {streams: subprocess.DEVNULL}
    done = subprocess.run(
        argv,
        stdin=ends["stdin"],
        stderr=ends["stderr"],
        stdout=subprocess.DEVNULL,
        check=False,
        timeout=60,
    )
    os.close(slave)
    os.close(master)
    assert done.returncode == 0
    assert "first" not in roots(dis)
