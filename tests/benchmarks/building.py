"""Two thousand small builds, and the same when all of them are there.

With everything there, the results of all are asked for, and then only that of a build which all the others go into.
Both programs compile every derivation for that, as they must when they cannot know that nothing changed. The plan
cache, which spares a command of dis even that, is not used.

A build of Nix starts a shell that writes a file; one of dis calls a function that writes a file. What both do for each
build beside that is what is compared: look up, lock, build, register, record. dis waits for the disk, Nix does not.
"""

import sys
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

from dis_store import Digest, Store

if TYPE_CHECKING:
    from dis_derivations.graph.derivation import Derivation
    from dis_derivations.graph.graph import Graph
    from dis_derivations.realisation.building import BuildContext
    from stopwatch import Comparison

COUNT = 2000
_NIX = """
let
  build = name: text: inputs: derivation {
    inherit name inputs; system = builtins.currentSystem; builder = "/bin/sh"; passAsFile = [ "inputs" ];
    args = [ "-c" "echo ${text} > $out" ];
  };
  all = builtins.genList (n: build "b${toString n}" (toString n) []) %d;
in { inherit all; top = build "top" "top" all; }
"""


def comparisons(place: Path) -> "list[Comparison]":
    """Return the comparisons; their stores are below `place`."""
    from adding import compiled_environment, remove
    from nix_store import NixStore, quiet
    from stopwatch import Comparison, Contender, Target

    nix, store = NixStore(place / "nix"), place / "store"
    expression = place / "many.nix"
    expression.write_text(_NIX % COUNT)

    def build_nix(attribute: str) -> None:
        nix.call("nix-build", "--no-out-link", "-j", "2", expression, "-A", attribute)

    def build(what: str) -> None:
        environment = compiled_environment() | {"PYTHONPATH": ":".join(sys.path)}
        quiet([sys.executable, __file__, str(store), what], environment)

    def found(title: str, what: str) -> Comparison:
        contenders = (
            Contender("nix-build", lambda: build_nix(what)),
            Contender("dis", lambda: build(what)),
        )
        return Comparison(title, contenders, (Target("dis", "nix-build", 1.0),))

    return [
        Comparison(
            f"Build {COUNT:,} small derivations",
            (
                Contender("nix-build", lambda: build_nix("top"), nix.start),
                Contender("dis", lambda: build("top"), lambda: remove(store)),
            ),
            (Target("dis", "nix-build", 1 / 5),),
            rounds=1,
        ),
        found(f"Find {COUNT:,} small derivations built", "all"),
        found(f"Find one derivation built that {COUNT:,} others go into", "top"),
    ]


class Writer:
    """Writes its argument into a file."""

    version = 1

    def build(self, context: "BuildContext") -> Mapping[str, Digest]:
        with context.store.new_tree() as tree:
            tree.write_bytes("value", str(context.derivation.args["text"]).encode())
            return {"out": tree.register()}


class NoSources:
    def fetch(self, kind: str, *args: Any) -> None:
        raise AssertionError(kind)


def derivation_of(name: str, inputs: "Mapping[str, Derivation]") -> "Derivation":
    from dis_derivations.graph.derivation import Derivation, OutputReference

    return Derivation(
        name=name,
        builder="writer",
        builder_version=1,
        inputs={label: OutputReference(each.digest, "out") for label, each in inputs.items()},
        args={"text": name},
        platform="any",
        outputs=("out",),
        compared=("out",),
    )


def _graph() -> "tuple[Graph, Digest]":
    from dis_derivations.graph.graph import graph_of

    leaves = [derivation_of(f"b{number}", {}) for number in range(COUNT)]
    top = derivation_of("top", {each.name: each for each in leaves})
    return graph_of([*leaves, top], {"top": top.digest}), top.digest


def realise(path: Path, what: str) -> None:
    """Build what is missing and find the rest: `top`, or `all` that go into it."""
    from dis_derivations.realisation.realiser import Realiser, Surroundings

    graph, top = _graph()
    with Store.open(path) as store:
        surroundings = Surroundings(NoSources(), {}, {})
        realiser = Realiser(store, graph, {"writer": Writer()}, surroundings, jobs=2)
        for target in [top] if what == "top" else graph.closure_of(top)[:-1]:
            realiser.realise(target)


if __name__ == "__main__":
    realise(Path(sys.argv[1]), sys.argv[2])
