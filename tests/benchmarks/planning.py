"""A graph of 100,000 derivations: compiled, hashed and looked up in an empty store, with nothing built."""

import json
import subprocess
import sys
from pathlib import Path

from adding import compiled_environment
from stopwatch import Comparison, Contender

COUNT = 100_000
# Each derivation but the first few depends on so many before it.
WIDTH = 10


def comparisons(place: Path) -> list[Comparison]:
    """Return the comparison; the store is below `place`. There is no peer: it publishes what a derivation costs."""
    peaks: list[float] = []

    def plan() -> None:
        environment = compiled_environment() | {"PYTHONPATH": ":".join(sys.path)}
        done = subprocess.run(
            [sys.executable, __file__, str(place / "store")],
            env=environment,
            capture_output=True,
            text=True,
            check=True,
        )
        peaks.append(json.loads(done.stdout)["megabytes"])

    return [
        Comparison(
            f"Plan {COUNT:,} derivations, for each",
            (Contender("dis", plan),),
            (),
            rounds=3,
            units={"dis": COUNT},
            remark=lambda: f"At most {max(peaks):.0f} MB of memory were in use.",
        )
    ]


def plan_all(path: Path) -> None:
    """Compile the graph and ask what of it must be built."""
    from building import NoSources, Writer, derivation_of
    from dis_derivations.graph.graph import graph_of
    from dis_derivations.realisation.realiser import Realiser, Surroundings
    from dis_store import Store

    made = [derivation_of("d0", {})]
    while len(made) < COUNT:
        inputs = {each.name: each for each in made[-WIDTH::3]}
        made.append(derivation_of(f"d{len(made)}", inputs))
    graph = graph_of(made, {"top": made[-1].digest})
    with Store.open(path) as store:
        realiser = Realiser(store, graph, {"writer": Writer()}, Surroundings(NoSources(), {}, {}))
        assert len(realiser.missing(made[-1].digest)) == COUNT


if __name__ == "__main__":
    import resource

    plan_all(Path(sys.argv[1]))
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1000
    print(json.dumps({"megabytes": peak}))  # noqa: T201
