"""What a shell is offered while a command line is typed."""

import subprocess
from collections.abc import Callable, Iterator
from pathlib import Path

import click
import pytest

from command_line import Dis, Realised
from dis_command.lazy_group import LazyGroup
from dis_command.program import dis as program
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


def test_the_value_after_an_equals_sign_is_offered(offer: Offer, realised: Realised) -> None:
    """bash hands `--progress=p` over as three words; click alone would offer nothing."""
    del realised
    assert offer("dis list --progress = p") == ["plain,plain"]
    assert offer("dis verify --bundle-a = fi") == ["file,fi", "plain,first"]
    assert "plain,json" in offer("dis list --progress =")


@pytest.mark.parametrize("shell", ["zsh", "fish"])
def test_a_shell_that_replaces_the_whole_word_gets_the_option_as_well(
    dis: Dis, monkeypatch: pytest.MonkeyPatch, shell: str
) -> None:
    """Else `--progress=pl` would become `plain`."""
    monkeypatch.setenv("_DIS_COMPLETE", f"{shell}_complete")
    monkeypatch.setenv("COMP_WORDS", "dis list --progress=pl")
    monkeypatch.setenv("COMP_CWORD", "2" if shell == "zsh" else "--progress=pl")
    assert dis().out.replace("\n", ",").startswith("plain,--progress=plain,")


def test_targets_are_offered_after_a_manifest(offer: Offer) -> None:
    assert offer("dis realize a/b.json#wei") == ["plain,a/b.json#weights"]
    assert offer("dis show-derivation b.json#r") == ["plain,b.json#run", "plain,b.json#requests"]
    assert offer("dis build b.json") == ["file,b.json"]


def test_files_of_an_object_are_offered(offer: Offer, realised: Realised) -> None:
    del realised
    assert offer("dis cat first bund") == ["plain,bundle.json"]
    assert "plain,tokens.json" in offer("dis ls first ")
    assert offer("dis cat nothing b") == []


def test_no_store_is_made_for_a_completion(offer: Offer, tmp_path: Path) -> None:
    assert offer("dis cat first b") == []
    assert list(tmp_path.iterdir()) == []


def test_names_of_keys_are_offered(offer: Offer, dis: Dis) -> None:
    assert dis("key", "generate", "laptop").code == 0
    assert offer("dis key show la") == ["plain,laptop"]
    assert offer("dis key show x") == []
    assert offer("dis sign first --key l") == ["plain,laptop"]


def test_codes_of_errors_are_offered_for_help(offer: Offer) -> None:
    assert "plain,E0301" in offer("dis help E03")


def options(group: LazyGroup, path: str) -> Iterator[tuple[str, click.Option]]:
    """Yield each option of each command below a group, with the path of the command."""
    context = click.Context(group)
    for name in group.lazy:
        found = group.get_command(context, name)
        if isinstance(found, LazyGroup):
            yield from options(found, f"{path} {name}")
        elif found is not None:
            yield from ((f"{path} {name}", p) for p in found.params if isinstance(p, click.Option))


def test_every_option_that_takes_a_file_or_a_directory_offers_some(offer: Offer) -> None:
    found = [
        (path, option)
        for path, option in options(program, "dis")
        if option.metavar in {"FILE", "DIR", "PATH", "FILE.svg"}
    ]
    assert len(found) > len(program.lazy)
    silent = [
        f"{path} {option.opts[-1]}"
        for path, option in found
        if offer(f"{path} {option.opts[-1]} x") not in (["file,x"], ["dir,x"])
    ]
    assert silent == []
