"""The numbers of a tensor in a GGUF file, row by row, in the order of the checkpoint."""

from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING

from dis_derivations.conversion.gguf_model import ConvertedTensor
from dis_store.errors import IntegrityError

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

_CHUNK_NUMBERS = 1 << 20
# From here on the nearest bfloat16 is infinity.
_TOO_LARGE = 2.0**128 - 2.0**119


def row_blocks(
    tensor: ConvertedTensor, read_into: Callable[["NDArray[np.uint8]", int], object]
) -> Iterator["NDArray[np.float64]"]:
    """Yield the numbers of a tensor, some rows at a time, of shape [rows, length].

    Args:
        tensor: Which; one of a single dimension is a row.
        read_into: Fills an array with the bytes of the file from a place on.

    Raises:
        IntegrityError: A number is not finite, or beyond what bfloat16 can be.
    """
    import numpy as np

    source, order = tensor.source, _row_order(tensor)
    step = max(1, _CHUNK_NUMBERS // source.shape[-1])
    scratch = np.empty(0, np.uint8)
    for start in range(0, source.rows, step):
        wanted = order[start : start + step]
        # All that lies between is read in one piece: rows change their places within a head alone.
        first, end = int(wanted.min()), int(wanted.max()) + 1
        size = (end - first) * source.row_bytes
        # Memory that is new for every piece would be made by the kernel again and again.
        scratch = scratch if scratch.size >= size else np.empty(size, np.uint8)
        read_into(scratch[:size], source.begin + first * source.row_bytes)
        rows = scratch[:size].reshape(-1, source.row_bytes)
        if tensor.heads is not None:
            rows = rows[wanted - first]
        with np.errstate(invalid="ignore"):
            numbers = dequantised(rows, source.format.name).astype(np.float64)
        if not (np.abs(numbers) < _TOO_LARGE).all():
            raise IntegrityError(
                f"the weights are damaged: {source.name} holds a number that is not finite",
                hint="fetch the weights again from their publisher",
            )
        yield numbers


def dequantised(rows: "NDArray[np.uint8]", format_name: str) -> "NDArray[np.float32]":
    """Return the numbers that rows of bytes stand for, as the format defines them.

    Args:
        rows: Shape [rows, bytes of a row].
        format_name: Such as `Q4_1`; one of `artifacts.gguf_types.FORMATS`.
    """
    import numpy as np
    from gguf.constants import GGMLQuantizationType
    from gguf.quants import dequantize

    # A damaged scale makes numbers that are not finite, which are looked for afterwards.
    with np.errstate(over="ignore", invalid="ignore"):
        found: NDArray[np.float32] = dequantize(
            np.ascontiguousarray(rows), GGMLQuantizationType[format_name]
        )
    return found


def _row_order(tensor: ConvertedTensor) -> "NDArray[np.intp]":
    """Return from which row of the file each row of the checkpoint comes.

    The file has the two numbers that are rotated together beside each other; the checkpoint has first all first ones
    of a head, then all second ones.
    """
    import numpy as np

    rows = np.arange(tensor.source.rows)
    if tensor.heads is None:
        return rows
    return rows.reshape(tensor.heads, -1, 2).swapaxes(1, 2).reshape(-1)
