"""What a comparison of two sets of weights says, as values; `to_json` is the document of `dis diff --json`."""

from dataclasses import dataclass
from typing import Any

from dis_derivations.comparison.report_json import integer_json, number_json
from dis_derivations.comparison.tensors.differences import Differences
from dis_derivations.comparison.weights.changes import Pair, WeightChanges
from dis_derivations.comparison.weights.weight_set import Placed, Weights
from dis_store.digest import Digest

WEIGHTS_DIFF_KIND = "vllm.deterministic_weights_diff"
SCHEMA_VERSION = 1


@dataclass(frozen=True)
class WeightsSide:
    """One side of a comparison.

    Attributes:
        object: The object that was named.
        below: The file or directory in it that was named; empty for all of it.
        weights: What is there.
    """

    object: Digest
    below: str
    weights: Weights

    def to_json(self) -> dict[str, Any]:
        """Return the side as a JSON object."""
        return {
            "object": str(self.object),
            "path": self.below,
            "weights": str(self.weights.digest),
            "files": len(self.weights.files),
            "tensors": len(self.weights.tensors),
            "bytes": self.weights.bytes,
        }


@dataclass(frozen=True)
class WeightsReport:
    """The answer to `dis diff` for weights.

    Attributes:
        a: What is A.
        b: What is B.
        changes: Which tensors differ.
        found: For each pair of `changes.changed`, how its elements differ; None where shape or type do.
        other_files: The files without tensors that differ, by path.
    """

    a: WeightsSide
    b: WeightsSide
    changes: WeightChanges
    found: tuple[Differences | None, ...]
    other_files: tuple[str, ...]

    @property
    def same(self) -> bool:
        """Whether the weights are the same: exit code 0 of `dis diff`, else 1."""
        return self.changes.same

    @property
    def same_files(self) -> bool:
        """Whether all files are the same, those without tensors too."""
        return self.a.weights.files == self.b.weights.files and not self.other_files

    def answer(self, *, strict: bool) -> bool:
        """Return the verdict that makes the exit code; `strict` asks for the same files."""
        return self.same and (self.same_files or not strict)

    def to_json(self) -> dict[str, Any]:
        """Return the whole report; equal reports give equal documents."""
        changes = self.changes
        return {
            "schema_version": SCHEMA_VERSION,
            "kind": WEIGHTS_DIFF_KIND,
            "a": self.a.to_json(),
            "b": self.b.to_json(),
            "same": self.same,
            "same_files": self.same_files,
            "arrangement": list(changes.arrangement),
            "tensors": changes.compared,
            "tensors_differing": changes.differing,
            "bytes_differing_share": changes.share,
            "changed": [
                _changed_json(pair, found)
                for pair, found in zip(changes.changed, self.found, strict=True)
            ],
            "renamed": [
                {"name": a.name, "a": _tensor_json(a), "b": {"name": b.name, **_tensor_json(b)}}
                for a, b in changes.renamed
            ],
            "added": [{"name": each.name, "b": _tensor_json(each)} for each in changes.added],
            "removed": [{"name": each.name, "a": _tensor_json(each)} for each in changes.removed],
            "other_files": list(self.other_files),
        }


def _changed_json(pair: Pair, found: Differences | None) -> dict[str, Any]:
    a, b = pair
    return {
        "name": a.name,
        "a": _tensor_json(a),
        "b": _tensor_json(b),
        "elements": None if found is None else _elements_json(found),
    }


def _elements_json(found: Differences) -> dict[str, Any]:
    return {
        "compared": found.compared,
        "differing": found.differing,
        "with_nan": found.nan,
        "bits_differing": found.bits,
        "max_abs_diff": number_json(found.max_abs),
        "max_ulp": integer_json(found.max_ulp),
    }


def _tensor_json(placed: Placed) -> dict[str, Any]:
    tensor = placed.tensor
    return {
        "dtype": tensor.dtype,
        "shape": list(tensor.shape),
        "blake3": str(tensor.blake3),
        "file": placed.path,
        "offset": tensor.offset,
        "length": tensor.length,
    }
