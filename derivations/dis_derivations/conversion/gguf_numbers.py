"""The numbers of a tensor in a GGUF file, row by row, in the order of the checkpoint."""

from collections.abc import Iterator
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
    tensor: ConvertedTensor, data: "NDArray[np.uint8]"
) -> Iterator["NDArray[np.float64]"]:
    """Yield the numbers of a tensor, some rows at a time, of shape [rows, length].

    Args:
        tensor: Which; one of a single dimension is a row.
        data: The bytes of the file.

    Raises:
        IntegrityError: A number is not finite, or beyond what bfloat16 can be.
    """
    import numpy as np

    source = tensor.source
    raw = data[source.begin : source.end].reshape(source.rows, source.row_bytes)
    order = _row_order(tensor)
    step = max(1, _CHUNK_NUMBERS // source.shape[-1])
    for start in range(0, source.rows, step):
        rows = raw[order[start : start + step]]
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
