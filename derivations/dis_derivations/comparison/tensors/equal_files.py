"""Captures whose files the store knows to be the same; they need not be read."""

from dis_derivations.comparison.sequences import Alignment
from dis_derivations.comparison.tensors.comparison import TensorsComparison
from dis_derivations.comparison.tensors.differences import Differences
from dis_derivations.comparison.tensors.tensor_file import TensorFile, element_count
from dis_derivations.runs.bundle_documents import CAPTURE_FILES, Bundle
from dis_derivations.runs.bundle_reader import StoredBundle


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
    if not same_requests or not alignment.same_order or not _is_one_file(a, b, path):
        return None
    with TensorFile.of_bundle(a.reader, path) as file:
        elements = sum(map(element_count, file.tensors.values()))
        return TensorsComparison(len(file.tensors), (), Differences(compared=elements))


def _is_one_file(a: Bundle, b: Bundle, path: str) -> bool:
    """Whether the store vouches that both captures have the same bytes; a directory's word is not taken."""
    if not isinstance(a.reader, StoredBundle) or not isinstance(b.reader, StoredBundle):
        return False
    digest = a.reader.file_digest(path)
    return digest is not None and digest == b.reader.file_digest(path)
