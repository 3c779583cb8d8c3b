"""What the mock engine answers, as numbers that follow from a hash: the same in dis and in a worker.

A worker runs where dis is not installed, so this file is laid beside its program, and imports nothing but the standard
library.
"""

from collections.abc import Sequence
from hashlib import shake_256

NUMERICS_VERSION = 2
"""Raised whenever a bit of any result may change."""

NOTE = "MOCK ENGINE: these tokens come from no model; nothing here is evidence about one"

CHOSEN_LOGIT = 16.0
# Every other logit is a multiple of this, of 16 bits: between -8 and 8, and exact in float32.
UNIT = 2.0**-12
_PURPOSE = "dis mock 2"


class Answer:
    """The answer to one request: a token and rows of logits for each number.

    Args:
        identifier: The request's id.
        prompt: Its token ids.
        seed: Its seed.
        vocabulary: How many tokens there are.
    """

    def __init__(
        self, identifier: str, prompt: Sequence[int], seed: "int | None", vocabulary: int
    ) -> None:
        self._vocabulary = vocabulary
        self._origin = shake_256(
            f"{_PURPOSE}\n{seed}\n{list(prompt)}\n{identifier}".encode()
        ).digest(32)

    def token(self, number: int) -> int:
        """Return the token at a position of the answer."""
        return int.from_bytes(self._bytes("token", number, 8), "big") % self._vocabulary

    def row(self, phase: str, number: int) -> bytes:
        """Return a row of logits before one is chosen, in units: signed 16-bit integers, little-endian."""
        return self._bytes(phase, number, 2 * self._vocabulary)

    def _bytes(self, purpose: str, number: int, count: int) -> bytes:
        return shake_256(self._origin + f"\n{purpose}\n{number}".encode()).digest(count)
