"""What a comparison of the elements of two tensors found."""

from dataclasses import dataclass
from typing import TypeVar

_N = TypeVar("_N", int, float)


@dataclass(frozen=True)
class ElementDifference:
    """One element that differs in bits.

    Attributes:
        element: Its place in the tensor, in row-major order.
        a: A's value, exact; None for a type without floating-point values.
        b: B's value.
        ulp: The steps between them; None where either is NaN or has no floating-point value.
    """

    element: int
    a: float | None
    b: float | None
    ulp: int | None


@dataclass(frozen=True)
class Differences:
    """What a comparison of elements found.

    Attributes:
        compared: Elements looked at.
        differing: Elements whose bits differ.
        outside: Elements that differ by more than a rule allows; all that differ when there are no rules.
        max_abs: The largest difference; None when no pair of finite numbers differs.
        max_ulp: The largest distance; None when no pair of numbers differs.
        nan: Differing elements of which at least one side is NaN.
        first: The first that differs.
        bits: Differing bits of elements without floating-point values; 0 for numbers, whose distance says more.
    """

    compared: int = 0
    differing: int = 0
    outside: int = 0
    max_abs: float | None = None
    max_ulp: int | None = None
    nan: int = 0
    first: ElementDifference | None = None
    bits: int = 0

    def __add__(self, later: "Differences") -> "Differences":
        """Return what both found together; `self` comes first."""
        return Differences(
            compared=self.compared + later.compared,
            differing=self.differing + later.differing,
            outside=self.outside + later.outside,
            max_abs=_larger(self.max_abs, later.max_abs),
            max_ulp=_larger(self.max_ulp, later.max_ulp),
            nan=self.nan + later.nan,
            first=self.first if self.first is not None else later.first,
            bits=self.bits + later.bits,
        )


def _larger(left: _N | None, right: _N | None) -> _N | None:
    if left is None or right is None:
        return left if right is None else right
    return max(left, right)
