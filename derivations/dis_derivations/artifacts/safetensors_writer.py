"""Writing safetensors files whose tensors grow row by row, in bounded memory and deterministically.

Rows wait in one temporary file, whatever tensor they belong to; `finish` then writes the header and
the tensors in the order of their names. The bytes depend on names, values and dtype alone, never on
the order in which rows of different tensors came.
"""

import os
import tempfile
from array import array
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from types import TracebackType
from typing import TYPE_CHECKING, Any, Self

from dis_derivations.artifacts.float_rounding import FORMATS, rounded_bytes
from dis_store import canonical_json

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

_CHUNK_VALUES = 1 << 20
_CHUNK_BYTES = 1 << 22
_ALIGNMENT = 8


@dataclass
class _Growing:
    """A tensor that is still growing: its row's shape and where its bytes lie in the spool."""

    row_shape: tuple[int, ...]
    rows: int = 0
    size: int = 0
    # Begin and length of each run of bytes, alternately: 16 bytes a run, for millions of runs.
    extents: "array[int]" = field(default_factory=lambda: array("Q"))


class SafetensorsWriter:
    """Collects tensors and writes them as one safetensors file; a context manager.

    Args:
        dtype: What every value is rounded to: `F64`, `F32`, `F16` or `BF16`.
        metadata: Strings to put into the file's `__metadata__`.
        spool_directory: Where rows wait, as large as the file becomes; the system's default for
            temporary files unless given.
    """

    def __init__(
        self,
        dtype: str,
        *,
        metadata: Mapping[str, str] | None = None,
        spool_directory: Path | None = None,
    ) -> None:
        if dtype not in FORMATS:
            raise ValueError(f"cannot write the dtype {dtype!r}")
        self._dtype = dtype
        self._metadata = dict(metadata or {})
        self._tensors: dict[str, _Growing] = {}
        self._spool = tempfile.TemporaryFile(dir=spool_directory)  # noqa: SIM115 - closed by close()
        self._position = 0

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.close()

    def close(self) -> None:
        """Drop the rows that wait. Nothing can be added or written afterwards."""
        self._spool.close()

    def append(self, name: str, rows: "NDArray[np.float64]") -> None:
        """Add rows to the tensor called `name`.

        Args:
            name: Not empty, and not `__metadata__`.
            rows: Shape [rows, …]; the rows of one tensor all have the same shape.

        Raises:
            ValueError: The name is not allowed, or the rows have another shape than before.
        """
        if not name or name == "__metadata__":
            raise ValueError(f"a tensor cannot be called {name!r}")
        if rows.ndim == 0:
            raise ValueError(f"tensor {name!r} was given a single value in place of rows")
        tensor = self._tensors.setdefault(name, _Growing(tuple(rows.shape[1:])))
        if tensor.row_shape != tuple(rows.shape[1:]):
            raise ValueError(
                f"tensor {name!r} has rows of shape {tensor.row_shape}, not {tuple(rows.shape[1:])}"
            )
        tensor.rows += rows.shape[0]
        flat = rows.reshape(-1)
        for start in range(0, flat.size, _CHUNK_VALUES):
            self._spool_bytes(
                tensor, rounded_bytes(flat[start : start + _CHUNK_VALUES], self._dtype)
            )

    def _spool_bytes(self, tensor: _Growing, data: bytes) -> None:
        self._spool.write(data)
        if tensor.extents and tensor.extents[-2] + tensor.extents[-1] == self._position:
            tensor.extents[-1] += len(data)
        else:
            tensor.extents.extend((self._position, len(data)))
        tensor.size += len(data)
        self._position += len(data)

    def finish(self, write: Callable[[bytes], object]) -> None:
        """Hand the whole file to `write`, piece by piece, in order."""
        self._spool.flush()
        header = self._header()
        write(len(header).to_bytes(8, "little") + header)
        for _, tensor in sorted(self._tensors.items()):
            for piece in self._pieces(tensor):
                write(piece)

    def _header(self) -> bytes:
        document: dict[str, Any] = {"__metadata__": self._metadata} if self._metadata else {}
        position = 0
        for name, tensor in sorted(self._tensors.items()):
            document[name] = {
                "dtype": self._dtype,
                "shape": [tensor.rows, *tensor.row_shape],
                "data_offsets": [position, position + tensor.size],
            }
            position += tensor.size
        header = canonical_json.encode(document)
        # Trailing spaces are part of the format: they align the data for readers that map the file.
        return header + b" " * (-len(header) % _ALIGNMENT)

    def _pieces(self, tensor: _Growing) -> Iterator[bytes]:
        for run in range(0, len(tensor.extents), 2):
            begin, remaining = tensor.extents[run], tensor.extents[run + 1]
            while remaining:
                piece = os.pread(self._spool.fileno(), min(remaining, _CHUNK_BYTES), begin)
                if not piece:
                    raise OSError("the temporary file of a capture became shorter")
                yield piece
                begin, remaining = begin + len(piece), remaining - len(piece)
