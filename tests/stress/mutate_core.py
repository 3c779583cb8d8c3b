"""Changes the store's core one small thing at a time, and looks whether a test of the store notices.

Usage: mutate_core.py [--seconds N] [--again] [--place DIR] [FILE...], a file as `roots.py` or `integrity/inspection.py`

mutmut makes the mutants, finds the tests that come by each function, and runs those until one fails: first the tests
of the file itself, then the fastest, for N seconds in all. What was found stays in DIR: a later call tries the mutants
of functions that changed since, one that names files all of theirs, and one with `--again` what survived or was not
tried. Prints every survivor (`mutmut show NAME` in DIR shows it) and the score of each file, and exits with 1 if fewer
than 85 % were killed. Wants mutmut: `make mutation` makes an environment with it.
"""

import argparse
import os
import shutil
import sys
import tempfile
from collections.abc import Mapping
from pathlib import Path

from hypothesis import Phase, settings

ROOT = Path(__file__).parents[2]
WANTED_PERCENT = 85
# What decides whether data is right or lost.
CORE = (
    "digest", "canonical_json", "strict_json", "path_rules", "tree", "closures", "durability", "sharded",
    "records", "roots", "temp_roots", "locks", "realisations",
    "garbage_collection/marking", "garbage_collection/collection", "garbage_collection/deletion",
    "garbage_collection/garbage", "garbage_collection/trash", "garbage_collection/orphans",
    "garbage_collection/retention",
    "writing/registration", "writing/tree_directory", "writing/index_rows",
    "integrity/inspection", "integrity/verification", "integrity/quarantine",
    "tensors/safetensors_header", "tensors/tensor_scan",
)  # fmt: skip
_COPIED = (
    "store/dis_store", "derivations/dis_derivations", "cli/dis_command", "tests", "configs", "docs",
)  # fmt: skip
# They run programs or the suite once more, as other users or on other disks, where no mutant comes by.
_NOT_RUN = (
    "test_permissions.py", "test_older_stores.py", "test_audit_script.py", "test_ways_in.py",
)  # fmt: skip
_SETTINGS = """
[tool.pytest.ini_options]
pythonpath = ["tests/support"]
addopts = ["--strict-markers", "--import-mode=importlib", "-p", "no:cacheprovider", "--hypothesis-profile=mutation"]
timeout = 30
tmp_path_retention_policy = "none"
filterwarnings = ["error", "ignore::pytest.PytestAssertRewriteWarning"]
markers = ["oracle: -", "slow: -", "stress: -"]

[tool.mutmut]
source_paths = ["dis_store"]
also_copy = ["dis_derivations", "dis_command", "configs", "docs"]
only_mutate = [{files}]
pytest_add_cli_args = ["-m", "not slow and not stress and not oracle"]
pytest_add_cli_args_test_selection = [
    "tests/store", "tests/security/test_json_differential.py", "tests/derivations/artifacts/test_safetensors_header.py",
]
timeout_multiplier = 3.0
timeout_constant = 3.0
track_dependencies = false
use_git_change_detection = false
"""
# A test that hangs, and a process that dies, has noticed.
_KILLED = frozenset({"killed", "timeout", "segfault"})


def main() -> int:
    """Lay the sources out, try the mutants, tell the score of each file."""
    options = _options()
    _lay_out(options.place)
    os.chdir(options.place)
    # Programs that tests start must find the mutants, too.
    os.environ["PYTHONPATH"] = str(options.place / "mutants")
    # The same examples every time, and no time for making a failing one smaller.
    phases = [Phase.explicit, Phase.generate]
    settings.register_profile(
        "mutation", deadline=None, database=None, derandomize=True, phases=phases
    )
    # It reads its settings, which lie here now, when it is imported.
    from mutation_rules import extend_mutmut, try_mutants, verdicts

    extend_mutmut(options.seconds)
    files = options.files or CORE
    names = [f"dis_store.{each.replace('/', '.')}.x*" for each in options.files]
    if options.again:
        found = {name: status for each in files for name, status in verdicts(each).items()}
        names = [name for name, status in found.items() if status not in _KILLED]
    # Nobody cuts the power here, so that waiting for a disk would only cost time.
    memory = Path("/dev/shm")  # noqa: S108 - a directory of one's own is made there
    with tempfile.TemporaryDirectory(dir=memory if memory.is_dir() else None) as directory:
        os.environ["TMPDIR"] = tempfile.tempdir = directory
        try_mutants(names)
    return _report({each: verdicts(each) for each in files})


def _options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--seconds", type=float, default=4)
    parser.add_argument("--again", action="store_true")
    parser.add_argument("--place", type=Path, default=ROOT / "build" / "mutation")
    parser.add_argument("files", nargs="*", type=lambda text: text.removesuffix(".py"))
    return parser.parse_args()


def _lay_out(place: Path) -> None:
    """Lay the packages side by side: mutmut takes the name of a module from the place of its file."""
    for source in _COPIED:
        target = place / Path(source).name
        shutil.rmtree(target, ignore_errors=True)
        shutil.copytree(ROOT / source, target, ignore=shutil.ignore_patterns("__pycache__"))
    for name in _NOT_RUN:
        (place / "tests" / "store" / name).unlink()
    shutil.rmtree(place / "mutants" / "tests", ignore_errors=True)
    files = ", ".join(f'"dis_store/{each}.py"' for each in CORE)
    (place / "pyproject.toml").write_text(_SETTINGS.format(files=files), "utf-8")


def _report(found: Mapping[str, Mapping[str, str]]) -> int:
    all_killed = all_tried = 0
    for file, statuses in found.items():
        tried = {name: each for name, each in statuses.items() if each != "not checked"}
        survivors = {name: each for name, each in tried.items() if each not in _KILLED}
        killed = len(tried) - len(survivors)
        all_killed, all_tried = all_killed + killed, all_tried + len(tried)
        _tell(f"{file}.py: {killed} of {len(tried)} killed")
        for name, status in survivors.items():
            _tell(f"    {status}: {name}")
    percent = 100 * all_killed / max(all_tried, 1)
    _tell(f"{all_killed} of {all_tried} killed, {percent:.1f} %")
    return 0 if percent >= WANTED_PERCENT else 1


def _tell(text: str) -> None:
    sys.stdout.write(f"{text}\n")


if __name__ == "__main__":
    sys.exit(main())
