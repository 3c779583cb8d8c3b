"""Files of wheels, fetched by pip from an index that is a directory."""

import os
import signal
import subprocess
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from dis_derivations.sources import pip_download, pypi
from dis_derivations.sources.pip_download import (
    ANY_PLATFORM,
    Requirement,
    download_wheel,
    without_credentials,
)
from dis_derivations.sources.pypi import LockedWheel, PypiSource
from dis_derivations.sources.source import WantedFile
from dis_store import Store, WrittenFile
from dis_store.digest import Digest, Sha256
from dis_store.errors import BuildError, DisError, InvalidInputError, MismatchError
from wheels import (
    PACKAGE,
    STEM,
    VERSION,
    use_index,
    wheel_name,
    write_sdist,
    write_wheel,
)

CONFIG = f"{STEM}/config.json"
FILES = {CONFIG: b"{}\n", f"{STEM}/words.txt": b"one\ntwo\n"}
OTHER = Sha256("sha256:" + "0" * 64)


@pytest.fixture
def index(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A directory that pip takes for the only index there is."""
    use_index(monkeypatch, tmp_path / "index")
    return tmp_path / "index"


@pytest.fixture
def store(tmp_path: Path) -> Iterator[Store]:
    with Store.open(tmp_path / "store") as opened:
        yield opened


def fetch(store: Store, source: PypiSource, *files: WantedFile) -> tuple[Digest, list[WrittenFile]]:
    with store.new_tree() as tree:
        written = source.fetch(files or [WantedFile(CONFIG)], tree, lambda: None)
        return tree.register(), written


def refused(store: Store, source: PypiSource, error: type[DisError], *files: WantedFile) -> str:
    with pytest.raises(error) as caught:
        fetch(store, source, *files)
    assert not list((store.path / "tmp").iterdir())
    return f"{caught.value}\n{caught.value.hint}"


def test_files_of_a_wheel_become_files_of_an_object(store: Store, index: Path) -> None:
    write_wheel(index, FILES)
    source = PypiSource(PACKAGE, VERSION)
    digest, written = fetch(store, source, *map(WantedFile, FILES))
    assert [file.path for file in written] == list(FILES)
    assert {path: store.read_bytes(digest, path) for path in FILES} == FILES
    assert not any(file.executable for file in written)
    assert not list((store.path / "tmp").iterdir())


def test_the_wheel_that_came_is_what_a_lock_pins(store: Store, index: Path) -> None:
    wheel = write_wheel(index, FILES)
    source = PypiSource(PACKAGE, VERSION)
    fetch(store, source)
    assert source.wheel == LockedWheel(wheel.name, Sha256.of(wheel.read_bytes()))
    assert LockedWheel.of_lock(source.wheel.to_lock()) == source.wheel


def test_without_a_version_the_newest_is_taken_and_afterwards_the_one_that_is_locked(
    store: Store, index: Path
) -> None:
    write_wheel(index, FILES, version="1.0")
    write_wheel(index, FILES, version="1.10")
    newest = PypiSource(PACKAGE, None)
    fetch(store, newest)
    assert newest.wheel is not None
    assert newest.wheel.version == "1.10"
    write_wheel(index, FILES, version="2.0")
    again = PypiSource(PACKAGE, None, locked=newest.wheel)
    fetch(store, again)
    assert again.wheel == newest.wheel


def test_a_name_that_is_written_otherwise_is_the_same_package(store: Store, index: Path) -> None:
    write_wheel(index, FILES)
    fetch(store, PypiSource("Dis.Test_Model", VERSION))


def test_another_wheel_than_the_locked_one_is_refused(store: Store, index: Path) -> None:
    write_wheel(index, FILES)
    source = PypiSource(PACKAGE, VERSION, locked=LockedWheel(wheel_name(), OTHER))
    said = refused(store, source, MismatchError)
    assert f"wanted {OTHER}" in said
    assert "--update" in said
    fetch(store, PypiSource(PACKAGE, VERSION, locked=LockedWheel(wheel_name(), None)))


def test_another_file_than_the_locked_one_is_refused(store: Store, index: Path) -> None:
    write_wheel(index, FILES)
    said = refused(store, PypiSource(PACKAGE, VERSION), MismatchError, WantedFile(CONFIG, 3, OTHER))
    assert f"{CONFIG} is not the file that was locked" in said


def test_a_file_that_a_wheel_lacks_is_named_with_those_that_it_has(
    store: Store, index: Path
) -> None:
    write_wheel(index, FILES)
    said = refused(store, PypiSource(PACKAGE, VERSION), BuildError, WantedFile("gone.json"))
    assert "has no file gone.json" in said
    assert f"its files are {CONFIG}, {STEM}/words.txt\n" in said


def test_a_version_that_there_is_not_is_refused_in_pips_words(store: Store, index: Path) -> None:
    write_wheel(index, FILES)
    said = refused(store, PypiSource(PACKAGE, "9.9"), BuildError)
    assert f"pip could not fetch {PACKAGE}==9.9 as a wheel" in said
    assert "from versions: 1.2.0" in said


def test_a_source_distribution_is_never_built(store: Store, index: Path, tmp_path: Path) -> None:
    proof = tmp_path / "proof"
    write_sdist(index, f"open({str(proof)!r}, 'w')")
    said = refused(store, PypiSource(PACKAGE, VERSION), BuildError)
    assert "could not fetch" in said
    assert "wheels for every platform" in said
    assert not proof.exists()


def test_settings_that_ask_for_source_distributions_change_nothing(
    store: Store, index: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PIP_NO_BINARY", ":all:")
    write_sdist(index, f"open({str(tmp_path / 'proof')!r}, 'w')", "2.0")
    write_wheel(index, FILES)
    fetch(store, PypiSource(PACKAGE, None))
    assert not (tmp_path / "proof").exists()


def test_a_wheel_for_one_platform_is_not_taken(store: Store, index: Path) -> None:
    write_wheel(index, FILES, tag="py3-none-manylinux_2_17_x86_64")
    refused(store, PypiSource(PACKAGE, VERSION), BuildError)


def test_a_wheel_with_a_name_that_leads_elsewhere_is_refused(
    store: Store, index: Path, tmp_path: Path
) -> None:
    wheel = write_wheel(index, {**FILES, "xx/proof": b"x"})
    wheel.write_bytes(wheel.read_bytes().replace(b"xx/proof", b"../proof"))
    said = refused(store, PypiSource(PACKAGE, VERSION), InvalidInputError)
    assert "it lists '../proof'" in said
    assert not list(tmp_path.rglob("proof"))


def test_a_file_that_runs_code_is_refused(store: Store, index: Path) -> None:
    write_wheel(index, {CONFIG: b'{"auto_map": {"AutoModel": "m.M"}}'})
    assert "import code" in refused(store, PypiSource(PACKAGE, VERSION), InvalidInputError)
    problem = PypiSource(PACKAGE, VERSION).problem("m/pytorch_model.bin")
    assert problem is not None
    assert problem.reason == "unsafe_file"


@pytest.mark.parametrize(
    ("package", "version"),
    [
        ("--index-url=http://evil", "1"),
        ("name @ http://evil", "1"),
        ("name[extra]", "1"),
        ("", "1"),
        (PACKAGE, "1.*"),
        (PACKAGE, ">=1"),
        (PACKAGE, "1; os_name"),
        (PACKAGE, "-1"),
    ],
)
def test_what_is_no_name_or_no_one_version_is_a_problem(package: str, version: str) -> None:
    problem = PypiSource(package, version).problem(CONFIG)
    assert problem is not None
    with pytest.raises(ValueError, match="is not"):
        Requirement(package, version)


def test_a_python_without_pip_is_told(monkeypatch: pytest.MonkeyPatch) -> None:
    assert PypiSource(PACKAGE, VERSION).available() is None
    monkeypatch.setattr(pypi, "has_pip", lambda: False)
    unavailable = PypiSource(PACKAGE, VERSION).available()
    assert unavailable is not None
    assert "has no pip" in unavailable.reason
    assert "ensurepip" in unavailable.reason


def fake_pip(monkeypatch: pytest.MonkeyPatch, program: str) -> None:
    """Let a program run in the place of pip."""
    real = subprocess.Popen

    def popen(argv: list[str], **options: Any) -> Any:
        return real(["/bin/sh", "-c", program, "pip", *argv[1:]], **options)

    monkeypatch.setattr(subprocess, "Popen", popen)


def test_what_pip_says_is_quoted_without_users_and_queries(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    fake_pip(
        monkeypatch,
        "echo Looking in indexes; echo 'ERROR: https://me:secret@host/simple/?token=hidden (403)'; exit 3",
    )
    with pytest.raises(BuildError) as caught:
        download_wheel(Requirement(PACKAGE, VERSION), ANY_PLATFORM, tmp_path, lambda: None)
    assert caught.value.cause == "ERROR: https://****@host/simple/?**** (403)"


def test_a_pip_that_fails_in_silence_is_told(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    fake_pip(monkeypatch, "exit 1")
    with pytest.raises(BuildError, match="does not say why"):
        download_wheel(Requirement(PACKAGE, VERSION), ANY_PLATFORM, tmp_path, lambda: None)


def test_no_address_and_no_secret_is_on_pips_command_line(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PIP_INDEX_URL", "https://me:secret@host/simple")
    fake_pip(monkeypatch, 'echo "$@"; exit 1')
    with pytest.raises(BuildError) as caught:
        download_wheel(Requirement(PACKAGE, VERSION), ANY_PLATFORM, tmp_path, lambda: None)
    said = str(caught.value.cause)
    assert "requirements.txt" in said
    assert "http" not in said
    assert "me:secret" not in said


def test_credentials_are_taken_out_of_any_text() -> None:
    assert without_credentials("a https://u:p@h/x b http://h/?q=1) c") == (
        "a https://****@h/x b http://h/?****) c"
    )
    assert without_credentials("a https://u:p@ss@h/x@1 c") == "a https://****@h/x@1 c"
    assert without_credentials("mail me@host or https://host/simple/") == (
        "mail me@host or https://host/simple/"
    )


@pytest.mark.parametrize("program", ["sleep 60 & sleep 60", "trap '' TERM; sleep 60 & wait"])
def test_an_interruption_ends_pip_and_what_it_started(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, program: str
) -> None:
    monkeypatch.setattr(pip_download, "_SECONDS_TO_END", 0.3)
    fake_pip(monkeypatch, f"echo $$ > {tmp_path}/pid; {program}")
    started = threading.Event()

    def interrupt() -> None:
        if (tmp_path / "pid").exists() and (tmp_path / "pid").read_text():
            started.set()
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        download_wheel(Requirement(PACKAGE, VERSION), ANY_PLATFORM, tmp_path, interrupt)
    assert started.is_set()
    with pytest.raises(ProcessLookupError):
        os.kill(int((tmp_path / "pid").read_text()), signal.SIG_DFL)


def test_a_file_called_pip_in_the_working_directory_is_not_pip(
    store: Store, index: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    write_wheel(index, FILES)
    (tmp_path / "pip.py").write_text(f"open({str(tmp_path / 'proof')!r}, 'w')")
    monkeypatch.chdir(tmp_path)
    fetch(store, PypiSource(PACKAGE, VERSION))
    assert not (tmp_path / "proof").exists()
