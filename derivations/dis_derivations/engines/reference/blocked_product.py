"""Matrix products of few rows, cut into blocks that stay on one core each.

A product of two rows reads every weight for four operations: memory is its limit. BLAS libraries
copy the weights into packed form first and lose half of it. Blocks this small are not packed by
OpenBLAS's kernels for small matrices, are never split among its threads, and several of them run at
once on threads of our own. The rows of one or two sequences are products of a matrix with a vector,
one after the other while the block is in the cache: that takes half the time of one with a matrix
so narrow. How a product is cut cannot change a bit: its sums are exact.

Everything here is `np.dot`, which lets other threads of Python go on; `np.matmul` of numpy 2 does not.
"""

import os
from concurrent.futures import ThreadPoolExecutor
from functools import cache
from threading import Lock

import numpy as np

from dis_derivations.engines.reference.fixed_point import Floats
from dis_derivations.engines.reference.machine import loaded_openblas

MOST_ROWS = 8
"""Above this many rows the libraries' own blocking is faster."""

_MOST_SINGLE_ROWS = 4
"""Up to this many rows are multiplied one by one."""

# Half of a core's second cache; and as many products as OpenBLAS leaves on one thread.
_BLOCK_WEIGHTS = 1 << 17
_BLOCK_PRODUCTS = 250_000
_LEAST_WEIGHTS_PER_THREAD = 1 << 17


def blocked_product(rows: Floats, weights: Floats, out: Floats | None = None) -> Floats:
    """Return rows times the transposed weights, [rows, inputs] by [outputs, inputs]: `out` if given."""
    outputs, inputs = weights.shape
    result = np.empty((len(rows), outputs)) if out is None else out
    each = _BLOCK_WEIGHTS if len(rows) <= _MOST_SINGLE_ROWS else _BLOCK_PRODUCTS // len(rows)
    step = max(8, each // inputs)
    shares = thread_shares(weights)
    blocks = _Blocks(rows, weights, result, step)
    others = [_pool().submit(blocks.multiply) for _ in range(shares - 1)]
    blocks.multiply()
    for other in others:
        # One that has not begun has nothing left to do.
        if not other.cancel():
            other.result()
    return result


def thread_shares(weights: Floats) -> int:
    """Return how many threads it pays to share a product with these weights among."""
    return max(1, min(threads(), weights.size // _LEAST_WEIGHTS_PER_THREAD))


class PairProduct:
    """The products of one matrix with two rows that always lie in the same place, on this thread.

    For matrices too small to share among threads. The blocks are found once, not for each product.
    """

    def __init__(self, rows: Floats, weights: Floats, results: Floats) -> None:
        """Take where the rows lie, [2, inputs], and where the products go, [2, outputs]."""
        self._first, self._second = rows
        step = max(8, _BLOCK_WEIGHTS // weights.shape[1])
        blocks = [slice(start, start + step) for start in range(0, len(weights), step)]
        self._blocks = [(weights[block], *results[:, block]) for block in blocks]

    def multiply(self) -> None:
        """Multiply what lies there now."""
        first, second = self._first, self._second
        for weights, first_result, second_result in self._blocks:
            np.dot(weights, first, first_result)
            np.dot(weights, second, second_result)


class _Blocks:
    """The blocks of one product; each thread takes the next one that nobody has."""

    def __init__(self, rows: Floats, weights: Floats, result: Floats, step: int) -> None:
        self._rows = rows
        self._weights = weights
        self._result = result
        self._step = step
        self._starts = iter(range(0, len(weights), step))
        self._lock = Lock()

    def multiply(self) -> None:
        """Multiply blocks until none is left."""
        while True:
            with self._lock:
                start = next(self._starts, None)
            if start is None:
                return
            block = slice(start, start + self._step)
            weights = self._weights[block]
            if len(self._rows) <= _MOST_SINGLE_ROWS:
                for row, result in zip(self._rows, self._result, strict=True):
                    np.dot(weights, row, out=result[block])
            else:
                self._result[:, block] = np.dot(self._rows, weights.T)


@cache
def threads() -> int:
    """Return how many threads to compute on: as many as the BLAS uses, which the user can set."""
    known = loaded_openblas().get("threads")
    if known is not None:
        return int(known)
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else 1


@cache
def _pool() -> ThreadPoolExecutor:
    return ThreadPoolExecutor(threads() - 1, thread_name_prefix="dis-product")
