"""A safetensors file of a bundle, read in pieces."""

import os
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
from dis_derivations.runs.bundle_reader import BundleReader


class TensorFile:
    """An open safetensors file; a context manager.

    Attributes:
        tensors: What the file holds, by name, in order of their place in it.

    Raises:
        DisError: The file is malformed or cannot be read.
    """

    def __init__(self, path: Path, name: str) -> None:
        header = read_header(path, name=name)
        self.tensors: Mapping[str, TensorInfo] = header.tensors
        self._start = header.data_start
        self._name = name
        self._stream = path.open("rb")

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
        self._stream.close()

    def header(self) -> bytes:
        """Return everything that comes before the tensors."""
        return os.pread(self._stream.fileno(), self._start, 0)

    def read(self, tensor: TensorInfo, offset: int, length: int) -> bytes:
        """Return `length` bytes of a tensor from its byte `offset`.

        Raises:
            UnreadableWeightsError: The file became shorter since it was opened.
        """
        data = bytearray(length)
        self.read_into(tensor, offset, data)
        return bytes(data)

    def read_into(self, tensor: TensorInfo, offset: int, buffer: bytearray) -> None:
        """Fill a buffer with the bytes of a tensor from its byte `offset` on.

        Raises:
            UnreadableWeightsError: The file became shorter since it was opened.
        """
        place, done = self._start + tensor.begin + offset, 0
        while done < len(buffer):
            read = os.preadv(self._stream.fileno(), [memoryview(buffer)[done:]], place + done)
            if not read:
                raise UnreadableWeightsError(f"{self._name} became shorter while it was read")
            done += read


def element_count(tensor: TensorInfo) -> int:
    """Return how many elements a tensor has."""
    return (tensor.end - tensor.begin) * 8 // DTYPE_BITS[tensor.dtype]
