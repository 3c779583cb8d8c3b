"""Comparing the weights of two objects: which tensors differ, and by how much."""

from collections.abc import Iterator
from itertools import groupby
from pathlib import Path

from dis_derivations.comparison.tensors.differences import Differences
from dis_derivations.comparison.tensors.elements import Side, compare_elements
from dis_derivations.comparison.tensors.tensor_file import TensorFile, element_count
from dis_derivations.comparison.weights.changes import Pair, WeightChanges, weight_changes
from dis_derivations.comparison.weights.report import WeightsReport, WeightsSide
from dis_derivations.comparison.weights.weight_set import Weights
from dis_derivations.runs.bundle_reader import ObjectFiles
from dis_store.digest import Digest
from dis_store.errors import InvalidInputError


def weights_side(store: ObjectFiles, digest: Digest, *, below: str, ref: str) -> WeightsSide:
    """Gather one side of a comparison.

    Args:
        store: Where the object is.
        digest: The object.
        below: The file or directory in it that is meant; empty for all of it.
        ref: What messages call it.

    Raises:
        InvalidInputError: There is no tensor.
        IntegrityError: A file had to be read to know its tensors, and is damaged.
    """
    weights = Weights.of(store, digest, below)
    if not weights.tensors:
        raise InvalidInputError(
            f"{ref} is neither a run nor weights",
            cause="it is an object without bundle.json, and no file of it is a safetensors file",
            hint="see the runs that there are: dis list",
        )
    return WeightsSide(digest, below, weights)


def diff_weights(a: WeightsSide, b: WeightsSide) -> WeightsReport:
    """Compare two sets of weights.

    Only tensors of one name, type and shape whose digests differ are read, in pieces; memory stays bounded however
    large they are.

    Raises:
        UnreadableWeightsError: A file changed since its tensors were told.
        IntegrityError: A file cannot be read.
    """
    changes = weight_changes(a.weights, b.weights)
    return WeightsReport(a, b, changes, _found(changes), _other_files(a.weights, b.weights))


def _other_files(a: Weights, b: Weights) -> tuple[str, ...]:
    paths = sorted({*a.others, *b.others})
    return tuple(path for path in paths if a.others.get(path) != b.others.get(path))


def _found(changes: WeightChanges) -> tuple[Differences | None, ...]:
    readable = [pair for pair in changes.changed if pair[0].form == pair[1].form]
    compared = dict(_compared(readable))
    return tuple(compared.get(pair) for pair in changes.changed)


def _compared(pairs: list[Pair]) -> Iterator[tuple[Pair, Differences]]:
    """Compare tensors file by file, so that each file is opened once for each that it is compared with."""

    def files(pair: Pair) -> tuple[Path, Path]:
        return pair[0].real, pair[1].real

    for (path_a, path_b), group in groupby(sorted(pairs, key=files), key=files):
        with TensorFile(path_a, path_a.name) as file_a, TensorFile(path_b, path_b.name) as file_b:
            for pair in group:
                side_a = Side(file_a, file_a.tensors[pair[0].name])
                side_b = Side(file_b, file_b.tensors[pair[1].name])
                yield pair, compare_elements(side_a, side_b, element_count(side_a.info))
