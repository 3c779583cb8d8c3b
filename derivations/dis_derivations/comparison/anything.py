"""Comparing any two things that REFs name, or refusing two that do not compare."""

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Protocol

from dis_derivations.runs.reference import Resolved, objects_of, place_in_object
from dis_store.errors import InvalidInputError

if TYPE_CHECKING:
    from dis_derivations.comparison.report import DiffReport
    from dis_derivations.runs.older_run import OlderRun
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


@dataclass(frozen=True, eq=False, repr=False)
class Comparison:
    """Two things compared.

    Attributes:
        report: What was found.
        text: Makes it text for a terminal.
        page: Makes it a page; None for what has none.
        remark: Why `--strict` says no to what counts as the same.
        hints: What could be done to learn more.
    """

    report: Report
    text: Callable[[], str]
    page: Callable[[], str] | None
    remark: str
    hints: tuple[str, ...] = ()


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
            if a.path is None and b.path is None:
                # What the store has is of dis, and the reader of archives takes a while to import.
                return _runs(store, a, b, for_page=for_page)
            from dis_derivations.runs.older_archive import older_run

            older = older_run(a), older_run(b)
            if older == (None, None):
                return _runs(store, a, b, for_page=for_page)
            return _older(store, (a, b), older)


def _runs(store: "Store", a: Resolved, b: Resolved, *, for_page: bool) -> Comparison:
    from dis_derivations.comparison.diff import MAX_CURVES, PAGE_CURVES, diff_bundles
    from dis_derivations.comparison.render_text import render_text

    readers = a.bundle(store), b.bundle(store)
    curves = PAGE_CURVES if for_page else MAX_CURVES
    report = diff_bundles(*readers, store=objects_of(store, (a, b)), curves=curves)
    return Comparison(
        report,
        lambda: render_text(report, (a.ref, b.ref)),
        lambda: _page(report),
        "the results are the same; the bundles differ, which --strict does not allow",
        tuple(_weights_hints(store, report, (a, b))),
    )


def _weights_hints(
    store: "Store", report: "DiffReport", sides: tuple[Resolved, Resolved]
) -> Iterator[str]:
    """Say how to compare weights tensor by tensor that were left where they are."""
    from dis_derivations.runs.bundle_documents import load_bundle

    if not report.upstream.has("weights"):
        return
    for each in sides:
        if each.remote is None:
            continue
        digest = load_bundle(each.bundle(store)).document.inputs.get("weights")
        if digest is not None and not store.is_valid(digest) and each.remote.is_valid(digest):
            part = each.remote.closure.objects[digest].name
            yield f"to compare the weights by tensor, fetch them: dis pull {each.ref} --only {part}"


def _older(
    store: "Store",
    things: tuple[Resolved, Resolved],
    older: "tuple[OlderRun | None, OlderRun | None]",
) -> Comparison:
    from dis_derivations.comparison.older.comparison import diff_sides
    from dis_derivations.comparison.older.rendering import render_older
    from dis_derivations.comparison.older.side import side_of_bundle, side_of_older
    from dis_derivations.runs.bundle_documents import load_bundle

    objects = objects_of(store, things)
    a, b = (
        side_of_bundle(load_bundle(thing.bundle(store)), objects)
        if run is None
        else side_of_older(run)
        for thing, run in zip(things, older, strict=True)
    )
    report = diff_sides(a, b)
    refs = things[0].ref, things[1].ref
    return Comparison(
        report,
        lambda: render_older(report, refs),
        None,
        "the results are the same; the runs are not one run, which --strict does not allow",
    )


def _page(report: "DiffReport") -> str:
    from dis_derivations.comparison.page.diff_page import diff_page

    return diff_page(report)


def _objects(store: "Store", a: Resolved, b: Resolved) -> Comparison:
    from dis_derivations.comparison.documents.objects import diff_objects, is_closure
    from dis_derivations.comparison.weights.weight_set import Weights

    below = [place_in_object(store, each.ref) for each in (a, b)]
    closures = not any(below) and all(
        is_closure(each.remote or store, each.object()) for each in (a, b)
    )
    # Equal digests say all that there is to say, and what is in a registry would have to come for more.
    known_equal = a.object() == b.object() and not store.is_valid(a.object())
    weights = not (closures or known_equal) and any(
        Weights.of(each.remote or store, each.object(), place).tensors
        for each, place in zip((a, b), below, strict=True)
    )
    if weights or any(below):
        return _weights(store, a, b, below)
    from dis_derivations.comparison.documents.rendering import render_documents

    report = diff_objects((a.remote or store, b.remote or store), a.object(), b.object())
    return Comparison(report, lambda: render_documents(report), None, _OTHER_BYTES)


def _weights(store: "Store", a: Resolved, b: Resolved, below: list[str]) -> Comparison:
    from dis_derivations.comparison.weights.diff import diff_weights, weights_side
    from dis_derivations.comparison.weights.rendering import render_weights

    sides = [
        weights_side(each.remote or store, each.object(), below=place, ref=each.ref)
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
