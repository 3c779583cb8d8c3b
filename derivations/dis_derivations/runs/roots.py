"""Roots that people set by hand."""

from collections.abc import Sequence
from dataclasses import replace
from typing import TYPE_CHECKING

from dis_store.errors import UnknownReferenceError

if TYPE_CHECKING:
    from dis_derivations.runs.reference import Resolved
    from dis_store import Digest, Kept, Root, Store


def root_for(resolved: "Resolved", *, created_at: str) -> "Root":
    """Return the root that keeps what a REF names, with what it was built from where a root knows that.

    Raises:
        InvalidInputError: It names no object of the store.
    """
    from dis_store import Root

    digest = resolved.object()
    if resolved.entry is None:
        return Root(object=digest, created_at=created_at)
    # How long the root of a run stays is about that root; one that a person sets stays until a person removes it.
    return replace(resolved.entry, automatic=False, created_at=created_at, retention=None)


def check_names(store: "Store", names: Sequence[str]) -> list[str]:
    """Refuse names that no root has, before any of the others is touched; return those of damaged roots.

    Raises:
        InvalidInputError: One is not there.
    """
    survey = store.survey_roots()
    known = {*survey.good, *survey.damaged}
    for name in names:
        if name not in known:
            raise UnknownReferenceError(
                f"there is no root {name!r}", hint=_suggestion(name, sorted(known))
            )
    return [name for name in names if name in survey.damaged]


def refuse_kept(store: "Store", names: Sequence[str]) -> None:
    """Refuse names of roots that must be kept for some time yet, before any of them is touched.

    Raises:
        RetainedRootError: Some must be kept; it says until when.
    """
    from dis_store.garbage_collection.retention import refuse

    kept = store.kept_roots()
    refuse({name: kept[name] for name in names if name in kept})


def longest_kept(store: "Store", digest: "Digest") -> "Kept | None":
    """Return until when an object is kept at least because manifests say so; None where none does."""
    return max(store.kept_roots(digest).values(), key=lambda each: each.until, default=None)


def _suggestion(name: str, known: Sequence[str]) -> str:
    from difflib import get_close_matches

    close = get_close_matches(name, known, n=3)
    return f"did you mean {' or '.join(close)}?" if close else "see them: dis root list"
