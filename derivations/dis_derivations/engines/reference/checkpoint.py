"""A checkpoint in Hugging Face's safetensors form: which file holds which tensor, read on demand.

Opening reads headers alone. A tensor is never in memory as it lies in its file: `read` takes it block
by block and widens each into doubles, which is exact for every dtype here.
"""

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from math import prod
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from dis_derivations.artifacts.regular_file import read_whole
from dis_derivations.artifacts.safetensors_header import TensorInfo, read_header
from dis_derivations.artifacts.weight_file import WeightFile
from dis_derivations.engines.reference.fixed_point import Floats
from dis_store import strict_json
from dis_store.errors import (
    IntegrityError,
    InvalidInputError,
    UnfitEnvironmentError,
    UnsupportedError,
)

SINGLE_FILE = "model.safetensors"
INDEX_FILE = "model.safetensors.index.json"
_BLOCK_NUMBERS = 1 << 16


def _widen_bfloat16(raw: NDArray[Any]) -> Floats:
    # A bfloat16 is the upper half of a float32.
    return (raw.astype(np.uint32) << np.uint32(16)).view(np.float32).astype(np.float64)


def _widen(raw: NDArray[Any]) -> Floats:
    return raw.astype(np.float64)


@dataclass(frozen=True)
class _Format:
    """How numbers lie in a file: as what numpy reads them, and how doubles are made of that."""

    stored: np.dtype[Any]
    widen: Callable[[NDArray[Any]], Floats]


_FORMATS: Mapping[str, _Format] = {
    "BF16": _Format(np.dtype("<u2"), _widen_bfloat16),
    "F16": _Format(np.dtype("<f2"), _widen),
    "F32": _Format(np.dtype("<f4"), _widen),
}


@dataclass(frozen=True)
class StoredTensor:
    """A tensor that lies in a file.

    Attributes:
        name: Its name in the checkpoint.
        shape: Its lengths.
        file: Where it lies.
        begin: Of its first byte in the file.
        format: How its numbers lie there.
    """

    name: str
    shape: tuple[int, ...]
    file: WeightFile
    begin: int
    format: _Format

    def read(self, out: Floats) -> None:
        """Write the tensor's numbers into `out`, of the same shape and contiguous.

        Raises:
            IntegrityError: A number is not finite, or cannot be read.
        """
        target = out.reshape(-1)
        for start, block in self._blocks():
            target[start : start + block.size] = block

    def require_finite(self) -> None:
        """Look at every number.

        Raises:
            IntegrityError: A number is not finite, or cannot be read.
        """
        for _ in self._blocks():
            pass

    def _blocks(self) -> Iterator[tuple[int, Floats]]:
        count, size = prod(self.shape), self.format.stored.itemsize
        scratch = np.empty(min(count, _BLOCK_NUMBERS) * size, np.uint8)
        for start in range(0, count, _BLOCK_NUMBERS):
            raw = scratch[: (count - start) * size]
            self.file.read_into(raw, self.begin + start * size)
            block = self.format.widen(raw.view(self.format.stored))
            if not np.isfinite(block).all():
                raise IntegrityError(
                    f"the weights are damaged: {self.name} holds a number that is not finite",
                    hint="fetch the weights again from their publisher",
                )
            yield start, block

    def rows(self, indices: NDArray[np.intp]) -> Floats:
        """Return some rows of the tensor, which is a matrix.

        Raises:
            IntegrityError: A row cannot be read.
        """
        length = self.shape[1] * self.format.stored.itemsize
        begins = range(self.begin, self.begin + self.shape[0] * length, length)
        raw = np.empty((len(indices), length), np.uint8)
        for row, index in zip(raw, indices.tolist(), strict=True):
            self.file.read_into(row, begins[index])
        return self.format.widen(raw.view(self.format.stored))


class Checkpoint:
    """All tensors of a model, each taken at most once."""

    def __init__(self, files: Mapping[str, Path]) -> None:
        """Read the headers.

        Raises:
            InvalidInputError: There are no weights, or they are malformed.
        """
        self._tensors = {
            tensor: located
            for name in _weight_files(files)
            for tensor, located in _tensors_of(name, files[name]).items()
        }
        self._untaken = set(self._tensors)

    def __contains__(self, name: str) -> bool:
        return name in self._tensors

    def take(self, name: str, shape: tuple[int, ...]) -> StoredTensor:
        """Return a tensor that must exist and have this shape.

        Raises:
            InvalidInputError: It is missing or has another shape.
            UnfitEnvironmentError: Its dtype is none of BF16, F16, F32.
        """
        if name not in self._tensors:
            raise InvalidInputError(
                f"the weights lack the tensor {name}",
                cause="config.json describes a model that has it",
                hint="check that config.json belongs to these weights",
            )
        file, begin, found = self._tensors[name]
        if found.shape != shape:
            raise InvalidInputError(
                f"the tensor {name} does not fit config.json",
                cause=f"its shape is {list(found.shape)}, and the configuration needs {list(shape)}",
                hint="check that config.json belongs to these weights",
            )
        if found.dtype not in _FORMATS:
            raise UnsupportedError(
                f"the reference engine does not read {found.dtype} weights",
                cause=f"{name} has that dtype; it reads {', '.join(sorted(_FORMATS))}",
            )
        self._untaken.discard(name)
        return StoredTensor(name, shape, file, begin, _FORMATS[found.dtype])

    def leave_out(self, suffix: str) -> None:
        """Let tensors whose names end in `suffix` be unused."""
        self._untaken = {name for name in self._untaken if not name.endswith(suffix)}

    def require_all_taken(self) -> None:
        """Check that the model uses every tensor.

        Raises:
            UnfitEnvironmentError: A tensor is left: the model is not what its configuration says.
        """
        if self._untaken:
            name = min(self._untaken)
            raise UnfitEnvironmentError(
                f"the reference engine has no use for the tensor {name}",
                cause="the weights hold more than the model that config.json describes",
            )


def _weight_files(files: Mapping[str, Path]) -> list[str]:
    """Return the names of the files that hold the weights, sorted."""
    if INDEX_FILE not in files:
        if SINGLE_FILE not in files:
            raise InvalidInputError(
                f"the model has neither {SINGLE_FILE} nor {INDEX_FILE}",
                hint="the reference engine reads Hugging Face's safetensors checkpoints",
            )
        return [SINGLE_FILE]
    index = strict_json.decode(read_whole(files[INDEX_FILE]), name=INDEX_FILE)
    places = index.get("weight_map") if isinstance(index, dict) else None
    if not isinstance(places, dict) or not all(isinstance(item, str) for item in places.values()):
        raise InvalidInputError(f"{INDEX_FILE} has no weight_map from tensors to files")
    names = sorted(set(places.values()))
    for name in names:
        if name not in files:
            raise InvalidInputError(
                f"the weights lack the file {name}", cause=f"{INDEX_FILE} names it"
            )
    return names


def _tensors_of(name: str, path: Path) -> dict[str, tuple[WeightFile, int, TensorInfo]]:
    """Return the tensors of a file by name: it, the place of their first byte in it, and what its header says."""
    header, file = read_header(path, name=name), WeightFile(path)
    return {
        tensor: (file, header.data_start + info.begin, info)
        for tensor, info in header.tensors.items()
    }
