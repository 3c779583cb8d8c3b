"""A safetensors file of a bundle, read in pieces."""

from collections.abc import Mapping
from pathlib import Path
from types import TracebackType
from typing import Self

from dis_derivations.artifacts.safetensors_header import (
    DTYPE_BITS,
    TensorInfo,
    UnreadableWeightsError,
    read_header,
)
from dis_derivations.artifacts.weight_file import WeightFile
from dis_derivations.runs.bundle_reader import BundleReader


class TensorFile:
    """An open safetensors file; a context manager.

    Attributes:
        tensors: What the file holds, by name, in order of their place in it.

    Raises:
        UnreadableWeightsError: The file is malformed or cannot be opened.
        IntegrityError: It cannot be read.
    """

    def __init__(self, path: Path, name: str) -> None:
        header = read_header(path, name=name)
        self.tensors: Mapping[str, TensorInfo] = header.tensors
        self._start = header.data_start
        self._file = WeightFile(path, name=name)

    @classmethod
    def of_bundle(cls, reader: BundleReader, path: str) -> Self:
        """Open a file of a bundle."""
        name = f"{path} of {reader.describe()}"
        try:
            return cls(reader.path(path), name)
        except UnreadableWeightsError as error:
            raise reader.refusal(f"{path} is malformed", str(error)) from error

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self._file.close()

    def header(self) -> bytes:
        """Return everything that comes before the tensors."""
        data = bytearray(self._start)
        self._file.read_into(data, 0)
        return bytes(data)

    def read(self, tensor: TensorInfo, offset: int, length: int) -> bytes:
        """Return `length` bytes of a tensor from its byte `offset`.

        Raises:
            IntegrityError: The file cannot be read, or became shorter since it was opened.
        """
        data = bytearray(length)
        self.read_into(tensor, offset, data)
        return bytes(data)

    def read_into(self, tensor: TensorInfo, offset: int, buffer: bytearray) -> None:
        """Fill a buffer with the bytes of a tensor from its byte `offset` on.

        Raises:
            IntegrityError: The file cannot be read, or became shorter since it was opened.
        """
        self._file.read_into(buffer, self._start + tensor.begin + offset)


def element_count(tensor: TensorInfo) -> int:
    """Return how many elements a tensor has."""
    return (tensor.end - tensor.begin) * 8 // DTYPE_BITS[tensor.dtype]
