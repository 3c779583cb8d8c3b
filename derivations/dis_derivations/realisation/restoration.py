"""Building a lost object again from what the store remembers of its build."""

from dis_derivations.builders import standard_builders
from dis_derivations.graph.derivation import Derivation
from dis_derivations.graph.graph import Graph, graph_of
from dis_derivations.realisation.events import Reporter
from dis_derivations.realisation.realiser import Realiser, Surroundings
from dis_derivations.realisation.silence import silent
from dis_store import Digest, Store
from dis_store.closures import closure
from dis_store.errors import BuildError, DisError

# How sequences are batched is no part of a derivation whose bits do not depend on it.
_HINTS = {"generation": {"batching": {"max_num_seqs": 1, "max_num_batched_tokens": None}}}


def restore(store: Store, digest: Digest, *, reporter: Reporter = silent) -> None:
    """Build an object again that the store had, and does not have whole any more.

    Raises:
        DisError: No build of it is remembered, or none of those that are can be done again.
    """
    refusal: DisError | None = None
    for build in store.builds_of(digest):
        if build.derivation is None:
            continue
        try:
            graph = _remembered_graph(store, build.derivation)
            surroundings = Surroundings(_NoSources(), _HINTS, {})
            realiser = Realiser(store, graph, standard_builders(), surroundings, reporter=reporter)
            realiser.realise(build.derivation)
        except DisError as error:
            refusal = error
        else:
            return
    raise refusal or BuildError("no build of it is remembered")


def _remembered_graph(store: Store, target: Digest) -> Graph:
    derivations: dict[Digest, Derivation] = {}

    def inputs(digest: Digest) -> list[Digest]:
        derivations[digest] = Derivation.decode(store.derivation(digest))
        return [source.derivation for source in derivations[digest].inputs.values()]

    order = closure([target], inputs)
    return graph_of([derivations[digest] for digest in order], {"target": target})


class _NoSources:
    """The store does not know where files came from."""

    def fetch(self, kind: str, *_: object, **__: object) -> None:
        """Refuse."""
        raise BuildError(
            f"the {kind} came from outside the store",
            hint="name a place that has the files: dis store verify --all --repair --from PATH",
        )
