"""The digest of a set of tensors, whatever files they lie in and in whatever order."""

from collections.abc import Iterable
from typing import Any

from dis_store import canonical_json
from dis_store.digest import Digest
from dis_store.tensors.tensor_scan import Tensor

FORMAT = 1


def tensor_set(tensors: Iterable[Tensor]) -> bytes:
    """Return what the digest is of: canonical JSON (docs/internals/formats/weights.md).

    Each tensor is there once, by name, type, shape and content; they are sorted by these, names and types by their
    bytes in UTF-8.
    """
    distinct = {(each.name, each.dtype, each.shape, each.blake3) for each in tensors}
    in_order = sorted(distinct, key=lambda each: (each[0].encode(), *each[1:]))
    entries: list[dict[str, Any]] = [
        {"blake3": digest, "dtype": dtype, "name": name, "shape": list(shape)}
        for name, dtype, shape, digest in in_order
    ]
    return canonical_json.encode({"format": FORMAT, "tensors": entries, "type": "tensors"})


def tensor_set_digest(tensors: Iterable[Tensor]) -> Digest:
    """Return the BLAKE3 of `tensor_set`: equal for the same tensors under the same names."""
    return Digest.of(tensor_set(tensors))
