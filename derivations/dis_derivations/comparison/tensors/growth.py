"""How the difference between two runs grows, step by step, until their tokens part."""

from collections.abc import Iterator
from typing import Self

import numpy as np

from dis_derivations.comparison.sequences import SequencePair
from dis_derivations.comparison.tensors.elements import Side, compare_elements
from dis_derivations.comparison.tensors.error_curve import ErrorCurve, StepError
from dis_derivations.comparison.tensors.tensor_file import TensorFile
from dis_derivations.runs.bundle import LOGITS_FILE
from dis_derivations.runs.bundle_documents import Bundle
from dis_derivations.runs.recording import tensor_name

# Of one sequence, from the first position that differs.
MAX_STEPS = 4096


class Growth:
    """Follows the decode logits of two bundles; a context manager.

    Raises:
        DisError: A capture is malformed.
    """

    def __init__(self, a: Bundle, b: Bundle) -> None:
        self._a = TensorFile.of_bundle(a.reader, LOGITS_FILE)
        self._b = TensorFile.of_bundle(b.reader, LOGITS_FILE)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *error: object) -> None:
        self._a.__exit__(None, None, None)
        self._b.__exit__(None, None, None)

    def curve(self, pair: SequencePair, first: int = 0) -> ErrorCurve | None:
        """Return how the difference of a sequence grows; None where its logits never differ or cannot be compared.

        Args:
            pair: The sequence in both runs.
            first: A position before which the logits are known to be equal, so that they need not be read.
        """
        name_a, name_b = (tensor_name(each.index, "decode") for each in (pair.a, pair.b))
        if name_a not in self._a.tensors or name_b not in self._b.tensors:
            return None
        left = Side(self._a, self._a.tensors[name_a])
        right = Side(self._b, self._b.tensors[name_b])
        if (
            not pair.same_prompt
            or left.info.dtype != right.info.dtype
            or not left.info.shape
            or left.info.shape[1:] != right.info.shape[1:]
        ):
            return None
        rows = min(left.info.shape[0], right.info.shape[0])
        if not pair.same_output:
            rows = min(rows, pair.output_common + (len(left.info.shape) > 1))
        steps = tuple(_from_first(_steps(left, right, first, rows)))
        parts_at = None if pair.same_output else pair.output_common
        return ErrorCurve(pair.a.id, steps, parts_at) if steps else None


def _steps(left: Side, right: Side, first: int, rows: int) -> Iterator[StepError]:
    width = int(np.prod(left.info.shape[1:], dtype=np.int64))
    for position in range(first, min(rows, first + MAX_STEPS)):
        found = compare_elements(left, right, width, begin=position * width)
        yield StepError(position, found.differing, found.max_abs, found.max_ulp)


def _from_first(steps: Iterator[StepError]) -> Iterator[StepError]:
    """Leave out the steps before the first that differs."""
    begun = False
    for step in steps:
        begun = begun or step.differing > 0
        if begun:
            yield step
