"""Holding the run of an experiment against the first one."""

from math import prod
from typing import TYPE_CHECKING

from dis_derivations.comparison.diff import PAGE_CURVES, diff_bundles
from dis_derivations.comparison.examination import Examination
from dis_derivations.comparison.sequences import SequencePair
from dis_derivations.probing.verdict import Comparison, Parting, StepError, TensorParting
from dis_derivations.runs.bundle_documents import load_bundle
from dis_derivations.runs.bundle_reader import StoredBundle

if TYPE_CHECKING:
    from dis_derivations.comparison.report import DiffReport
    from dis_store import Store
    from dis_store.digest import Digest

# The trace of the batches is left out: what is in a batch is what some experiments change.
OBSERVABLES = ("tokens", "logits", "activations")


def compare(store: "Store", baseline: "Digest", other: "Digest") -> Comparison:
    """Return how a run differs from the first one; sequences are matched by the ids of their requests.

    Raises:
        DisError: A bundle is damaged.
    """
    if baseline == other:
        bundle = load_bundle(StoredBundle(store, baseline))
        captured = {name: _captured(has=bundle.has(name)) for name in OBSERVABLES}
        lengths = [len(each.output_token_ids) for each in bundle.sequences]
        return Comparison(captured, len(lengths), max(lengths, default=0))
    report = diff_bundles(
        StoredBundle(store, baseline), StoredBundle(store, other), store=store, curves=PAGE_CURVES
    )
    found = report.examination
    logits = found.tensors.get("logits")
    return Comparison(
        status={name: found.status[name] for name in OBSERVABLES},
        sequences=len(found.alignment.pairs),
        positions=max(map(_common_positions, found.alignment.pairs), default=0),
        parted=len(found.alignment.parted),
        tokens=_parting(report),
        tensors=_tensor_parting(found),
        largest_error=None if logits is None else logits.total.max_abs,
        largest_ulp=None if logits is None else logits.total.max_ulp,
        errors=_errors(report),
    )


def _captured(*, has: bool) -> str:
    return "identical" if has else "not captured"


def _parting(report: "DiffReport") -> Parting | None:
    """Return where the tokens part first: at the lowest position, in the first request that parts there."""
    parted = report.examination.alignment.parted
    if not parted:
        return None
    pair = min(parted, key=lambda each: each.output_common)
    choices = {each.request: each.choice for each in report.divergences}
    return Parting(
        pair.a.id, pair.output_common, pair.token_a, pair.token_b, choices.get(pair.a.id)
    )


def _common_positions(pair: SequencePair) -> int:
    """Return at how many positions both sequences answer the same question; where they part is the last one."""
    return pair.output_common + (not pair.same_output) if pair.same_prompt else 0


def _tensor_parting(found: Examination) -> TensorParting | None:
    """Return where captured numbers part first: in the prompts before the answers, at the lowest position.

    Hidden states come before the logits that are made of them.
    """
    partings = [
        TensorParting(
            observable,
            tensor.name.request,
            tensor.name.part,
            tensor.found.first.element // max(prod(tensor.shape[1:]), 1),
        )
        for observable in ("activations", "logits")
        if observable in found.tensors
        for tensor in found.tensors[observable].different
        if tensor.found.first is not None
    ]
    return min(partings, key=lambda each: (each.part.startswith("decode"), each.row), default=None)


def _errors(report: "DiffReport") -> tuple[StepError, ...]:
    largest: dict[int, float | None] = {}
    for curve in report.curves:
        for step in curve.steps:
            known = largest.get(step.position)
            sizes = [size for size in (known, step.max_abs) if size is not None]
            largest[step.position] = max(sizes, default=None)
    return tuple(StepError(position, largest[position]) for position in sorted(largest))
