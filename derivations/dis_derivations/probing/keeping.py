"""A verdict as an object of the store: its document, and references to the runs that it speaks of."""

from typing import TYPE_CHECKING, Any

from dis_derivations.probing.verdict import Verdict
from dis_derivations.realisation.rooting import keep_automatically
from dis_store import canonical_json, strict_json

if TYPE_CHECKING:
    from dis_store import Store
    from dis_store.digest import Digest

PROBE_DOCUMENT = "probe.json"
_RUNS, _BASELINE = "runs", "baseline"


def keep_verdict(store: "Store", verdict: Verdict) -> "tuple[Digest, str]":
    """Register a verdict, root it like a run, and return the object and the root's name.

    The same verdict is the same object. The runs are kept as long as it is.
    """
    runs: dict[str, Digest] = {_BASELINE: verdict.baseline}
    for each in verdict.results:
        if each.bundle is not None:
            runs[each.name] = each.bundle
        if each.prefix_cache is not None:
            runs[f"{each.name}-first"] = each.prefix_cache.first
            runs[f"{each.name}-uncached"] = each.prefix_cache.uncached
    with store.new_tree() as tree:
        tree.write_bytes(PROBE_DOCUMENT, canonical_json.encode(verdict.to_json()))
        for name, bundle in runs.items():
            tree.reference(f"{_RUNS}/{name}", bundle)
        digest = tree.register()
    return digest, keep_automatically(store, f"{verdict.name}-probe", digest)


def read_verdict(store: "Store", digest: "Digest") -> dict[str, Any] | None:
    """Return the document of a verdict; None for an object that is none.

    Raises:
        IntegrityError: The document is damaged.
    """
    from dis_store import FileEntry

    own = {entry.path for entry in store.tree(digest).entries if isinstance(entry, FileEntry)}
    if PROBE_DOCUMENT not in own:
        return None
    document = strict_json.decode(store.read_bytes(digest, PROBE_DOCUMENT), name=PROBE_DOCUMENT)
    return document if isinstance(document, dict) else None
