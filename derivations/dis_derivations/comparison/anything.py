"""Comparing any two things that REFs name, or refusing two that do not compare."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Protocol

from dis_derivations.runs.reference import Resolved, place_in_object
from dis_store.errors import InvalidInputError

if TYPE_CHECKING:
    from dis_derivations.comparison.report import DiffReport
    from dis_store import Store

_OTHER_BYTES = "nothing differs that matters; the bytes differ, which --strict does not allow"


class Report(Protocol):
    """What every comparison says."""

    @property
    def same(self) -> bool:
        """Whether the two count as the same."""
        ...

    def answer(self, *, strict: bool) -> bool:
        """Return the verdict that makes the exit code."""
        ...

    def to_json(self) -> dict[str, Any]:
        """Return the whole report."""
        ...


@dataclass(frozen=True)
class Comparison:
    """Two things compared.

    Attributes:
        report: What was found.
        text: Makes it text for a terminal.
        page: Makes it a page; None for what has none.
        remark: Why `--strict` says no to what counts as the same.
    """

    report: Report
    text: Callable[[], str]
    page: Callable[[], str] | None
    remark: str


def compare(store: "Store", a: Resolved, b: Resolved, *, for_page: bool = False) -> Comparison:
    """Compare two things of one kind.

    Args:
        store: Where objects are.
        a: One thing.
        b: The other.
        for_page: Whether a page is made of it, which shows more of two runs.

    Raises:
        InvalidInputError: They do not compare, or one is malformed.
        IntegrityError: One is damaged.
    """
    match a.kind, b.kind:
        case "manifest", "manifest":
            return _files(a, b, "manifests")
        case "lock", "lock":
            return _files(a, b, "locks")
        case "object", "object":
            return _objects(store, a, b)
        case kind_a, kind_b if {kind_a, kind_b} <= {"manifest", "lock"}:
            raise InvalidInputError(
                f"{a.ref} and {b.ref} do not compare",
                cause=f"A is a {kind_a}, B a {kind_b}",
                hint="compare two manifests, two locks, or the runs that were made of them",
            )
        case _:
            return _runs(store, a, b, for_page=for_page)


def _runs(store: "Store", a: Resolved, b: Resolved, *, for_page: bool) -> Comparison:
    from dis_derivations.comparison.diff import MAX_CURVES, PAGE_CURVES, diff_bundles
    from dis_derivations.comparison.render_text import render_text

    readers = a.bundle(store), b.bundle(store)
    curves = PAGE_CURVES if for_page else MAX_CURVES
    report = diff_bundles(*readers, store=store, curves=curves)
    return Comparison(
        report,
        lambda: render_text(report),
        lambda: _page(report),
        "the results are the same; the bundles differ, which --strict does not allow",
    )


def _page(report: "DiffReport") -> str:
    from dis_derivations.comparison.page.diff_page import diff_page

    return diff_page(report)


def _objects(store: "Store", a: Resolved, b: Resolved) -> Comparison:
    from dis_derivations.comparison.weights.weight_set import Weights

    below = [place_in_object(store, each.ref) for each in (a, b)]
    weights = [
        bool(Weights.of(store, each.object(), place).tensors)
        for each, place in zip((a, b), below, strict=True)
    ]
    if any(weights) or any(below):
        return _weights(store, a, b, below)
    from dis_derivations.comparison.documents.objects import diff_objects
    from dis_derivations.comparison.documents.rendering import render_documents

    report = diff_objects(store, a.object(), b.object())
    return Comparison(report, lambda: render_documents(report), None, _OTHER_BYTES)


def _weights(store: "Store", a: Resolved, b: Resolved, below: list[str]) -> Comparison:
    from dis_derivations.comparison.weights.diff import diff_weights, weights_side
    from dis_derivations.comparison.weights.rendering import render_weights

    sides = [
        weights_side(store, each.object(), below=place, ref=each.ref)
        for each, place in zip((a, b), below, strict=True)
    ]
    report = diff_weights(*sides)
    return Comparison(
        report,
        lambda: render_weights(report),
        None,
        "the weights are the same; the files differ, which --strict does not allow",
    )


def _files(a: Resolved, b: Resolved, subject: str) -> Comparison:
    from dis_derivations.comparison.documents.manifests import diff_locks, diff_manifests
    from dis_derivations.comparison.documents.rendering import render_documents

    path_a, path_b = a.path, b.path
    if path_a is None or path_b is None:
        raise InvalidInputError(f"{a.ref} and {b.ref} are no files")
    report = (diff_manifests if subject == "manifests" else diff_locks)(path_a, path_b)
    return Comparison(report, lambda: render_documents(report), None, _OTHER_BYTES)
