"""Two thousand small builds, and the same when all of them are there.

With everything there, dis looks up every derivation, as it must when it cannot know that nothing changed; that is what
is compared. Beside it stands one recall from the plan cache under a key that nobody had to compute: a lower bound only.

A build of Nix starts a shell that writes a file; one of dis calls a function that writes a file. What both do for each
build beside that is what is compared: look up, lock, build, register, record. dis waits for the disk, Nix does not.
"""

import json
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

# A command hashes manifest, lock and versions for it.
PLAN = Digest("0" * 64)
COUNT = 2000
_NIX = """
let
  build = name: text: inputs: derivation {
    inherit name inputs; system = builtins.currentSystem; builder = "/bin/sh"; passAsFile = [ "inputs" ];
    args = [ "-c" "echo ${text} > $out" ];
  };
in build "top" "top" (builtins.genList (n: build "b${toString n}" (toString n) []) %d)
"""


def comparisons(place: Path) -> "list[Comparison]":
    """Return the comparisons; their stores are below `place`."""
    from adding import compiled_environment, remove
    from nix_store import NixStore, quiet
    from stopwatch import Comparison, Contender, Target

    nix, store = NixStore(place / "nix"), place / "store"
    expression = place / "many.nix"
    expression.write_text(_NIX % COUNT)

    def build_nix() -> None:
        nix.call("nix-build", "--no-out-link", "-j", "2", expression)

    def build(*options: str) -> None:
        environment = compiled_environment() | {"PYTHONPATH": ":".join(sys.path)}
        quiet([sys.executable, __file__, str(store), *options], environment)

    return [
        Comparison(
            f"Build {COUNT:,} small derivations",
            (
                Contender("nix-build", build_nix, nix.start),
                Contender("dis", build, lambda: remove(store)),
            ),
            (Target("dis", "nix-build", 1 / 5),),
            rounds=1,
        ),
        Comparison(
            f"Find {COUNT:,} small derivations built",
            (
                Contender("nix-build", build_nix),
                Contender("dis", lambda: build("--no-plan")),
                Contender("one recall of a plan", build),
            ),
            (Target("dis", "nix-build", 1.0),),
        ),
    ]


class _Writer:
    """Writes its argument into a file."""

    version = 1

    def build(self, context: "BuildContext") -> Mapping[str, Digest]:
        with context.store.new_tree() as tree:
            tree.write_bytes("value", str(context.derivation.args["text"]).encode())
            return {"out": tree.register()}


class _NoSources:
    def fetch(self, kind: str, *args: Any) -> None:
        raise AssertionError(kind)


def _derivation(name: str, inputs: "Mapping[str, Derivation]") -> "Derivation":
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

    leaves = [_derivation(f"b{number}", {}) for number in range(COUNT)]
    top = _derivation("top", {each.name: each for each in leaves})
    return graph_of([*leaves, top], {"top": top.digest}), top.digest


def realise_all(path: Path) -> None:
    """Build all of them, or find them built, and remember the plan as the command does."""
    from dis_derivations.realisation.realiser import Realiser, Surroundings

    graph, top = _graph()
    with Store.open(path) as store:
        surroundings = Surroundings(_NoSources(), {}, {})
        realiser = Realiser(store, graph, {"writer": _Writer()}, surroundings, jobs=2)
        outputs = realiser.realise(top).outputs
        store.remember_plan(PLAN, json.dumps(dict(outputs)), list(outputs.values()))


def recall(path: Path) -> bool:
    """Tell whether a plan answers; the compilation of a manifest is what it saves."""
    with Store.open(path) as store:
        return store.recall_plan(PLAN) is not None


if __name__ == "__main__":
    if "--no-plan" in sys.argv or not recall(Path(sys.argv[1])):
        realise_all(Path(sys.argv[1]))
