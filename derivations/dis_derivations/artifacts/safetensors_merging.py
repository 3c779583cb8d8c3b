"""Making one safetensors file of the tensors of several, byte for byte and in bounded memory."""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from dis_derivations.artifacts.safetensors_header import TensorInfo, read_header
from dis_derivations.artifacts.weight_file import WeightFile
from dis_store import canonical_json

_ALIGNMENT = 8
_CHUNK_BYTES = 1 << 22


@dataclass(frozen=True)
class Part:
    """A file whose tensors are taken, all of them.

    Attributes:
        path: Where it is.
        renamed: What a tensor is called in the file that is made.
    """

    path: Path
    renamed: Callable[[str], str]


@dataclass(frozen=True)
class _Place:
    """Where the bytes of a tensor lie: in which part, from which byte on."""

    part: int
    begin: int
    tensor: TensorInfo


def merge_safetensors(
    parts: Sequence[Part],
    write: Callable[[bytes], object],
    check_interrupted: Callable[[], None] = lambda: None,
) -> None:
    """Hand a file with the tensors of all parts to `write`, piece by piece, in order.

    It has the form that `SafetensorsWriter` gives to its files: the tensors lie in the order of their names.

    Args:
        parts: Files without metadata.
        write: Takes the bytes.
        check_interrupted: Called between pieces; raises to interrupt.

    Raises:
        UnreadableWeightsError: A part is no safetensors file.
        IntegrityError: A part cannot be read to its end.
        ValueError: Two tensors have one name.
    """
    places = _places(parts)
    header = _header(places)
    write(len(header).to_bytes(8, "little") + header)
    for _, place in sorted(places.items()):
        for piece in _pieces(parts[place.part].path, place):
            check_interrupted()
            write(piece)


def _places(parts: Sequence[Part]) -> dict[str, _Place]:
    places: dict[str, _Place] = {}
    for number, part in enumerate(parts):
        header = read_header(part.path)
        for name, tensor in header.tensors.items():
            if (renamed := part.renamed(name)) in places:
                raise ValueError(f"two tensors are called {renamed!r}")
            places[renamed] = _Place(number, header.data_start + tensor.begin, tensor)
    return places


def _header(places: dict[str, _Place]) -> bytes:
    document: dict[str, Any] = {}
    position = 0
    for name, place in sorted(places.items()):
        end = position + place.tensor.end - place.tensor.begin
        document[name] = {
            "dtype": place.tensor.dtype,
            "shape": list(place.tensor.shape),
            "data_offsets": [position, end],
        }
        position = end
    header = canonical_json.encode(document)
    return header + b" " * (-len(header) % _ALIGNMENT)


def _pieces(path: Path, place: _Place) -> Iterator[bytes]:
    file, end = WeightFile(path), place.begin + place.tensor.end - place.tensor.begin
    for begin in range(place.begin, end, _CHUNK_BYTES):
        piece = bytearray(min(end - begin, _CHUNK_BYTES))
        file.read_into(piece, begin)
        yield bytes(piece)
