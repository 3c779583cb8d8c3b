"""Measures dis beside its peers: `make bench`, or `python tests/benchmarks/bench.py [GROUP…]`.

Prints every run and all ratios, and writes `build/benchmarks/GROUP.json` and the tables of docs/performance.md. See
README.md beside this file for what must be installed.
"""

import json
import os
import platform
import sys
import tempfile
from dataclasses import asdict
from importlib import import_module
from pathlib import Path

from adding import remove
from performance_page import write_table
from stopwatch import Outcome, measure

ROOT = Path(__file__).parents[2]
GROUPS = (
    "starting",
    "adding",
    "downloading",
    "verifying",
    "tensors",
    "many_files",
    "building",
    "planning",
    "collecting",
    "generating",
    "comparing",
    "distributing",
)


def main() -> None:
    """Measure the groups that are named, or all but `collecting-million`, which takes long."""
    for group in sys.argv[1:] or GROUPS:
        place = Path(tempfile.mkdtemp(prefix="dis-bench-"))
        try:
            comparisons = import_module(group.replace("-", "_")).comparisons(place)
            outcomes = [measure(each, say=_say) for each in comparisons]
        finally:
            remove(place)
        for outcome in outcomes:
            _print_ratios(outcome)
        _write_json(group, outcomes)
        write_table(ROOT / "docs" / "performance.md", group, outcomes)


def _say(text: str) -> None:
    sys.stdout.write(f"{text}\n")
    sys.stdout.flush()


def _print_ratios(outcome: Outcome) -> None:
    for target in outcome.comparison.targets:
        verdict = "met" if outcome.met(target) else "missed"
        _say(
            f"{outcome.comparison.title}: {target.name} / {target.peer} ="
            f" {outcome.factor(target):.3f}, at most {target.factor:.3f} asked for: {verdict}"
        )
    if remark := outcome.comparison.remark():
        _say(remark)


def _write_json(group: str, outcomes: list[Outcome]) -> None:
    directory = ROOT / "build" / "benchmarks"
    directory.mkdir(parents=True, exist_ok=True)
    document = {
        "schema_version": 1,
        "machine": machine(),
        "comparisons": [
            {
                "title": outcome.comparison.title,
                "seconds": {name: each.seconds for name, each in outcome.timings.items()},
                "targets": [
                    {**asdict(target), "found": outcome.factor(target), "met": outcome.met(target)}
                    for target in outcome.comparison.targets
                ],
                "remark": outcome.comparison.remark(),
            }
            for outcome in outcomes
        ],
    }
    (directory / f"{group}.json").write_text(json.dumps(document, indent=1) + "\n")


def machine() -> dict[str, object]:
    """Describe what was measured on, without a name."""
    return {
        "processors": os.cpu_count(),
        "architecture": platform.machine(),
        "kernel": platform.release().partition("-")[0],
        "python": platform.python_version(),
        "load": round(os.getloadavg()[0], 1),
    }


if __name__ == "__main__":
    main()
