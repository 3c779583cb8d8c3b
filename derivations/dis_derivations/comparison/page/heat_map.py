"""Sequences by positions: where tokens are the same, where only their logits part, where nothing agrees any more."""

from collections.abc import Mapping
from typing import Any

from dis_derivations.comparison.page.markup import Markup, element
from dis_derivations.comparison.report import DiffReport
from dis_derivations.comparison.sequences import SequencePair
from dis_derivations.comparison.tensors.error_curve import ErrorCurve

# What a browser draws without effort.
MAX_ROWS, MAX_POSITIONS = 8000, 4096

_EQUAL, _PART, _AFTER, _NOT_COMPARED = "=", "X", "x", "?"
# The lowest distance of each level, in ULP.
_LEVELS: tuple[tuple[str, int], ...] = (
    ("1", 1), ("2", 4), ("3", 32), ("4", 1024), ("5", 32768), ("6", 1 << 20),
)  # fmt: skip
_COLOURS = {
    _EQUAL: "#9fd8b0", "1": "#fef3c7", "2": "#fde68a", "3": "#fcd34d", "4": "#fbbf24", "5": "#f59e0b",
    "6": "#d97706", _PART: "#b91c1c", _AFTER: "#c9a3a3", _NOT_COMPARED: "#c4c4cc",
}  # fmt: skip
_MEANINGS = {
    _EQUAL: "the same token",
    **{level: f"the same token, logits {least:,} ULP apart or more" for level, least in _LEVELS},
    _PART: "here the tokens part",
    _AFTER: "after the tokens have parted",
    _NOT_COMPARED: "the prompts differ",
}


def heat_map(report: DiffReport) -> Markup:
    """Return the place in which the script draws, with its key."""
    pairs = report.examination.alignment.pairs
    shown = min(len(pairs), MAX_ROWS)
    more = f", the first {shown} of {len(pairs)}" if shown < len(pairs) else ""
    used = set[str]().union(*(row["cells"] for row in heat_map_data(report)["rows"]))
    key = element("p", *(_key(level) for level in _COLOURS if level in used), class_="key")
    about = (
        f"One line a sequence{more}, one column an output position. A click leads to the sequence."
    )
    canvas = element(
        "canvas", id="heat", role="img", aria_label="heat map of sequences and positions"
    )
    cell = element("p", "", id="cell", class_="mono")
    return element("div", element("p", about), key, element("div", canvas, class_="scroll"), cell)


def heat_map_data(report: DiffReport) -> dict[str, Any]:
    """Return what the script draws: a letter for each position of each sequence."""
    curves = {curve.request: curve for curve in report.curves}
    pairs = report.examination.alignment.pairs[:MAX_ROWS]
    rows = [
        {"id": pair.a.id, "index": index, "cells": _cells(pair, curves)}
        for index, pair in enumerate(pairs)
    ]
    return {
        "rows": rows,
        "positions": max((len(str(row["cells"])) for row in rows), default=0),
        "colours": _COLOURS,
        "meanings": _MEANINGS,
    }


def _key(level: str) -> Markup:
    swatch = element(
        "svg", element("rect", width=12, height=12, fill=_COLOURS[level]), width=12, height=12
    )
    return element("label", swatch, f" {_MEANINGS[level]}  ")


def _cells(pair: SequencePair, curves: Mapping[str, ErrorCurve]) -> str:
    length = max(len(pair.a.output_token_ids), len(pair.b.output_token_ids))
    common = pair.output_common
    before = [_EQUAL if pair.same_prompt else _NOT_COMPARED] * common
    curve = curves.get(pair.a.id)
    for step in curve.steps if curve is not None else ():
        if step.differing and step.position < common:
            before[step.position] = _level(step.max_ulp)
    after = _PART + _AFTER * (length - common - 1) if length > common else ""
    return ("".join(before) + after)[:MAX_POSITIONS]


def _level(ulp: int | None) -> str:
    """Return the letter of a distance; what has none, such as NaN, is as far as can be."""
    if ulp is None:
        return _LEVELS[-1][0]
    return next((level for level, least in reversed(_LEVELS) if ulp >= least), _LEVELS[0][0])
