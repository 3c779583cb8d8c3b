"""A graph of derivations, ordered so that every derivation comes after its inputs."""

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from functools import cached_property

from dis_derivations.graph.derivation import Derivation
from dis_store.digest import Digest
from dis_store.errors import InvalidInputError


@dataclass(frozen=True)
class Graph:
    """Derivations by digest, and the names by which a user can ask for them.

    Attributes:
        derivations: Every derivation, after all of its inputs.
        targets: Names such as `weights` or `run`, to a derivation of this graph.
    """

    derivations: Mapping[Digest, Derivation]
    targets: Mapping[str, Digest]

    def target(self, name: str) -> Digest:
        """Return the derivation that `name` asks for.

        Raises:
            InvalidInputError: The graph has no such target.
        """
        if name not in self.targets:
            raise InvalidInputError(
                f"this manifest has no target {name!r}",
                cause=f"its targets are {', '.join(self.targets)}",
            )
        return self.targets[name]

    def closure_of(self, target: Digest) -> list[Digest]:
        """Return `target` and all that it is built from, inputs first."""
        needed: set[Digest] = set()
        waiting = [target]
        while waiting:
            digest = waiting.pop()
            if digest not in needed:
                needed.add(digest)
                inputs = self.derivations[digest].inputs.values()
                waiting.extend(source.derivation for source in inputs)
        return sorted(needed, key=self._positions.__getitem__)

    @cached_property
    def _positions(self) -> Mapping[Digest, int]:
        return {digest: position for position, digest in enumerate(self.derivations)}

    def __iter__(self) -> Iterator[tuple[Digest, Derivation]]:
        return iter(self.derivations.items())


def graph_of(derivations: Iterable[Derivation], targets: Mapping[str, Digest]) -> Graph:
    """Return the graph of `derivations`, which must be given with inputs before the builds that use them.

    Raises:
        InvalidInputError: A derivation names an input that does not come before it, or an output
            that is not compared.
    """
    known: dict[Digest, Derivation] = {}
    for derivation in derivations:
        for name, source in derivation.inputs.items():
            origin = known.get(source.derivation)
            if origin is None or source.output not in origin.compared:
                raise InvalidInputError(
                    f"input {name!r} of derivation {derivation.name!r} is not a compared output of an "
                    "earlier derivation"
                )
        known[derivation.digest] = derivation
    return Graph(known, dict(targets))
