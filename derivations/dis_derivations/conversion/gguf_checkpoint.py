"""Whether a GGUF file can be converted, told from its header."""

from dataclasses import dataclass
from pathlib import Path
from typing import Any

from dis_derivations.artifacts.gguf_header import read_gguf_header
from dis_derivations.conversion.gguf_model import GgufModel, read_model
from dis_derivations.conversion.gguf_tokenizer import GgufTokenizer, read_tokenizer


@dataclass(frozen=True)
class GgufCheckpoint:
    """All that a file holds, in the terms of Hugging Face, before a number of it is read."""

    model: GgufModel
    tokenizer: GgufTokenizer

    @property
    def config(self) -> dict[str, Any]:
        """`config.json`."""
        return {**self.model.config, **self.tokenizer.special_ids}


def read_checkpoint(path: Path, *, name: str) -> GgufCheckpoint:
    """Return what the file at `path`, which messages call `name`, holds.

    Raises:
        UnsupportedWeightsError: Something in it is not converted; the cause names it.
        UnreadableWeightsError: It is malformed.
    """
    header = read_gguf_header(path, name=name)
    model = read_model(header)
    tokenizer = read_tokenizer(
        header, rows=model.config["vocab_size"], context=model.config["max_position_embeddings"]
    )
    return GgufCheckpoint(model, tokenizer)
