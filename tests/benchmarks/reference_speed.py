"""Measures the reference engine on a random model: prints the seconds of one step.

Usage: PYTHONPATH=store:derivations:tests/support python tests/benchmarks/reference_speed.py SIZE WHAT,
where SIZE is quickstart or 135M, and WHAT the number of sequences that decode side by side, or `prompt` for a prompt of
512 tokens. `make bench GROUPS=generating` compares it with transformers_speed.py. With CPU_TIME=1 in the environment it
counts processor time, which a busy machine disturbs less; give it one thread then.
"""

import os
import statistics
import sys
import tempfile
import time
from itertools import pairwise
from pathlib import Path

from checkpoints import CheckpointShape, write_checkpoint
from dis_derivations.engines.protocol import Batching
from dis_derivations.engines.reference.engine import ReferenceEngine, open_reference_engine
from engine_runs import RecordingSink, greedy_request

SIZES = {
    "quickstart": CheckpointShape(
        vocabulary=1536, hidden=128, intermediate=352, layers=4, context=2048
    ),
    "135M": CheckpointShape(
        vocabulary=49152,
        hidden=576,
        intermediate=1536,
        layers=30,
        queries=9,
        keys=3,
        context=2048,
        tied=True,
    ),
}
STEPS = {"quickstart": 200, "135M": 20}


def clock() -> float:
    """Return seconds of processor or wall time."""
    return time.process_time() if os.environ.get("CPU_TIME") else time.perf_counter()


def step_seconds(engine: ReferenceEngine, prompt: int, steps: int, batch: int) -> list[float]:
    """Return how long each step of a generation took, the prompt's first."""
    requests = [
        greedy_request(f"r{n}", [(7 * i * i + n) % 250 for i in range(prompt)], max_tokens=steps)
        for n in range(batch)
    ]
    times = [clock()]
    sink = RecordingSink(())
    engine.generate(requests, Batching(batch), sink, lambda _progress: times.append(clock()))
    return [after - before for before, after in pairwise(times)]


def main() -> None:
    """Measure one size."""
    size, what = sys.argv[1:]
    with tempfile.TemporaryDirectory() as directory:
        engine = open_reference_engine(write_checkpoint(Path(directory), SIZES[size]))
        step_seconds(engine, 4, 2, 1)
        if what == "prompt":
            seconds = [step_seconds(engine, 512, 1, 1)[0] for _ in range(3)]
        else:
            seconds = step_seconds(engine, 16, STEPS[size] + 1, int(what))[1:]
    print(statistics.median(seconds))  # noqa: T201


if __name__ == "__main__":
    main()
