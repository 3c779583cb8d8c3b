"""What a call of the command imports: the no-op path is what people run most."""

import subprocess
import tomllib
from importlib.util import find_spec
from pathlib import Path

import pytest

from command_line import ROOT, SHORTER, Dis, Realised
from dis_derivations.version import VERSION
from imported_packages import HEAVY, imported, imported_modules


@pytest.mark.parametrize(
    "argv",
    [
        ["dis_command.main", "--version"],
        ["dis_command", "--version"],
        ["dis_command", "--help"],
        ["dis_command", "realize", "--help"],
    ],
)
def test_version_and_help_import_click_and_nothing_heavy(python: str, argv: list[str]) -> None:
    packages, _ = imported(python, *argv)
    assert "click" in packages
    assert not packages & {*HEAVY, "blake3", "apsw", "rfc8785", "tomllib", "importlib_metadata"}


def test_the_version_is_not_asked_from_the_installed_distribution(python: str) -> None:
    result = subprocess.run(
        [python, "-X", "importtime", "-m", "dis_command", "--version"],
        capture_output=True,
        text=True,
        check=True,
    )
    assert "importlib.metadata" not in result.stderr
    assert result.stdout == f"dis {VERSION}\n"


def test_the_version_is_that_of_the_distribution() -> None:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))["project"]
    assert project["version"] == VERSION


@pytest.mark.parametrize("extra", [[], ["--json"]])
def test_a_realisation_with_nothing_to_do_imports_nothing_heavy(
    python: str, realised: Realised, extra: list[str]
) -> None:
    limits = ["--set", "inference.n_prompts=2", "--set", SHORTER]
    packages, out = imported(
        python, "dis_command", "realize", str(realised.config), *limits, *extra
    )
    assert realised.first in out
    assert Path(realised.first).is_dir()
    assert not packages & {*HEAVY, "rfc8785"}


def test_comparing_equal_results_imports_nothing_that_is_for_differences(
    python: str, own_store: Realised, dis: Dis
) -> None:
    limits = ["--set", "inference.n_prompts=2", "--set", SHORTER]
    reworded = ["--set", "metadata.description=in other words"]
    assert dis("realize", own_store.config, *limits, *reworded, "--name", "reworded").code == 0
    modules, out = imported_modules(python, "dis_command", "diff", "first", "reworded")
    assert "Results: THE SAME" in out
    assert "the runs are described differently" in out
    assert not {name.partition(".")[0] for name in modules} & {*HEAVY, "rfc8785"}
    assert not modules & {"difflib", "secrets", "subprocess"}
    for_differences = {
        "dis_derivations.comparison.causes.request_changes",
        "dis_derivations.comparison.describing",
        "dis_derivations.comparison.divergence",
        "dis_derivations.comparison.render_divergence",
        "dis_derivations.comparison.report_json",
        "dis_derivations.comparison.tensors.observable",
        "dis_derivations.comparison.token_text",
        "dis_derivations.comparison.weights.changes",
        "dis_derivations.engines.registry",
    }
    assert all(map(find_spec, for_differences))
    assert not modules & for_differences
