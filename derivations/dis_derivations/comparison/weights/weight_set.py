"""The weights of an object: the tensors in its files, whatever the files are called."""

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from dis_derivations.runs.bundle_reader import ObjectFiles
from dis_store.digest import Digest
from dis_store.tensors import tensor_set
from dis_store.tensors.tensor_scan import Tensor

Form = tuple[str, tuple[int, ...]]
Identity = tuple[str, str, tuple[int, ...], Digest]


@dataclass(frozen=True)
class Placed:
    """A tensor, and the file that it lies in.

    Attributes:
        path: Where the object has the file.
        file: The digest of the file's content.
        real: The file itself.
    """

    tensor: Tensor
    path: str
    file: Digest
    real: Path

    @property
    def name(self) -> str:
        """What the file calls it."""
        return self.tensor.name

    @property
    def form(self) -> Form:
        """Its type and shape."""
        return (self.tensor.dtype, self.tensor.shape)

    @property
    def identity(self) -> Identity:
        """What makes it a different tensor: its name, form and bytes, but not its place."""
        return (self.tensor.name, *self.form, self.tensor.blake3)

    @property
    def order(self) -> tuple[bytes, str, int]:
        """Where it comes in a list: by its name, then by its place."""
        return (self.tensor.name.encode(), self.path, self.tensor.offset)


@dataclass(frozen=True)
class Weights:
    """All tensors of an object.

    Attributes:
        tensors: By name.
        others: The files that hold no tensors, by path, with the digests of their contents.
    """

    tensors: tuple[Placed, ...]
    others: Mapping[str, Digest]

    @classmethod
    def of(cls, store: ObjectFiles, digest: Digest, below: str = "") -> "Weights":
        """Gather what an object shows, or the file or directory `below` in it.

        Raises:
            IntegrityError: A file had to be read to know its tensors, and is damaged.
        """
        placed: list[Placed] = []
        others: dict[str, Digest] = {}
        for file in store.files(digest):
            path = _relative(file.path, below)
            if path is None:
                continue
            tensors = store.tensors(file)
            placed += (Placed(tensor, path, file.blake3, file.real) for tensor in tensors)
            if not tensors:
                others[path] = file.blake3
        return cls(tuple(sorted(placed, key=lambda each: each.order)), others)

    @property
    def digest(self) -> Digest:
        """The same for the same tensors under the same names: docs/internals/formats/weights.md."""
        return tensor_set.tensor_set_digest(each.tensor for each in self.tensors)

    @property
    def files(self) -> Mapping[str, Digest]:
        """The files with tensors, by path."""
        return {each.path: each.file for each in self.tensors}

    @property
    def bytes(self) -> int:
        """The bytes of all tensors."""
        return sum(each.tensor.length for each in self.tensors)


def _relative(path: str, below: str) -> str | None:
    if not below:
        return path
    if path == below:
        return path.rpartition("/")[2]
    return path[len(below) + 1 :] if path.startswith(f"{below}/") else None
