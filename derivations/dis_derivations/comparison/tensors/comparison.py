"""What a comparison of two files of tensors found."""

from dataclasses import dataclass
from math import prod

from dis_derivations.comparison.tensors.differences import Differences


@dataclass(frozen=True)
class TensorName:
    """What a tensor is, whatever its request's place in a run.

    Attributes:
        request: The id of the request it belongs to; None for a tensor of the whole run.
        part: `prefill`, `decode`, or the rest of its name.
    """

    request: str | None
    part: str

    def shares_pass_with(self, other: "TensorName") -> bool:
        """Return whether both have the positions of one request as rows, at whatever places of the model."""
        if self.request is None:
            return self == other
        from dis_derivations.comparison.tensors.depth import depth

        return (self.request, depth(self.part)[0]) == (other.request, depth(other.part)[0])

    def __str__(self) -> str:
        return self.part if self.request is None else f"{self.request} {self.part}"


@dataclass(frozen=True, eq=False, repr=False)
class TensorDifference:
    """A tensor that is not identical.

    Attributes:
        dtype: A's, or B's where only B has it.
        shape: A's, or B's where only B has it.
        reason: Why nothing, or not all, was compared; None when all elements were.
        uncompared: Elements of the larger side that have no counterpart.
        found: What the comparable elements show.
    """

    name: TensorName
    dtype: str
    shape: tuple[int, ...]
    reason: str | None
    uncompared: int
    found: Differences

    @property
    def first_row(self) -> int | None:
        """The row of the first differing element: a position of its request; None where there is none."""
        first = self.found.first
        return None if first is None else first.element // max(prod(self.shape[1:]), 1)


@dataclass(frozen=True, eq=False, repr=False)
class TensorsComparison:
    """Two files of tensors.

    Attributes:
        tensors: How many different names both files have together; None for one file that was not looked into.
        different: The tensors that are not identical, by request in the order of A, then as a model computes them.
        total: What all comparable elements show.
        one_file: Whether both are known to be the same file, which was not compared then.
    """

    tensors: int | None
    different: tuple[TensorDifference, ...]
    total: Differences
    one_file: bool = False

    @property
    def identical(self) -> bool:
        """Whether every bit is the same."""
        return not self.different

    @property
    def first(self) -> TensorDifference | None:
        """Where both part first: the first tensor to be computed that has a differing element to show.

        Of a request, the prompt comes before the answer, a position before the next one, and at a position a layer
        before the next one. Without such an element it is the first that is not identical.
        """
        shown = [each for each in self.different if each.found.first is not None]
        if not shown:
            return self.different[0] if self.different else None
        of_one_pass = [each for each in shown if each.name.shares_pass_with(shown[0].name)]
        return min(of_one_pass, key=lambda each: each.first_row or 0)
