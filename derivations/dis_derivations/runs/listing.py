"""The runs of a store, as people look for them: by name, model, date, engine, grade, size.

A run is listed while a root keeps it, which every realised run has.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from dis_derivations.lock.unverified_digests import MEMBER
from dis_derivations.runs.reference import is_run
from dis_store import strict_json
from dis_store.digest import Digest
from dis_store.errors import DisError, InvalidInputError

if TYPE_CHECKING:
    from dis_store import Root, Store


@dataclass(frozen=True)
class RunSummary:
    """One run.

    Attributes:
        bundle: The object.
        names: The roots that keep it, those given by people first.
        run_id: Without a time or a host, so two runs can have the same.
        model: What the manifest calls the model; None where it says nothing.
        date: When it was registered here, in UTC, as in RFC 3339.
        grade: Of the run against its manifest.
        size: Bytes of the bundle with its captures.
        problem: Why the fields above could not be read; then they are empty.
        verified: Whether the run was held to the digests of its lock.
    """

    bundle: Digest
    names: tuple[str, ...]
    run_id: str
    model: str | None
    date: str
    engine: str
    grade: str
    size: int
    problem: str | None = None
    verified: bool = True


def list_runs(store: "Store") -> list[RunSummary]:
    """Return the rooted runs, the newest first. A damaged run is listed with what is wrong with it.

    Raises:
        IntegrityError: The index is damaged. Damaged roots keep no run that could be listed.
    """
    kept: dict[Digest, dict[str, Root]] = {}
    for name, root in store.survey_roots().good.items():
        kept.setdefault(root.object, {})[name] = root
    # Asked outside of any run: a damaged index is no run's fault, and its error says how it is rebuilt.
    for digest in kept:
        store.is_valid(digest)
    summaries = (_summary(store, digest, roots) for digest, roots in kept.items())
    found = [summary for summary in summaries if summary is not None]
    return sorted(found, key=lambda run: (run.date, run.bundle), reverse=True)


def newest_two(store: "Store") -> tuple[RunSummary, RunSummary]:
    """Return the two runs that were registered last, the older one first.

    Raises:
        InvalidInputError: There are fewer.
    """
    runs = [run for run in list_runs(store) if run.problem is None]
    if len(runs) <= 1:
        raise InvalidInputError(
            "there are no two runs to compare",
            cause=f"the store has {len(runs)}",
            hint="see them: dis list",
        )
    return runs[1], runs[0]


def _summary(store: "Store", digest: Digest, roots: Mapping[str, "Root"]) -> RunSummary | None:
    """Return the summary of a run; None for an object that is none."""
    names = tuple(sorted(roots, key=lambda name: (roots[name].automatic, name)))
    try:
        if not is_run(store, digest):
            return None
        bundle = _document(store, digest, "bundle.json")
        manifest = _document(store, digest, "manifest.used.json")
        return RunSummary(
            bundle=digest,
            names=names,
            run_id=str(bundle["run_id"]),
            model=manifest.get("vllm", {}).get("engine_args", {}).get("model"),
            date=registered_at(store, digest, roots),
            engine=str(bundle["engine"]["engine"]),
            grade=str(bundle["grade"]),
            size=store.closure_size(digest),
            verified=MEMBER not in bundle,
        )
    except (DisError, KeyError, TypeError, AttributeError) as error:
        problem = str(error) if isinstance(error, DisError) else "its documents are malformed"
        return RunSummary(digest, names, "", None, "", "", "damaged", 0, problem)


def registered_at(store: "Store", digest: Digest, roots: Mapping[str, "Root"]) -> str:
    """Return when an object that `roots` keep was registered: the end of its first build, or the age of its root."""
    built = [
        realisation.finished_at
        for key in {root.key for root in roots.values() if root.key is not None}
        for realisation in store.realisations(key)
        if digest in realisation.outputs.values()
    ]
    return min(built or [root.created_at for root in roots.values()])


def _document(store: "Store", digest: Digest, path: str) -> Mapping[str, Any]:
    document: Mapping[str, Any] = strict_json.decode(store.read_bytes(digest, path), name=path)
    return document
