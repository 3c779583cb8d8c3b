"""What a process of the command imports."""

import re
import subprocess

HEAVY = (
    "pydantic", "huggingface_hub", "docker", "oras", "numpy", "rich", "jinja2", "tokenizers", "cryptography",
)  # fmt: skip
_IMPORT = re.compile(r"^import time:\s+\d+ \|\s+\d+ \|\s*(\S+)$", re.MULTILINE)


def imported(python: str, *argv: str) -> tuple[set[str], str]:
    """Return the top-level packages that a call imports, and its stdout."""
    modules, out = imported_modules(python, *argv)
    return {name.partition(".")[0] for name in modules}, out


def imported_modules(python: str, *argv: str) -> tuple[set[str], str]:
    """Return all modules that a call imports, by their full names, and its stdout."""
    result = subprocess.run(
        [python, "-X", "importtime", "-m", *argv], capture_output=True, text=True, check=True
    )
    return set(_IMPORT.findall(result.stderr)), result.stdout
