"""Random graphs of objects, builds and roots, as strategies, and ways to make stores of them."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from hypothesis import strategies

from builds import build_of, key_of
from dis_store import Digest, Input, Root, Store
from trees import Blob, write_tree

_CONTENTS = 5


@dataclass(frozen=True)
class GraphRoot:
    """A root: the number of its object, of its build if it has one, and whether dis made it."""

    object: int
    build: int | None
    automatic: bool


@dataclass(frozen=True)
class GraphBuild:
    """A build: the numbers of the object that came out, of its log, of the inputs and of the builds that made these."""

    output: int
    log: int
    inputs: Sequence[tuple[int, int | None]]


@dataclass(frozen=True)
class StoreGraph:
    """Objects by number, each with the numbers of its contents and of earlier objects that it refers to."""

    contents: Sequence[frozenset[int]]
    references: Sequence[frozenset[int]]
    builds: Sequence[GraphBuild]
    roots: Sequence[GraphRoot]


@strategies.composite
def graphs(draw: strategies.DrawFn) -> StoreGraph:
    """Draw a graph in which objects share contents and references, and roots share objects."""
    count = draw(strategies.integers(2, 7))
    number = strategies.integers(0, count - 1)
    contents = [
        draw(strategies.frozensets(strategies.integers(0, _CONTENTS), min_size=1, max_size=2))
        for _ in range(count)
    ]
    references = [
        draw(strategies.frozensets(strategies.integers(0, each - 1), max_size=2))
        if each
        else frozenset()
        for each in range(count)
    ]
    builds: list[GraphBuild] = []
    for _ in range(draw(strategies.integers(0, 3))):
        earlier = strategies.integers(0, len(builds) - 1) if builds else strategies.none()
        inputs = draw(
            strategies.lists(strategies.tuples(number, strategies.none() | earlier), max_size=2)
        )
        builds.append(GraphBuild(draw(number), draw(number), tuple(inputs)))
    build = (
        strategies.none() | strategies.integers(0, len(builds) - 1) if builds else strategies.none()
    )
    roots = draw(
        strategies.lists(
            strategies.builds(GraphRoot, number, build, strategies.booleans()), max_size=4
        )
    )
    return StoreGraph(contents, references, builds, roots)


def make(graph: StoreGraph, place: Path) -> Mapping[str, bool]:
    """Make a store of a graph; no process holds any of it.

    Returns:
        The names of the roots, least recently used first, and whether each is automatic.
    """
    with Store.open(place) as store:
        digests: list[Digest] = []
        for number, contents in enumerate(graph.contents):
            files = {f"file{each}": Blob(b"%d" % each * 10**each) for each in contents}
            # Each object is another one, and some of its bytes are its own.
            files["own"] = Blob(b"own %d" % number)
            references = {f"ref{each}": (digests[each], None) for each in graph.references[number]}
            digests.append(write_tree(store, files, references))
        for number, build in enumerate(graph.builds):
            inputs = {
                f"input{position}": Input(
                    digests[source], None if made_by is None else key_of(str(made_by))
                )
                for position, (source, made_by) in enumerate(build.inputs)
            }
            outputs = {"out": digests[build.output], "log": digests[build.log]}
            store.add_realisation(build_of(str(number), outputs, inputs))
        names: dict[str, bool] = {}
        for number, root in enumerate(graph.roots):
            key = None if root.build is None else key_of(str(root.build))
            store.set_root(
                f"root{number}", Root(digests[root.object], key=key, automatic=root.automatic)
            )
            names[f"root{number}"] = root.automatic
    return names
