"""The bytes of a file of weights, read where they are wanted and never mapped.

A page of a mapped file that the disk does not give, or that was cut off, ends the process with SIGBUS, and nobody is
left to say which file it was. What is read is an error in its place.
"""

import os
import weakref
from pathlib import Path
from typing import TYPE_CHECKING

from dis_derivations.artifacts.regular_file import open_regular
from dis_store.environment import reading
from dis_store.errors import IntegrityError

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    Buffer = bytearray | NDArray[np.uint8]


class WeightFile:
    """A file that stays open for as long as somebody may ask for a part of it.

    Args:
        path: Where it is; messages call it that unless a name is given.
        name: What messages call it.

    Raises:
        UnreadableWeightsError: It is missing, or no regular file.
    """

    def __init__(self, path: Path, *, name: str | None = None) -> None:
        self._name = str(path) if name is None else name
        with open_regular(path, name=self._name) as file:
            self._descriptor = os.dup(file.fileno())
        # What lies in it is handed on, and often nobody can say who is the last to need it.
        self._closing = weakref.finalize(self, os.close, self._descriptor)

    def read_into(self, buffer: "Buffer", begin: int) -> None:
        """Fill `buffer`, which has one dimension, with the bytes of the file from `begin` on.

        Raises:
            IntegrityError: The disk does not give them, or the file ends before.
        """
        rest = memoryview(buffer) if isinstance(buffer, bytearray) else buffer.data
        with reading(self._name):
            while rest:
                count = os.preadv(self._descriptor, [rest], begin)
                if count == 0:
                    raise self._ended(begin)
                rest, begin = rest[count:], begin + count

    def close(self) -> None:
        """Close it before the last who holds it goes; once more does nothing."""
        self._closing()

    def _ended(self, at: int) -> IntegrityError:
        return IntegrityError(
            f"{self._name} is shorter than its header says",
            cause=f"it ends at byte {at}, in the middle of a tensor",
            hint="see what else is damaged: dis store verify --all",
        )
