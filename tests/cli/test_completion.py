"""What a shell is offered while a command line is typed."""

import subprocess
from collections.abc import Callable
from pathlib import Path

import pytest

from command_line import Dis, Realised
from imported_packages import HEAVY, imported

Offer = Callable[[str], list[str]]


@pytest.fixture
def offer(dis: Dis, monkeypatch: pytest.MonkeyPatch) -> Offer:
    """Return what bash is offered at the end of a command line."""

    def complete(line: str) -> list[str]:
        monkeypatch.setenv("_DIS_COMPLETE", "bash_complete")
        monkeypatch.setenv("COMP_WORDS", line)
        monkeypatch.setenv("COMP_CWORD", str(len(line.split(" ")) - 1))
        outcome = dis()
        assert (outcome.code, outcome.err) == (0, "")
        return outcome.out.split()

    return complete


def test_commands_and_options_are_offered(offer: Offer) -> None:
    assert offer("dis why-") == ["plain,why-depends", "plain,why-alive"]
    assert offer("dis root re") == ["plain,remove"]
    assert "plain,--rebuild" in offer("dis realize --re")
    assert "plain,--store" in offer("dis --st")
    assert offer("dis --progress p") == ["plain,plain"]
    assert offer("dis list --progress p") == ["plain,plain"]


def test_names_of_roots_are_offered_after_files(offer: Offer, realised: Realised) -> None:
    del realised
    assert offer("dis show f") == ["file,f", "plain,first"]
    assert offer("dis diff first se") == ["file,se", "plain,second"]
    assert offer("dis root remove sec") == ["plain,second"]
    assert offer("dis verify --bundle-a fi") == ["file,fi", "plain,first"]


def test_digests_are_offered_from_two_digits_on(offer: Offer, realised: Realised) -> None:
    digest = Path(realised.first).name
    assert f"plain,{digest[:12]}" in offer(f"dis show {digest[:2]}")
    assert offer(f"dis show {digest[:20]}")[-1] == f"plain,{digest[:20]}"
    assert f"plain,{digest[:12]}" not in offer(f"dis show {digest[:1]}")


def test_the_store_of_the_command_line_is_looked_into(
    offer: Offer, realised: Realised, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("DIS_STORE")
    assert offer("dis show fi") == ["file,fi"]
    assert offer(f"dis --store {realised.store} show fi") == ["file,fi", "plain,first"]


def test_topics_and_commands_are_offered_for_help(offer: Offer) -> None:
    assert offer("dis help exi") == ["plain,exit-codes"]
    assert offer("dis help doc") == ["plain,doctor"]


@pytest.mark.parametrize("line", ["dis relize x", "dis root lst x", "dis show --nothing x"])
def test_a_line_that_makes_no_sense_has_no_continuation(offer: Offer, line: str) -> None:
    assert [each for each in offer(line) if not each.startswith("file,")] == []


@pytest.mark.parametrize("shell", ["bash", "zsh", "fish"])
def test_the_script_calls_dis_back(dis: Dis, shell: str) -> None:
    outcome = dis("completion", shell)
    assert outcome.code == 0
    assert f"_DIS_COMPLETE={shell}_complete" in outcome.out
    assert dis("completion", shell, "--json").document["script"].strip("\n") in outcome.out


def test_an_unknown_shell_is_refused(dis: Dis) -> None:
    outcome = dis("completion", "csh")
    outcome.check_one_block()
    assert outcome.code == 2


def test_bash_takes_the_script(dis: Dis, tmp_path: Path) -> None:
    script = tmp_path / "dis.bash"
    script.write_text(dis("completion", "bash").out, encoding="utf-8")
    command = f"source {script} && complete -p dis"
    found = subprocess.run(
        ["bash", "--norc", "-c", command], capture_output=True, text=True, check=True
    )
    assert found.stdout.startswith("complete ")
    assert "_dis_completion" in found.stdout


def test_completing_a_reference_imports_nothing_heavy(
    python: str, realised: Realised, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("_DIS_COMPLETE", "bash_complete")
    monkeypatch.setenv("COMP_WORDS", "dis show fi")
    monkeypatch.setenv("COMP_CWORD", "2")
    packages, out = imported(python, "dis_command")
    assert out.split() == ["file,fi", "plain,first"]
    assert not packages & {*HEAVY, "apsw", "blake3", "sqlite3", "rfc8785", "zstandard"}
    assert realised.store.is_dir()
