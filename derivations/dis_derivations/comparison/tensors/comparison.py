"""What a comparison of two files of tensors found."""

from dataclasses import dataclass

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

    def __str__(self) -> str:
        return self.part if self.request is None else f"{self.request} {self.part}"


@dataclass(frozen=True)
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


@dataclass(frozen=True)
class TensorsComparison:
    """Two files of tensors.

    Attributes:
        tensors: How many different names both files have together.
        different: The tensors that are not identical, in the order of A's requests.
        total: What all comparable elements show.
    """

    tensors: int
    different: tuple[TensorDifference, ...]
    total: Differences

    @property
    def identical(self) -> bool:
        """Whether every bit is the same."""
        return not self.different

    @property
    def first(self) -> TensorDifference | None:
        """The first tensor that has a differing element to show, else the first that is not identical."""
        shown = (each for each in self.different if each.found.first is not None)
        return next(shown, self.different[0] if self.different else None)
