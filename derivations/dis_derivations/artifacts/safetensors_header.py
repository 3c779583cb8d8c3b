"""Reading the header of a weight file; what a header must be is for `dis_store.tensors.safetensors_header` to say."""

import os
from pathlib import Path

from dis_derivations.artifacts.regular_file import (
    UnreadableWeightsError,
    open_regular,
    unreadable,
)
from dis_store.environment import reading
from dis_store.tensors import safetensors_header
from dis_store.tensors.safetensors_header import (
    DTYPE_BITS,
    MAX_HEADER_BYTES,
    MAX_SEPARATORS,
    SafetensorsHeader,
    TensorInfo,
)

__all__ = [
    "DTYPE_BITS",
    "MAX_HEADER_BYTES",
    "MAX_SEPARATORS",
    "SafetensorsHeader",
    "TensorInfo",
    "UnreadableWeightsError",
    "decode_header",
    "read_header",
]


def read_header(path: Path, *, name: str | None = None) -> SafetensorsHeader:
    """Read the header of the file at `path`, which messages call `name` (its path unless given).

    Raises:
        UnreadableWeightsError: The file cannot be read, is truncated, contradicts itself or is not
            safetensors.
        IntegrityError: The disk does not give what is in it.
    """
    label = str(path) if name is None else name
    with open_regular(path, name=label) as file:
        try:
            with reading(path):
                size = os.fstat(file.fileno()).st_size
                return safetensors_header.read_from(
                    file, size, name=label, error=UnreadableWeightsError
                )
        except OSError as error:
            raise unreadable(label, error) from error


def decode_header(raw: bytes, *, data_size: int, name: str) -> SafetensorsHeader:
    """Check the header `raw` of a file called `name` whose data takes `data_size` bytes.

    Raises:
        UnreadableWeightsError: The header is malformed or does not account for every byte of data
            exactly once.
    """
    return safetensors_header.decode_header(
        raw, data_size=data_size, name=name, error=UnreadableWeightsError
    )
