"""The number formats of tensors in a GGUF file: which there are, and how many bytes they take."""

from dataclasses import dataclass

GGUF_SUFFIX = ".gguf"
"""How the name of a file in this format ends. It holds a whole model: weights, configuration, tokenizer, template."""


@dataclass(frozen=True)
class BlockFormat:
    """A format: each `values` numbers of a row lie in one block of `size` bytes."""

    name: str
    values: int
    size: int

    def row_bytes(self, length: int) -> int | None:
        """Return the bytes of a row of so many numbers; None where it is no whole number of blocks."""
        blocks, rest = divmod(length, self.values)
        return None if rest else blocks * self.size


FORMATS = {
    0: BlockFormat("F32", 1, 4),
    1: BlockFormat("F16", 1, 2),
    2: BlockFormat("Q4_0", 32, 18),
    3: BlockFormat("Q4_1", 32, 20),
    6: BlockFormat("Q5_0", 32, 22),
    7: BlockFormat("Q5_1", 32, 24),
    8: BlockFormat("Q8_0", 32, 34),
    10: BlockFormat("Q2_K", 256, 84),
    11: BlockFormat("Q3_K", 256, 110),
    12: BlockFormat("Q4_K", 256, 144),
    13: BlockFormat("Q5_K", 256, 176),
    14: BlockFormat("Q6_K", 256, 210),
    30: BlockFormat("BF16", 1, 2),
}
"""The formats that can be read, by their number in a file.

Every number in them is a product of a half-precision scale and small integers, which is exact in single precision, with
at most one sum, which is rounded once. So neither the order of operations nor fused ones can change a bit.
"""

OTHER_FORMATS = {
    4: "Q4_2",
    5: "Q4_3",
    9: "Q8_1",
    15: "Q8_K",
    16: "IQ2_XXS",
    17: "IQ2_XS",
    18: "IQ3_XXS",
    19: "IQ1_S",
    20: "IQ4_NL",
    21: "IQ3_S",
    22: "IQ2_S",
    23: "IQ4_XS",
    24: "I8",
    25: "I16",
    26: "I32",
    27: "I64",
    28: "F64",
    29: "IQ1_M",
    34: "TQ1_0",
    35: "TQ2_0",
    39: "MXFP4",
}
"""The names of formats that cannot, for messages."""


def format_name(number: int) -> str:
    """Return what messages call a format."""
    known = FORMATS.get(number)
    return known.name if known else OTHER_FORMATS.get(number, f"number {number}")
