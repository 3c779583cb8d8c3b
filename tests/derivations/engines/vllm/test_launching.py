"""How vLLM's worker is started: from an interpreter's own packages, and from an environment of the store."""

import json
import subprocess
import sys
from pathlib import Path

from dis_derivations.engines.child.launching import Surroundings, launch, lay_out
from dis_derivations.engines.vllm.opening import PROGRAM
from dis_derivations.environments.document import DOCUMENT, SITE_PACKAGES, EnvironmentDocument

SPEC = {"variables": {"PYTHONHASHSEED": "7", "TZ": "UTC"}}
# What a worker would find, told by a program in the worker's place.
PROBE = """
import json, os, sys
try:
    import marker
    found = marker.NAME
except ImportError:
    found = None
print(json.dumps({"marker": found, "path": sys.path, "variables": dict(os.environ), "hash": hash("a")}))
"""


def surroundings(environment: Path | None) -> Surroundings:
    return Surroundings(
        interpreter=Path(sys.executable),
        environment=environment,
        platform={"class": "cpu", "facts": {"cpu": {"threads": 3}}},
        patience=1,
        check=lambda: None,
        note=lambda _: None,
        keep_output=lambda _: None,
    )


def told(directory: Path, environment: Path | None) -> dict[str, object]:
    """Return what a program in the worker's place finds."""
    (directory / "config.json").write_text("{}", "utf-8")
    model = lay_out(directory / "work", PROGRAM, {"config.json": directory / "config.json"})
    assert (model / "config.json").read_text("utf-8") == "{}"
    started = launch(directory / "work", PROGRAM, SPEC, surroundings(environment))
    assert {each.name for each in started.program.parent.iterdir()} == {
        "worker.py", "frames.py", "worker_side.py",
    }  # fmt: skip
    started.program.write_text(PROBE, "utf-8")
    process = subprocess.run(
        [*started.command, str(started.program)],
        env=dict(started.environment),
        cwd=started.directory,
        capture_output=True,
        text=True,
        check=True,
    )
    found: dict[str, object] = json.loads(process.stdout)
    return found


def test_an_interpreter_has_its_own_packages_and_the_variables_of_the_closure(
    tmp_path: Path,
) -> None:
    found = told(tmp_path, None)
    variables = found["variables"]
    assert isinstance(variables, dict)
    assert variables["PYTHONHASHSEED"] == "7"
    # Threads that the manifest does not speak of are those of the key.
    assert variables["OMP_NUM_THREADS"] == "3"
    assert found["marker"] is None


def test_an_environment_of_the_store_is_all_that_is_imported_from(tmp_path: Path) -> None:
    environment = tmp_path / "environment"
    (environment / SITE_PACKAGES).mkdir(parents=True)
    (environment / SITE_PACKAGES / "marker.py").write_text("NAME = 'ours'\n", "utf-8")
    document = EnvironmentDocument(python="3.11", packages=(), import_paths=(), ignored=())
    (environment / DOCUMENT).write_text(json.dumps(document.to_json()), "utf-8")
    found = told(tmp_path, environment)
    assert found["marker"] == "ours"
    path, variables = found["path"], found["variables"]
    assert isinstance(path, list)
    assert isinstance(variables, dict)
    assert str(environment / SITE_PACKAGES) in path
    assert not [each for each in path if "site-packages" in each and str(environment) not in each]
    assert variables["PYTHONHASHSEED"] == "7"
    assert found["hash"] == told_hash()


def told_hash() -> int:
    """Return the hash that the variable of the closure leads to."""
    process = subprocess.run(
        [sys.executable, "-c", "print(hash('a'))"],
        env={"PYTHONHASHSEED": "7"},
        capture_output=True,
        text=True,
        check=True,
    )
    return int(process.stdout)
