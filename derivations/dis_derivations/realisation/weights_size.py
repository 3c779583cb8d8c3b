"""How large weights are when an engine loads them, which for a GGUF file is more than the file."""

from dis_derivations.graph.derivation import Derivation
from dis_derivations.graph.keys import fixed_output_key
from dis_derivations.manifest.artifact_groups import is_gguf
from dis_store import Store
from dis_store.digest import Digest
from dis_store.errors import DisError

# A converted number is a bfloat16.
_NUMBER_BYTES = 2


def loaded_size(store: Store, weights: Derivation) -> int:
    """Return the bytes of weights in the form in which they are loaded.

    Args:
        store: Where a GGUF file is looked into, if it is there; otherwise its own size is what is known.
        weights: The fixed output.
    """
    files = weights.fixed_files or []
    size = sum(int(file["size"]) for file in files)
    if not is_gguf([str(file["path"]) for file in files]):
        return size
    known = store.chosen(fixed_output_key(files))
    return size if known is None else max(size, _converted_size(store, known.outputs["out"]) or 0)


def _converted_size(store: Store, digest: Digest) -> int | None:
    from dis_derivations.artifacts.gguf_header import read_gguf_header

    try:
        (file,) = store.files(digest)
        header = read_gguf_header(file.real, name=file.path)
    except DisError:
        # What is wrong with it is for the conversion to say.
        return None
    return _NUMBER_BYTES * sum(tensor.rows * tensor.shape[-1] for tensor in header.tensors.values())
