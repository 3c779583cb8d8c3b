"""Clusters of agreeing runs as text for a terminal."""

from dis_derivations.comparison.matrix import Cluster, Matrix, Parting
from dis_derivations.comparison.text_layout import count, heading, printable, quoted, table


def render_matrix(found: Matrix) -> str:
    """Return the clusters as text, without colour."""
    title = "ALL AGREE" if found.same else f"{count(len(found.clusters), 'cluster')}"
    lines = [f"{count(len(found.runs), 'run')}: {title}"]
    for number, cluster in enumerate(found.clusters):
        lines += heading(
            f"{_letter(number)}  {count(len(cluster.members), 'run')} with the same results"
        )
        lines += table([_run(found, place) for place in cluster.members])
        if number:
            lines.append(f"  differs from a: {_parting(found.partings[number - 1])}")
    if len(found.token_clusters) < len(found.clusters):
        by_tokens = ["  ".join(_names(found, cluster)) for cluster in found.token_clusters]
        lines += heading("By tokens alone")
        lines += table([[_letter(number), names] for number, names in enumerate(by_tokens)])
    lines += [*heading("Which agree (= results, t tokens only)"), *_grid(found)]
    return "\n".join([*lines, ""])


def _letter(number: int) -> str:
    return chr(ord("a") + number) if number < 26 else str(number)  # noqa: PLR2004 - letters


def _run(found: Matrix, place: int) -> list[str]:
    run = found.runs[place]
    bundle = "a run directory" if run.bundle is None else f"bundle {run.bundle[:12]}"
    verified = "" if run.verified else ", DIGESTS NOT VERIFIED"
    return [printable(found.names[place]), bundle, f"engine {run.engine}{verified}"]


def _names(found: Matrix, cluster: Cluster) -> list[str]:
    return [printable(found.names[place]) for place in cluster.members]


def _parting(parting: Parting) -> str:
    said = ", ".join(parting.observables)
    if parting.first is None:
        return said
    request, position = parting.first
    return f"{said}; {count(parting.sequences, 'sequence')}, first {quoted(request)} at {position}"


def _grid(found: Matrix) -> list[str]:
    results, tokens = _homes(found.clusters), _homes(found.token_clusters)
    places = range(len(found.runs))
    rows = [
        [
            str(one + 1),
            printable(found.names[one]),
            " ".join(
                "="
                if results[one] == results[other]
                else "t"
                if tokens[one] == tokens[other]
                else "·"
                for other in places
            ),
        ]
        for one in places
    ]
    return table(rows)


def _homes(clusters: tuple[Cluster, ...]) -> dict[int, int]:
    return {place: number for number, cluster in enumerate(clusters) for place in cluster.members}
