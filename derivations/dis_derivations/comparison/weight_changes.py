"""Which tensors differ between two weights objects of the store."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from itertools import groupby
from pathlib import Path

from dis_derivations.artifacts.safetensors_header import (
    TensorInfo,
    UnreadableWeightsError,
    read_header,
)
from dis_derivations.comparison.elements import Side, same_bytes
from dis_derivations.comparison.json_changes import ABSENT, Change
from dis_derivations.comparison.tensor_file import TensorFile
from dis_derivations.runs.bundle_reader import ObjectFiles
from dis_store.digest import Digest

_SUFFIX = ".safetensors"


@dataclass(frozen=True)
class _Placed:
    file: Path
    content: Digest
    info: TensorInfo


def tensor_changes(store: ObjectFiles, a: Digest, b: Digest) -> tuple[Change, ...]:
    """Return the tensors that differ, by name; a tensor that only moved to another file does not differ.

    Bytes are read only where both sides have a tensor of one shape in files that are not the same, and only up to the
    first difference. An object whose files are not readable safetensors gives no tensors.
    """
    try:
        left, right = _tensors(store, a), _tensors(store, b)
        return tuple(sorted(_changes(left, right), key=lambda change: change.name))
    except UnreadableWeightsError:
        return ()


def _tensors(store: ObjectFiles, digest: Digest) -> dict[str, _Placed]:
    return {
        name: _Placed(file.real, file.blake3, info)
        for file in store.files(digest)
        if file.path.endswith(_SUFFIX)
        for name, info in read_header(file.real, name=file.path).tensors.items()
    }


def _changes(left: Mapping[str, _Placed], right: Mapping[str, _Placed]) -> Iterator[Change]:
    to_read: list[str] = []
    for name in {*left, *right}:
        a, b = left.get(name), right.get(name)
        if a is None or b is None or (a.info.dtype, a.info.shape) != (b.info.dtype, b.info.shape):
            yield Change("tensor", name, _form(a), _form(b))
        elif a.content != b.content:
            to_read.append(name)

    def files(name: str) -> tuple[Path, Path]:
        return left[name].file, right[name].file

    for (path_a, path_b), names in groupby(sorted(to_read, key=files), key=files):
        with TensorFile(path_a, path_a.name) as file_a, TensorFile(path_b, path_b.name) as file_b:
            for name in names:
                a, b = left[name], right[name]
                if not same_bytes(Side(file_a, a.info), Side(file_b, b.info)):
                    yield Change("tensor", name, _form(a), f"{_form(b)}, other values")


def _form(placed: _Placed | None) -> object:
    return ABSENT if placed is None else f"{placed.info.dtype} {list(placed.info.shape)}"
