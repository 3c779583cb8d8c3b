"""Two bundles held against each other, observable by observable.

`diff` and `verify` ask different questions of the same examination; the captures are read once.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal

from dis_derivations.comparison.rules import OBSERVABLES, Rule
from dis_derivations.comparison.sequences import Alignment, align
from dis_derivations.comparison.tensors.comparison import TensorsComparison
from dis_derivations.comparison.tensors.equal_files import at_hand, equal_by_digest, is_one_file
from dis_derivations.runs.bundle import TRACE_FILE
from dis_derivations.runs.bundle_documents import Bundle

if TYPE_CHECKING:
    from dis_derivations.comparison.trace import TraceComparison

Status = Literal[
    "identical",
    "differ",
    "only in A",
    "only in B",
    "left out of A",
    "left out of B",
    "left out of both",
    "not captured",
]
_TENSORS = ("logits", "activations")


@dataclass(frozen=True, eq=False, repr=False)
class Examination:
    """What was found.

    Attributes:
        status: By observable, by bits.
        tensors: By observable; only those that both runs captured.
        trace: None unless both runs captured it.
    """

    a: Bundle
    b: Bundle
    alignment: Alignment
    status: Mapping[str, Status]
    tensors: Mapping[str, TensorsComparison]
    trace: "TraceComparison | None"

    @property
    def same(self) -> bool:
        """Whether every observable that a run captured is the same in the other, bit for bit.

        What only one of them captured, or what is not there to be compared, cannot be shown to be the same, so it is
        not.
        """
        return all(status in ("identical", "not captured") for status in self.status.values())


def examine(a: Bundle, b: Bundle, rules: Mapping[str, Sequence[Rule]] | None = None) -> Examination:
    """Compare everything that both bundles hold.

    Args:
        a: One bundle.
        b: The other.
        rules: By observable, what elements count as outside tolerance.

    Raises:
        DisError: A capture is malformed.
    """
    alignment = align(a, b)
    both = [name for name in OBSERVABLES if a.captured(name) and b.captured(name)]
    found = {
        name: equal_by_digest(a, b, name, alignment)
        or _compared(a, b, name, alignment, (rules or {}).get(name, ()))
        for name in _TENSORS
        if name in both
    }
    tensors = {name: each for name, each in found.items() if each is not None}
    trace, same_trace = _traces(a, b) if "engine_trace" in both else (None, None)
    identical: dict[str, bool | None] = {"tokens": alignment.same_tokens}
    identical |= {name: comparison.identical for name, comparison in tensors.items()}
    identical["engine_trace"] = same_trace
    status = {name: _status(a, b, name, identical.get(name)) for name in OBSERVABLES}
    return Examination(a, b, alignment, status, tensors, trace)


def _compared(
    a: Bundle, b: Bundle, observable: str, alignment: Alignment, rules: Sequence[Rule]
) -> TensorsComparison | None:
    if not (a.has(observable) and b.has(observable)):
        return None
    # Numbers are looked at only here, so that runs with equal captures are compared without numpy.
    from dis_derivations.comparison.tensors.observable import compare_tensors

    return compare_tensors(a, b, observable, alignment, rules)


def _traces(a: Bundle, b: Bundle) -> "tuple[TraceComparison | None, bool | None]":
    """Compare the traces; of one that is the same file in both, only that is read which need not be fetched.

    Returns:
        What there is to say of their steps, and whether they are the same; None for what nobody can know here.
    """
    from dis_derivations.comparison.trace import compare_traces

    readable = [each for each in (a, b) if each.has("engine_trace")]
    if not is_one_file(a, b, TRACE_FILE):
        if len(readable) == 1 or not readable:
            return None, None
        found = compare_traces(a, b)
        return found, found.identical
    if not readable:
        return None, True
    near = at_hand(a, b, TRACE_FILE) or readable[0]
    return compare_traces(near, near), True


def _status(a: Bundle, b: Bundle, name: str, identical: bool | None) -> Status:
    in_a, in_b = a.captured(name), b.captured(name)
    if in_a != in_b:
        return "only in A" if in_a else "only in B"
    if not in_a:
        return "not captured"
    if identical is not None:
        return "identical" if identical else "differ"
    if a.lacks(name) and b.lacks(name):
        return "left out of both"
    return "left out of A" if a.lacks(name) else "left out of B"
