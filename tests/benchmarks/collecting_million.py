"""Garbage collection of a million objects: how time and memory grow. It takes most of an hour on a slow disk.

`DIS_BENCH_OBJECTS` in the environment says how many objects, where a million are too many.
"""

import os
from pathlib import Path

from collecting import collect, fill
from stopwatch import Comparison, Contender

COUNT = int(os.environ.get("DIS_BENCH_OBJECTS", "1000000"))


def comparisons(place: Path) -> list[Comparison]:
    """Return the measurement, which has no peer; the store is below `place`."""
    store = place / "store"
    peaks: list[int] = []
    return [
        Comparison(
            f"Collect {COUNT:,} dead objects, for each object",
            (
                Contender(
                    "dis gc", lambda: peaks.append(collect(store)), lambda: fill(store, COUNT)
                ),
            ),
            (),
            rounds=1,
            units={"dis gc": COUNT},
            remark=lambda: f"At most {max(peaks) / 1e6:.0f} MB of memory were in use by `dis gc`.",
        )
    ]
