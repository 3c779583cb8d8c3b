"""Captures that are known to be one file; they need not be read, and not be fetched from a registry."""

from dis_derivations.comparison.sequences import Alignment
from dis_derivations.comparison.tensors.comparison import TensorsComparison
from dis_derivations.comparison.tensors.differences import Differences
from dis_derivations.comparison.tensors.tensor_file import TensorFile, element_count
from dis_derivations.runs.bundle_documents import CAPTURE_FILES, Bundle
from dis_derivations.runs.bundle_reader import BundleReader, StoredBundle
from dis_derivations.runs.remote_bundle import RemoteBundle
from dis_store.digest import Digest

_CHUNK_BYTES = 1 << 20


def equal_by_digest(
    a: Bundle, b: Bundle, observable: str, alignment: Alignment
) -> TensorsComparison | None:
    """Return the comparison of an observable that is one file in both runs; None where that is not known.

    Raises:
        DisError: The file is malformed.
    """
    path = CAPTURE_FILES[observable]
    # Tensors are named by the places of requests, so the same file says the same of the same requests only.
    same_requests = [each.id for each in a.sequences] == [each.id for each in b.sequences]
    if not same_requests or not alignment.same_order or not is_one_file(a, b, path):
        return None
    near = at_hand(a, b, path)
    if near is None:
        return TensorsComparison(None, (), Differences(), one_file=True)
    with TensorFile.of_bundle(near.reader, path) as file:
        elements = sum(map(element_count, file.tensors.values()))
        found = Differences(compared=elements)
        return TensorsComparison(len(file.tensors), (), found, one_file=True)


def is_one_file(a: Bundle, b: Bundle, path: str) -> bool:
    """Return whether a file of two bundles is known to have the same bytes.

    The store vouches for what is in it, and a registry's word is compared with what comes. Files of a directory have
    no digest; one is hashed only where the other would have to be fetched, or was left out of what was handed on.
    """
    left, right = (_digest(*pair, path) for pair in ((a.reader, b.reader), (b.reader, a.reader)))
    return left is not None and left == right


def _digest(reader: BundleReader, other: BundleReader, path: str) -> Digest | None:
    if isinstance(reader, StoredBundle):
        return reader.file_digest(path)
    if (entry := reader.left_out().get(path)) is not None:
        return entry.blake3
    is_far = isinstance(other, RemoteBundle) and not other.is_at_hand(path)
    if not is_far and path not in other.left_out():
        return None
    from blake3 import blake3

    hasher = blake3()
    with reader.open(path) as stream:
        while chunk := stream.read(_CHUNK_BYTES):
            hasher.update(chunk)
    return Digest(hasher.hexdigest())


def at_hand(a: Bundle, b: Bundle, path: str) -> Bundle | None:
    """Return a bundle of which a file can be read without fetching it; None where neither is one."""
    for each in (a, b):
        if each.reader.lacks(path):
            continue
        if not isinstance(each.reader, StoredBundle) or each.reader.is_at_hand(path):
            return each
    return None
