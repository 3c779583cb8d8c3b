"""An interpreter that is started with an environment imports from there and from nowhere else."""

import json
import subprocess
import sys
import venv
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from dis_derivations.environments.interpreter import find_interpreter, probe_interpreter
from dis_derivations.environments.launch import environment_command
from dis_store.errors import InvalidInputError, UnfitEnvironmentError
from package_wheels import write_package

Unpack = Callable[..., Path]
PYTHON = Path(sys.executable)
SERIES = f"{sys.version_info[0]}.{sys.version_info[1]}"
PROGRAM = """
import json, multiprocessing, os, subprocess, sys

def seen():
    import one
    found = {"one": one.__file__, "path": sys.path}
    try:
        import pytest
        found["leak"] = pytest.__file__
    except ImportError:
        found["leak"] = None
    return found

def child(queue):
    queue.put(seen())

if __name__ == "__main__":
    context = multiprocessing.get_context("spawn")
    queue = context.Queue()
    process = context.Process(target=child, args=(queue,))
    process.start()
    spawned = queue.get()
    process.join()
    code = "import json, sys, one; print(json.dumps([one.__file__, sys.path, 'pytest' in sys.modules]))"
    plain = subprocess.run([sys.executable, "-c", code], capture_output=True, check=True, text=True)
    print(json.dumps({
        "own": seen(), "spawned": spawned, "plain": json.loads(plain.stdout), "argv": sys.argv,
        "hash_seed": os.environ.get("PYTHONHASHSEED"), "variables": sorted(os.environ),
    }))
"""


def run(argv: list[str], variables: dict[str, str], **options: Any) -> str:
    done = subprocess.run(
        argv, env=variables, capture_output=True, check=True, text=True, **options
    )
    return str(done.stdout)


@pytest.fixture
def environment(unpack: Unpack, tmp_path: Path) -> Path:
    files = {
        "one.py": b"",
        "deep/inner/two.py": b"NAME = 'two'\n",
        "one.pth": b"deep/inner\nimport gone\n",
    }
    return unpack(write_package(tmp_path, "one", files=files), python=SERIES)


def test_the_program_and_the_processes_that_it_starts_see_one_environment_alone(
    environment: Path, tmp_path: Path
) -> None:
    program = tmp_path / "program.py"
    program.write_text(PROGRAM)
    argv, variables = environment_command(environment, PYTHON, [str(program), "a", "-m"])
    said = json.loads(run(argv, variables))
    top = str(environment / "site-packages")
    for found in (said["own"], said["spawned"]):
        assert found["one"] == f"{top}/one.py"
        assert found["leak"] is None
        assert found["path"][-2:] == [top, f"{top}/deep/inner"]
        assert not any("site-packages" in place for place in found["path"][:-2])
    assert said["plain"][0] == f"{top}/one.py"
    assert said["plain"][1] == said["own"]["path"]
    assert said["argv"] == [str(program), "a", "-m"]
    assert not list(environment.rglob("__pycache__"))


def test_a_module_runs_by_its_name(unpack: Unpack, tmp_path: Path) -> None:
    code = b"import sys\nif __name__ == '__main__':\n    print(sys.argv[1:], __spec__.name)\n"
    environment = unpack(write_package(tmp_path, "one", files={"one.py": code}), python=SERIES)
    argv, variables = environment_command(environment, PYTHON, ["-m", "one", "x"])
    assert run(argv, variables, cwd=tmp_path) == "['x'] one\n"


def test_variables_that_steer_python_are_not_inherited(
    environment: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in ("PYTHONPATH", "PYTHONSTARTUP", "PYTHONHASHSEED", "VIRTUAL_ENV", "PIP_INDEX_URL"):
        monkeypatch.setenv(name, "inherited")
    _, variables = environment_command(environment, PYTHON, ["-m", "one"])
    assert "inherited" not in variables.values()
    given = {"PYTHONHASHSEED": "7", "PYTHONHOME": "/x", "HOME": "/h"}
    _, variables = environment_command(environment, PYTHON, ["-m", "one"], inherited=given)
    assert variables["PYTHONHASHSEED"] == "7"
    assert variables["HOME"] == "/h"
    assert "PYTHONHOME" not in variables


def test_the_working_directory_is_not_imported_from(environment: Path, tmp_path: Path) -> None:
    (tmp_path / "json.py").write_text("raise SystemExit('not the standard library')")
    (tmp_path / "one.py").write_text("raise SystemExit('not the environment')")
    program = tmp_path / "program.py"
    program.write_text("import json, one; print(one.__file__)")
    argv, variables = environment_command(environment, PYTHON, [str(program)])
    assert run(argv, variables, cwd=tmp_path).strip().startswith(str(environment))


def test_an_interpreter_that_does_not_fit_is_refused_with_what_does_not(
    unpack: Unpack, tmp_path: Path
) -> None:
    other = unpack(write_package(tmp_path, "one"), python="3.8")
    with pytest.raises(UnfitEnvironmentError, match=r"it was made for Python 3\.8"):
        environment_command(other, PYTHON, ["-m", "one"])
    wheel = write_package(tmp_path, "two", tag="cp38-cp38-win_amd64")
    with pytest.raises(
        UnfitEnvironmentError, match=r"the wheel two-1.0\S+ is for cp38-cp38-win_amd64"
    ) as caught:
        environment_command(unpack(wheel, python=SERIES), PYTHON, ["-m", "two"])
    assert caught.value.exit_code == 5
    wheel = write_package(tmp_path, "three", python="<3.4")
    with pytest.raises(UnfitEnvironmentError, match=r"three 1.0 wants Python <3.4"):
        environment_command(unpack(wheel, python=SERIES), PYTHON, ["-m", "three"])


def test_what_is_no_environment_or_no_program_is_refused(environment: Path, tmp_path: Path) -> None:
    with pytest.raises(InvalidInputError, match="is not a Python environment"):
        environment_command(tmp_path, PYTHON, ["-m", "one"])
    for nothing in ([], ["-m"]):
        with pytest.raises(InvalidInputError, match="no module or program"):
            environment_command(environment, PYTHON, nothing)


def test_what_is_no_python_is_refused(tmp_path: Path) -> None:
    with pytest.raises(UnfitEnvironmentError, match="there is no Python at"):
        probe_interpreter(tmp_path / "gone")
    program = tmp_path / "python"
    program.write_text("#!/bin/sh\necho hello\n")
    program.chmod(0o755)
    with pytest.raises(UnfitEnvironmentError, match="does not say what Python it is"):
        probe_interpreter(program)


def test_an_interpreter_says_what_it_is() -> None:
    found = probe_interpreter(PYTHON)
    assert found.version == ".".join(map(str, sys.version_info[:3]))
    assert found.facts["python"] == f"{sys.implementation.name} {found.version}"
    assert "py3-none-any" in found.tags
    assert found.sha256.startswith("sha256:")
    assert find_interpreter(SERIES).version == found.version
    with pytest.raises(UnfitEnvironmentError, match=r"there is no Python 3.99 on this machine"):
        find_interpreter("3.99")


def test_code_in_path_files_of_the_interpreters_own_packages_does_not_run(
    environment: Path, tmp_path: Path
) -> None:
    venv.create(tmp_path / "venv", symlinks=True, with_pip=False)
    (top,) = (tmp_path / "venv/lib").glob("*/site-packages")
    (top / "other.pth").write_text("import sys; sys.stdout.write('executed')\n")
    program = tmp_path / "program.py"
    program.write_text("import one")
    argv, variables = environment_command(environment, tmp_path / "venv/bin/python", [str(program)])
    assert run(argv, variables) == ""
