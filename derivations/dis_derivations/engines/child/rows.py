"""Numbers as they come through the pipe: token ids, and rows in the formats of engines."""

from array import array
from collections.abc import Iterable
from typing import TYPE_CHECKING

from dis_derivations.engines.child.messages import Tensor

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

_WHOLE = {"float64": "<f8", "float32": "<f4", "float16": "<f2"}


def token_bytes(ids: Iterable[int]) -> bytes:
    """Return token ids as 32-bit little-endian integers."""
    import sys

    data = array("i", ids)
    if sys.byteorder == "big":
        data.byteswap()
    return data.tobytes()


def widened(tensor: Tensor) -> "NDArray[np.float64]":
    """Return the rows of a tensor as doubles, which every format goes into without a loss."""
    import numpy as np

    if tensor.dtype == "bfloat16":
        # The upper half of a float32.
        bits = np.frombuffer(tensor.data, dtype="<u2").astype(np.uint32) << np.uint32(16)
        values = bits.view(np.float32)
    else:
        values = np.frombuffer(tensor.data, dtype=_WHOLE[tensor.dtype])
    # Of what is no number, some kinds make noise.
    with np.errstate(invalid="ignore"):
        return values.astype(np.float64).reshape(tensor.shape)
