"""Comparing an observable that is a file of tensors: logits or activations.

Rows of logits can be compared only as far as both runs saw the same tokens. Once two sequences part, a row of A and the
row of B at the same position answer different questions, so no difference is taken between them; they still count as
not identical.
"""

import re
from collections.abc import Mapping, Sequence
from math import prod

from dis_derivations.artifacts.safetensors_header import TensorInfo
from dis_derivations.comparison.rules import Rule
from dis_derivations.comparison.sequences import Alignment, SequencePair
from dis_derivations.comparison.tensors.comparison import (
    TensorDifference,
    TensorName,
    TensorsComparison,
)
from dis_derivations.comparison.tensors.depth import Depth, depth
from dis_derivations.comparison.tensors.differences import Differences
from dis_derivations.comparison.tensors.elements import (
    Side,
    compare_elements,
    same_bytes,
)
from dis_derivations.comparison.tensors.tensor_file import TensorFile, element_count
from dis_derivations.runs.bundle_documents import CAPTURE_FILES, Bundle

_OF_REQUEST = re.compile(r"(\d{5,})\.(.+)", re.ASCII)


def compare_tensors(
    a: Bundle, b: Bundle, observable: str, alignment: Alignment, rules: Sequence[Rule] = ()
) -> TensorsComparison:
    """Compare a captured observable of two bundles, reading both files in pieces.

    Raises:
        DisError: A file is malformed.
    """
    path = CAPTURE_FILES[observable]
    with (
        TensorFile.of_bundle(a.reader, path) as file_a,
        TensorFile.of_bundle(b.reader, path) as file_b,
    ):
        named_a, named_b = _named(a, file_a), _named(b, file_b)
        order = _ordered(named_a, named_b, alignment)
        pairs = {pair.a.id: pair for pair in alignment.pairs}
        total, different = Differences(), []
        for name in order:
            pair = pairs.get(name.request) if name.request is not None else None
            left, right = named_a.get(name), named_b.get(name)
            difference, found = _compare(name, left, right, pair, rules)
            total += found
            different += [] if difference is None else [difference]
    return TensorsComparison(len(order), tuple(different), total)


def comparable_rows(part: str, rank: int, pair: SequencePair) -> int | None:
    """Return up to which row two tensors of a request answer the same questions; None where all do.

    Row `j` of `prefill`, and of a layer in it (`prefill.layer.003`), follows prompt tokens 0..j. Row `t` of `decode`
    follows the prompt and the output tokens before `t`, so the row in which the sequences part is the last one; where
    only the chosen token's logit was captured (rank 1), that row holds logits of two different tokens. Row `t` of a
    layer in `decode` was computed with output token `t` itself, so the row in which they part is left out.
    """
    phase, _, place = part.partition(".")
    if phase == "prefill":
        return pair.prompt_common
    if not pair.same_prompt:
        return 0
    if pair.same_output:
        return None
    if phase != "decode":
        return 0
    return pair.output_common + (1 if rank > 1 and not place else 0)


def _compare(
    name: TensorName,
    left: Side | None,
    right: Side | None,
    pair: SequencePair | None,
    rules: Sequence[Rule],
) -> tuple[TensorDifference | None, Differences]:
    if left is None or right is None:
        return _one_sided(name, left, right), Differences()
    count, reason = _comparable(name, left.info, right.info, pair)
    found = compare_elements(left, right, count, rules)
    larger = max(element_count(left.info), element_count(right.info))
    rest = larger > count and not (
        left.info.dtype == right.info.dtype
        and left.info.shape == right.info.shape
        and same_bytes(left, right, count * (left.info.end - left.info.begin) // larger)
    )
    if not found.differing and not rest:
        return None, found
    return TensorDifference(name, *_form(left), reason, larger - count, found), found


def _one_sided(name: TensorName, left: Side | None, right: Side | None) -> TensorDifference | None:
    present = left or right
    if present is None:
        return None
    reason = "only A has it" if right is None else "only B has it"
    size = element_count(present.info)
    return TensorDifference(name, *_form(present), reason, size, Differences())


def _comparable(
    name: TensorName, a: TensorInfo, b: TensorInfo, pair: SequencePair | None
) -> tuple[int, str | None]:
    """Return how many elements from the first can be compared, and why not all."""
    if a.dtype != b.dtype:
        return 0, f"A has {a.dtype} and B has {b.dtype}"
    if len(a.shape) != len(b.shape) or a.shape[1:] != b.shape[1:]:
        return 0, f"A has the shape {list(a.shape)} and B has {list(b.shape)}"
    if not a.shape:
        return 1, None
    rows, reason = min(a.shape[0], b.shape[0]), None
    if a.shape[0] != b.shape[0]:
        reason = f"A has {a.shape[0]} rows and B has {b.shape[0]}"
    limit = None if pair is None else comparable_rows(name.part, len(a.shape), pair)
    if limit is not None and limit < max(a.shape[0], b.shape[0]):
        rows = min(rows, limit)
        reason = f"from row {rows} on the two follow different tokens"
    return rows * prod(a.shape[1:]), reason


def _named(bundle: Bundle, file: TensorFile) -> dict[TensorName, Side]:
    named: dict[TensorName, Side] = {}
    for name, info in file.tensors.items():
        match = _OF_REQUEST.fullmatch(name)
        if match is not None and int(match[1]) < len(bundle.sequences):
            key = TensorName(bundle.sequences[int(match[1])].id, match[2])
        else:
            key = TensorName(None, name)
        named[key] = Side(file, info)
    return named


def _ordered(
    a: Mapping[TensorName, Side], b: Mapping[TensorName, Side], alignment: Alignment
) -> list[TensorName]:
    """Return all names: by request in the order of A, then in the order in which a model computes them."""
    ids = [*(pair.a.id for pair in alignment.pairs), *alignment.only_a, *alignment.only_b]
    place = {request: index for index, request in enumerate(ids)}

    def key(name: TensorName) -> tuple[int, Depth, str]:
        request = len(ids) if name.request is None else place[name.request]
        return request, depth(name.part), name.part

    return sorted({*a, *b}, key=key)


def _form(side: Side) -> tuple[str, tuple[int, ...]]:
    return side.info.dtype, side.info.shape
