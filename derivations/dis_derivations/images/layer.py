"""A layer that is made here: a tar archive in which nothing but names, contents and modes counts."""

import hashlib
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path, PurePosixPath

from dis_derivations.images.descriptor import Descriptor
from dis_derivations.images.media_types import OCI_LAYER
from dis_derivations.images.tar_stream import (
    DIRECTORY_MODE,
    FILE_MODE,
    PROGRAM_MODE,
    TAR_END,
    directory_header,
    padding,
    tar_header,
)
from dis_store.digest import Sha256
from dis_store.errors import BuildError

_PIECE = 1 << 20


@dataclass(frozen=True)
class LayerFile:
    """A file of a layer.

    Attributes:
        content: Its bytes, or where they are on this machine.
        executable: Whether it may be executed.
    """

    content: bytes | Path
    executable: bool = False


@dataclass(frozen=True)
class Layer:
    """A layer; not compressed, because compressors change from version to version.

    Attributes:
        files: By path below `/`, without a leading slash.
        directories: Empty directories, with their modes.
        comment: What the history of the image says of it.
    """

    files: Mapping[str, LayerFile]
    directories: Mapping[str, int]
    comment: str

    @cached_property
    def descriptor(self) -> Descriptor:
        """What the layer is; every file is read for it."""
        hasher, size = hashlib.sha256(), 0
        for piece in self.stream():
            hasher.update(piece)
            size += len(piece)
        return Descriptor(OCI_LAYER, Sha256(f"sha256:{hasher.hexdigest()}"), size)

    def stream(self) -> Iterator[bytes]:
        """Yield the archive: directories before what is in them, all in the order of their names.

        Raises:
            BuildError: A file cannot be read, or changes meanwhile.
        """
        modes = dict.fromkeys(self._parents(), DIRECTORY_MODE) | dict(self.directories)
        for name in sorted((*modes, *self.files), key=str.encode):
            if name in modes:
                yield directory_header(name, mode=modes[name])
            else:
                yield from _file(name, self.files[name])
        yield TAR_END

    def _parents(self) -> Iterator[str]:
        for name in (*self.files, *self.directories):
            for parent in PurePosixPath(name).parents:
                if str(parent) != ".":
                    yield str(parent)


def _file(name: str, file: LayerFile) -> Iterator[bytes]:
    mode = PROGRAM_MODE if file.executable else FILE_MODE
    if isinstance(file.content, bytes):
        yield tar_header(name, len(file.content), mode=mode) + file.content
        yield padding(len(file.content))
        return
    try:
        with file.content.open("rb") as stream:
            size = stream.seek(0, 2)
            stream.seek(0)
            yield tar_header(name, size, mode=mode)
            came = 0
            while piece := stream.read(min(_PIECE, size - came)):
                came += len(piece)
                yield piece
    except OSError as error:
        raise BuildError(f"{file.content} cannot be read", cause=error.strerror) from error
    if came != size:
        raise BuildError(f"{file.content} was changed while it was read")
    yield padding(size)
