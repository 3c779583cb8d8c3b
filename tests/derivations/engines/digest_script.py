"""Prints what the reference engine makes of models on this process's BLAS and CPU features.

Usage: python digest_script.py DIRECTORY, which has one folder a model. The environment chooses
kernel, threads, features.
"""

import json
import sys
from pathlib import Path

from checkpoints import files_of
from dis_derivations.engines.protocol import Batching, Request
from dis_derivations.engines.reference.engine import open_reference_engine
from dis_derivations.engines.reference.machine import describe_machine
from engine_runs import RecordingSink, digest_by_request, greedy_request, sampled_request

LENGTHS = (1, 2, 17, 1100)


def prompt(length: int) -> list[int]:
    """Return a prompt; one of those asked for is longer than a block of keys."""
    return [(5 * i * i + 3 * i + length) % 256 for i in range(length)]


def requests() -> list[Request]:
    """Return greedy requests of several lengths, and one whose tokens are chosen by chance."""
    greedy = [greedy_request(f"r{length}", prompt(length)) for length in LENGTHS]
    sampled = sampled_request("s5", prompt(5), temperature=0.8, top_p=0.9, top_k=40, seed=7)
    return [*greedy, sampled]


def digests(directory: Path) -> dict[str, str]:
    """Return the digest of each request to the model in a directory."""
    sink = RecordingSink()
    engine = open_reference_engine(files_of(directory))
    batch = requests()
    sequences = engine.generate(batch, Batching(len(batch), 600), sink, lambda _progress: None)
    return digest_by_request(sequences, sink)


def main() -> None:
    """Run the requests, and print kernel, threads, features, digests."""
    machine = describe_machine()
    report = {
        "blas": machine["blas"],
        "cpu_features": machine["cpu_features"],
        "digests": {path.name: digests(path) for path in sorted(Path(sys.argv[1]).iterdir())},
    }
    print(json.dumps(report))  # noqa: T201


if __name__ == "__main__":
    main()
