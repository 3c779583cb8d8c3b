"""The reference engine beside transformers in float32: one step of decoding, and a prompt, on random models."""

import os
import subprocess
import sys
from pathlib import Path

from adding import compiled_environment
from stopwatch import Comparison, Contender, Target

HERE = Path(__file__).parent
ORACLE = HERE.parents[1] / ".venv-oracle" / "bin" / "python"
REFERENCE, TRANSFORMERS = "reference engine", "transformers, float32"
# What is asked for: no slower at quickstart size, twice the time at 135 million parameters, for one sequence.
_FACTORS = {("quickstart", "1"): 1.0, ("135M", "1"): 2.0}
_WORK = {"quickstart": ("1", "8", "32", "prompt"), "135M": ("1", "8")}
_NAMES = {"quickstart": "1.4 million parameters", "135M": "135 million parameters"}


def comparisons(place: Path) -> list[Comparison]:
    """Return the comparisons; nothing is written to `place`."""
    del place
    if not ORACLE.exists():
        raise RuntimeError("transformers is not installed: make oracle")
    return [_comparison(size, what) for size, all_ in _WORK.items() for what in all_]


def _comparison(size: str, what: str) -> Comparison:
    work = "A prompt of 512 tokens" if what == "prompt" else f"One token for {what} at a time"
    factor = _FACTORS.get((size, what))
    return Comparison(
        f"{work.replace('for 1 at a time', 'of one sequence')}, {_NAMES[size]}",
        (
            Contender(TRANSFORMERS, lambda: _transformers(size, what), tells=True),
            Contender(REFERENCE, lambda: _reference(size, what), tells=True),
        ),
        () if factor is None else (Target(REFERENCE, TRANSFORMERS, factor),),
        rounds=3,
    )


def _reference(size: str, what: str) -> float:
    path = {"PYTHONPATH": ":".join(sys.path)}
    return _told([sys.executable, str(HERE / "reference_speed.py"), size, what], path)


def _transformers(size: str, what: str) -> float:
    return _told([str(ORACLE), str(HERE / "transformers_speed.py"), size, what], {})


def _told(argv: list[str], environment: dict[str, str]) -> float:
    # Settings for older BLAS libraries would slow numpy alone.
    dropped = ("OPENBLAS_CORETYPE", "OPENBLAS_L2_SIZE")
    kept = {name: value for name, value in compiled_environment().items() if name not in dropped}
    done = subprocess.run(
        argv, env={**kept, **environment}, capture_output=True, text=True, check=False
    )
    if done.returncode != 0:
        raise RuntimeError(f"{os.fspath(argv[1])} failed: {done.stderr[-2000:]}")
    return float(done.stdout)
