"""The `gguf` builder: weights of the GGUF form become a checkpoint of Hugging Face's form."""

from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING

from dis_derivations.realisation.building import BuildContext
from dis_derivations.realisation.events import Measure
from dis_derivations.tokenization.tokenizer_files import (
    CHAT_TEMPLATE,
    TOKENIZER,
    TOKENIZER_CONFIG,
    load_tokenizer,
)
from dis_store import canonical_json
from dis_store.contents import ResolvedFile, changed
from dis_store.digest import Digest
from dis_store.environment import reading
from dis_store.errors import BuildError
from dis_store.hashing import hash_descriptor

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    from dis_derivations.conversion.gguf_checkpoint import GgufCheckpoint
    from dis_derivations.conversion.gguf_tokenizer import GgufTokenizer

WEIGHTS_FILE = "model.safetensors"
CONFIG_FILE = "config.json"
GENERATION_CONFIG = "generation_config.json"


class GgufBuilder:
    """Makes `weights`, `tokenizer`, `config` and `chat_template`: the parts of a model, each an object of its own.

    The same file makes the same bytes on every machine. `chat_template` is empty where the file has none.
    """

    version = 1

    def build(self, context: BuildContext) -> Mapping[str, Digest]:
        """Convert the one file of the input.

        Raises:
            UnsupportedWeightsError: It holds something that is not converted.
            UnreadableWeightsError: It is malformed.
            IntegrityError: It cannot be read, or is not what came into the store, or a number in it is not finite.
        """
        from dis_derivations.conversion.gguf_checkpoint import read_checkpoint

        (file,) = context.store.files(context.inputs["gguf"].object)
        _verify(context, file)
        checkpoint = read_checkpoint(file.real, name=file.path)
        context.log.write(
            f"{file.path}: {checkpoint.config['model_type']}, {len(checkpoint.model.tensors)} tensors"
        )
        documents = _documents(checkpoint)
        return {
            "weights": _weights(context, file, checkpoint),
            **{output: _tree(context, files) for output, files in documents.items()},
        }


def _documents(checkpoint: "GgufCheckpoint") -> dict[str, dict[str, bytes]]:
    """Return the small files of each output."""
    tokenizer = checkpoint.tokenizer
    template = tokenizer.chat_template
    return {
        "tokenizer": _tokenizer_files(tokenizer),
        "config": {
            CONFIG_FILE: canonical_json.encode(checkpoint.config),
            GENERATION_CONFIG: canonical_json.encode(dict(tokenizer.special_ids)),
        },
        "chat_template": {} if template is None else {CHAT_TEMPLATE: template.encode("utf-8")},
    }


def _tokenizer_files(tokenizer: "GgufTokenizer") -> dict[str, bytes]:
    files = {
        TOKENIZER: canonical_json.encode(dict(tokenizer.tokenizer)),
        TOKENIZER_CONFIG: canonical_json.encode(dict(tokenizer.tokenizer_config)),
    }
    load_tokenizer(files)  # refuses what the library does not take, before anything is written
    return files


def _tree(context: BuildContext, files: Mapping[str, bytes]) -> Digest:
    with context.store.new_tree() as tree:
        for path, data in files.items():
            tree.write_bytes(path, data)
        return tree.register()


def _weights(context: BuildContext, file: ResolvedFile, checkpoint: "GgufCheckpoint") -> Digest:
    from dis_derivations.artifacts.safetensors_stream import stream_safetensors
    from dis_derivations.artifacts.weight_file import WeightFile
    from dis_derivations.conversion.gguf_numbers import row_blocks

    tensors = checkpoint.model.tensors
    shapes = {name: tensor.source.shape for name, tensor in tensors.items()}
    total = sum(tensor.source.rows * tensor.source.shape[-1] for tensor in tensors.values())
    gauge = context.gauge("converting", Measure("numbers", 0, total))
    opened = WeightFile(file.real)

    def numbers(name: str) -> "Iterator[NDArray[np.float64]]":
        for block in row_blocks(tensors[name], opened.read_into):
            context.check_interrupted()
            gauge.add(block.size)
            yield block

    with context.store.new_tree(expected_bytes=2 * total) as tree:
        with tree.create(WEIGHTS_FILE) as written:
            stream_safetensors(written.write, "BF16", shapes, numbers)
        return tree.register()


def _verify(context: BuildContext, file: ResolvedFile) -> None:
    """Hash the file again: what is converted must be what was locked."""
    gauge = context.gauge("verifying the file", Measure("bytes", 0, file.size))

    def count(amount: int) -> None:
        context.check_interrupted()
        gauge.add(amount)

    try:
        with reading(file.real), file.real.open("rb") as opened:
            found = hash_descriptor(opened.fileno(), on_bytes=count)[1]
    except OSError as error:
        raise BuildError(f"cannot read {file.real}", cause=error.strerror) from error
    if found != file.blake3:
        raise changed(file, f"its BLAKE3 is {found}, and must be {file.blake3}")
