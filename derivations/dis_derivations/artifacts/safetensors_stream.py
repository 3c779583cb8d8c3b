"""Writing a safetensors file whose tensors are known by shape beforehand and by number only as they are written."""

from collections.abc import Callable, Iterable, Mapping
from math import prod
from typing import TYPE_CHECKING, Any

from dis_derivations.artifacts.float_rounding import FORMATS, rounded_bytes
from dis_store import canonical_json

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

_ALIGNMENT = 8


def stream_safetensors(
    write: Callable[[bytes], object],
    dtype: str,
    shapes: Mapping[str, tuple[int, ...]],
    numbers: Callable[[str], Iterable["NDArray[np.float64]"]],
) -> None:
    """Hand a file to `write`, piece by piece, in order; its tensors lie in the order of their names.

    Args:
        write: Takes the bytes.
        dtype: What every number is rounded to: `F64`, `F32`, `F16` or `BF16`.
        shapes: Of each tensor.
        numbers: Returns the numbers of a tensor in pieces, in C order.

    Raises:
        ValueError: A tensor has more or fewer numbers than its shape says.
    """
    header = _header(dtype, shapes)
    write(len(header).to_bytes(8, "little") + header)
    for name, shape in sorted(shapes.items()):
        left = prod(shape)
        for piece in numbers(name):
            left -= piece.size
            write(rounded_bytes(piece, dtype))
        if left:
            raise ValueError(
                f"tensor {name!r} of shape {shape} came with {prod(shape) - left} numbers"
            )


def _header(dtype: str, shapes: Mapping[str, tuple[int, ...]]) -> bytes:
    # Loaders of PyTorch refuse a file that does not say that it is for them.
    document: dict[str, Any] = {"__metadata__": {"format": "pt"}}
    position = 0
    for name, shape in sorted(shapes.items()):
        end = position + prod(shape) * FORMATS[dtype].width
        document[name] = {"dtype": dtype, "shape": list(shape), "data_offsets": [position, end]}
        position = end
    header = canonical_json.encode(document)
    # Trailing spaces are part of the format: they align the data for readers that map the file.
    return header + b" " * (-len(header) % _ALIGNMENT)
