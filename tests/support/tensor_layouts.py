"""Sets of tensors, drawn at random, and all the ways to lay them out in safetensors files."""

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from math import prod

from hypothesis import strategies as st

from dis_store.digest import Digest
from dis_store.tensors.tensor_scan import Tensor, TensorScan

WIDTHS = {"U8": 1, "BOOL": 1, "F8_E4M3": 1, "I16": 2, "F16": 2, "BF16": 2, "F32": 4, "F64": 8}


@dataclass(frozen=True)
class Raw:
    """A tensor by its bytes."""

    dtype: str
    shape: tuple[int, ...]
    data: bytes


Raws = Mapping[str, Raw]


@st.composite
def raw_tensors(draw: st.DrawFn) -> Raw:
    """Draw a small tensor, an empty one or a scalar too."""
    dtype = draw(st.sampled_from(sorted(WIDTHS)))
    shape = tuple(draw(st.lists(st.integers(0, 4), max_size=3)))
    size = prod(shape) * WIDTHS[dtype]
    return Raw(dtype, shape, draw(st.binary(min_size=size, max_size=size)))


NAMES = st.text(st.characters(exclude_categories=["Cs"]), min_size=1, max_size=12).filter(
    lambda name: name != "__metadata__"
)
"""Names of tensors: any text, control characters and NUL too."""

TENSOR_SETS = st.dictionaries(NAMES, raw_tensors(), max_size=8)


@st.composite
def layouts(draw: st.DrawFn, tensors: Raws) -> list[bytes]:
    """Draw files that hold all of `tensors`: divided, in any order, with any metadata and padding."""
    names = draw(st.permutations(sorted(tensors)))
    cuts = sorted(draw(st.lists(st.integers(0, len(names)), max_size=3)))
    parts = [names[a:b] for a, b in zip([0, *cuts], [*cuts, len(names)], strict=True)]
    return [
        file_of(
            {name: tensors[name] for name in part},
            metadata=draw(st.none() | st.dictionaries(st.text("ab"), st.text("cd"), max_size=2)),
            padding=draw(st.integers(0, 9)),
        )
        for part in parts
    ]


def file_of(tensors: Raws, metadata: Mapping[str, str] | None = None, padding: int = 0) -> bytes:
    """Return a safetensors file of tensors in their order."""
    header: dict[str, object] = {} if metadata is None else {"__metadata__": dict(metadata)}
    data = b""
    for name, raw in tensors.items():
        span = [len(data), len(data) + len(raw.data)]
        header[name] = {"dtype": raw.dtype, "shape": list(raw.shape), "data_offsets": span}
        data += raw.data
    text = json.dumps(header).encode() + b" " * padding
    return len(text).to_bytes(8, "little") + text + data


def scanned(content: bytes, pieces: Sequence[int] = ()) -> tuple[Tensor, ...]:
    """Return what a scan finds in bytes that come in pieces of some lengths, and the rest in one."""
    scan = TensorScan()
    position = 0
    for length in pieces:
        scan.update(content[position : position + length])
        position += length
    scan.update(content[position:])
    return scan.finish()


def expected(tensors: Raws) -> dict[str, tuple[str, tuple[int, ...], Digest]]:
    """Return what must be found of tensors, by name."""
    return {name: (raw.dtype, raw.shape, Digest.of(raw.data)) for name, raw in tensors.items()}


def found(tensors: Sequence[Tensor]) -> dict[str, tuple[str, tuple[int, ...], Digest]]:
    """Return what was found, by name."""
    return {each.name: (each.dtype, each.shape, each.blake3) for each in tensors}
