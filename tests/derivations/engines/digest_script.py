"""Prints what the reference engine makes of a model on this process's BLAS and CPU features.

Usage: python digest_script.py MODEL_DIRECTORY. The environment chooses kernel, threads, features.
"""

import json
import sys
from pathlib import Path

from checkpoints import files_of
from dis_derivations.engines.protocol import Batching, Request
from dis_derivations.engines.reference.engine import open_reference_engine
from dis_derivations.engines.reference.machine import describe_machine
from engine_runs import RecordingSink, digest_by_request, greedy_request

LENGTHS = (1, 2, 17, 1100)


def requests() -> list[Request]:
    """Return prompts of several lengths, one longer than a block of keys."""
    return [
        greedy_request(f"r{length}", [(5 * i * i + 3 * i + length) % 256 for i in range(length)])
        for length in LENGTHS
    ]


def main() -> None:
    """Run the requests, and print kernel, threads, features, digests."""
    sink = RecordingSink()
    engine = open_reference_engine(files_of(Path(sys.argv[1])))
    batch = requests()
    sequences = engine.generate(batch, Batching(len(batch), 600), sink, lambda _progress: None)
    machine = describe_machine()
    report = {
        "blas": machine["blas"],
        "cpu_features": machine["cpu_features"],
        "digests": digest_by_request(sequences, sink),
    }
    print(json.dumps(report))  # noqa: T201


if __name__ == "__main__":
    main()
