"""The logits from which a run chose its tokens, row by row."""

from dataclasses import dataclass
from types import TracebackType
from typing import Self

import numpy as np
from numpy.typing import NDArray

from dis_derivations.comparison.tensors.tensor_file import TensorFile
from dis_derivations.comparison.tensors.ulp import FLOAT_FORMATS, Bits, FloatFormat
from dis_derivations.runs.bundle import LOGITS_FILE
from dis_derivations.runs.bundle_documents import Bundle
from dis_derivations.runs.recording import tensor_name

_RANK_OF_FULL_LOGITS = 2


@dataclass(frozen=True)
class LogitsRow:
    """The logits of all tokens at one position.

    Attributes:
        form: Their number format.
        bits: As they were captured.
        values: The same, exact.
    """

    form: FloatFormat
    bits: Bits
    values: NDArray[np.float64]

    def best(self, count: int) -> tuple[int, ...]:
        """Return the ids of the largest, the lowest id first among equals.

        NaN ranks below everything, and is left out where there are two numbers or more.
        """
        scores = np.where(np.isnan(self.values), -np.inf, self.values)
        numbers = len(scores) - int(np.isnan(self.values).sum())
        count = min(count, max(numbers, min(2, len(scores))))
        bound = np.partition(scores, len(scores) - count)[len(scores) - count]
        places = np.flatnonzero(scores >= bound)
        order = np.lexsort((places, -scores[places]))[:count]
        return tuple(int(places[place]) for place in order)

    def distance(self, token: int, other: "LogitsRow", other_token: int) -> int | None:
        """Return the steps between two logits of one number format; None where either is NaN."""
        a = self.bits[token : token + 1]
        b = other.bits[other_token : other_token + 1]
        if self.form.is_nan(a)[0] or other.form.is_nan(b)[0]:
            return None
        return int(self.form.distance(a, b)[0])


class DecodeLogits:
    """The decode logits of a bundle; a context manager, in which the file is opened when a row is asked for."""

    def __init__(self, bundle: Bundle) -> None:
        self._bundle = bundle
        self._file: TensorFile | None = None

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        if self._file is not None:
            self._file.__exit__(kind, error, trace)

    def row(self, index: int, position: int) -> LogitsRow | None:
        """Return the logits from which request number `index` chose its token `position`.

        None where the capture does not have them in full.

        Raises:
            DisError: The file is malformed.
        """
        if not self._bundle.has("logits"):
            return None
        if self._file is None:
            self._file = TensorFile.of_bundle(self._bundle.reader, LOGITS_FILE)
        info = self._file.tensors.get(tensor_name(index, "decode"))
        if info is None or len(info.shape) != _RANK_OF_FULL_LOGITS or position >= info.shape[0]:
            return None
        form = FLOAT_FORMATS.get(info.dtype)
        if form is None or info.shape[1] == 0:
            return None
        width = info.shape[1] * form.itemsize
        bits = form.raw(self._file.read(info, position * width, width))
        return LogitsRow(form, bits, form.values(bits))
