"""Which of several runs agree, as clusters."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from dis_derivations.comparison.examination import examine
from dis_derivations.comparison.report import RunIdentity
from dis_derivations.comparison.rules import OBSERVABLES
from dis_derivations.runs.bundle_documents import Bundle

MATRIX_KIND = "vllm.deterministic_run_matrix"
SCHEMA_VERSION = 1


@dataclass(frozen=True)
class Cluster:
    """Runs whose results are the same, bit for bit.

    Attributes:
        members: Their places in the list of runs.
    """

    members: tuple[int, ...]


@dataclass(frozen=True)
class Parting:
    """How a cluster differs from the first one.

    Attributes:
        observables: What is not the same.
        sequences: How many sequences have other tokens.
        first: The first of them and the position; None where tokens are the same.
    """

    observables: tuple[str, ...]
    sequences: int
    first: tuple[str, int] | None


@dataclass(frozen=True)
class Matrix:
    """The answer to `dis diff --matrix`.

    Attributes:
        names: What the runs were called.
        runs: The runs.
        clusters: The largest first; among equals, that of the earlier run.
        token_clusters: The same by tokens alone.
        partings: For each cluster but the first, how it differs from the first.
    """

    names: tuple[str, ...]
    runs: tuple[RunIdentity, ...]
    clusters: tuple[Cluster, ...]
    token_clusters: tuple[Cluster, ...]
    partings: tuple[Parting, ...]

    @property
    def same(self) -> bool:
        """Whether all runs agree: exit code 0, else 1."""
        return len(self.clusters) == 1

    def to_json(self) -> dict[str, Any]:
        """Return the whole matrix."""
        return {
            "schema_version": SCHEMA_VERSION,
            "kind": MATRIX_KIND,
            "same": self.same,
            "runs": [
                {"ref": name, **run.to_json()}
                for name, run in zip(self.names, self.runs, strict=True)
            ],
            "clusters": [list(cluster.members) for cluster in self.clusters],
            "token_clusters": [list(cluster.members) for cluster in self.token_clusters],
            "partings": [
                {
                    "cluster": number,
                    "observables": list(parting.observables),
                    "sequences": parting.sequences,
                    "first": None
                    if parting.first is None
                    else {"request_id": parting.first[0], "position": parting.first[1]},
                }
                for number, parting in enumerate(self.partings, 1)
            ],
        }


def matrix(names: Sequence[str], runs: Sequence[Bundle]) -> Matrix:
    """Compare runs and gather those that agree.

    Equality of bits is transitive, so each run is compared with one member of each cluster, not with every run.

    Args:
        names: What the runs are called.
        runs: At least one.

    Raises:
        DisError: A capture is malformed.
    """
    clusters = _clusters(runs, tokens_only=False)
    first = runs[clusters[0].members[0]]
    return Matrix(
        names=tuple(names),
        runs=tuple(map(RunIdentity.of, runs)),
        clusters=clusters,
        token_clusters=_clusters(runs, tokens_only=True),
        partings=tuple(_parting(first, runs[cluster.members[0]]) for cluster in clusters[1:]),
    )


def _clusters(runs: Sequence[Bundle], *, tokens_only: bool) -> tuple[Cluster, ...]:
    found: list[list[int]] = []
    for number, run in enumerate(runs):
        home = next((each for each in found if _agree(runs[each[0]], run, tokens_only)), None)
        if home is None:
            found.append([number])
        else:
            home.append(number)
    ordered = sorted(found, key=lambda members: (-len(members), members[0]))
    return tuple(Cluster(tuple(members)) for members in ordered)


def _agree(a: Bundle, b: Bundle, tokens_only: bool) -> bool:
    from dis_derivations.comparison.sequences import align

    same_tokens = align(a, b).same_tokens
    return same_tokens and (tokens_only or examine(a, b).same)


def _parting(a: Bundle, b: Bundle) -> Parting:
    found = examine(a, b)
    alignment = found.alignment
    first = alignment.first
    return Parting(
        observables=tuple(
            name for name in OBSERVABLES if found.status[name] not in ("identical", "not captured")
        ),
        sequences=len(alignment.parted) + len(alignment.only_a) + len(alignment.only_b),
        first=None if first is None else (first.a.id, first.output_common),
    )
