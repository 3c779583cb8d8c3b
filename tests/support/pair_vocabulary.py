"""A vocabulary of bytes and pairs of bytes, in which the borders between the pieces of a text show."""

from typing import Any

from checkpoints import END_OF_TEXT, byte_letters

_PAIRED = b" abdelmrstvxyAIZ'019,.;-_(\n\r\t" + "é\u00a0€½".encode() + bytes([0x80, 0x89])


def pair_vocabulary() -> dict[str, Any]:
    """Return the values of a GGUF file that describe it: each pair of some bytes is a token."""
    letters = byte_letters()
    bytes_ = list(dict.fromkeys(_PAIRED))
    pairs = [(letters[first], letters[second]) for first in bytes_ for second in bytes_]
    tokens = [*letters, "<|end|>", *("".join(pair) for pair in pairs)]
    return {
        "tokenizer.ggml.tokens": tokens,
        "tokenizer.ggml.token_type": [
            3 if number == END_OF_TEXT else 1 for number in range(len(tokens))
        ],
        "tokenizer.ggml.merges": [" ".join(pair) for pair in pairs],
    }
