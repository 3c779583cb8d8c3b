"""The oracle of the store's tests: the audit script, run as a stranger would run it."""

import importlib.util
import subprocess
import sys
from functools import cache
from pathlib import Path
from typing import Any

_SCRIPT = Path(__file__).parents[1] / "store" / "audit_script.py"


def audit(store: Path, *, orphans_allowed: bool = False) -> list[str]:
    """Return what is wrong with a store; nobody may be writing to it."""
    options = ["--allow-orphans"] if orphans_allowed else []
    command = [sys.executable, str(_SCRIPT), str(store), *options]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode in (0, 1), done.stderr
    assert not done.stderr, done.stderr
    problems = done.stdout.splitlines()
    return [problem for problem in problems if problem]


def problems(store: Path) -> list[str]:
    """Return what is wrong with a store, found in this process."""
    audited = _module().Audit(store)
    audited.run()
    return [*audited.problems, *audited.orphans]


@cache
def _module() -> Any:
    spec = importlib.util.spec_from_file_location("audit_script", _SCRIPT)
    assert spec is not None, _SCRIPT
    assert spec.loader is not None, _SCRIPT
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module
