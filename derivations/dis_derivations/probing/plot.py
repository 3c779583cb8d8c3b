"""A verdict as a picture: a row for each check, a cell for each position of the output. SVG, without a library."""

from collections.abc import Mapping, Sequence
from math import log10
from typing import Any

from dis_derivations.comparison.page.markup import Markup, element

_LEFT, _TOP, _ROW, _CELLS, _RIGHT = 150, 56, 26, 560, 230
_BAR, _LEGEND = 16, 62
_HOLDS, _NOT_RUN, _PARTED, _UNCOMPARED = "#b7e4c7", "#e5e7eb", "#7f1d1d", "#f3f4f6"
# From the smallest error to the largest.
_ERRORS = ("#fef3c7", "#fde68a", "#fbbf24", "#f59e0b", "#d97706", "#b45309")
_STYLE = (
    "text{font:12px system-ui,sans-serif;fill:#111827}.title{font-weight:600;font-size:14px}"
    ".small{font-size:11px;fill:#4b5563}"
)


def plot(document: Mapping[str, Any], positions: int) -> str:
    """Return an SVG document.

    Args:
        document: That of a verdict.
        positions: How many output positions the longest sequence has.
    """
    checks = document["checks"]
    width, bottom = _LEFT + _CELLS + _RIGHT, _TOP + _ROW * len(checks)
    scale = _Scale([error for check in checks for error in _sizes(check)])
    title = (
        f"{document['name']} on {document['engine']}: from which output position on results differ"
    )
    body = [
        element("style", Markup(_STYLE)),
        element("rect", width=width, height=bottom + _LEGEND, fill="#ffffff"),
        element("text", title, x=12, y=24, class_="title"),
        element("text", "position 0", x=_LEFT, y=_TOP - 8, class_="small"),
        element(
            "text", str(max(positions - 1, 0)), x=_LEFT + _CELLS, y=_TOP - 8, class_="small", text_anchor="end"
        ),
        *(
            _row(check, _TOP + _ROW * place, max(positions, 1), scale)
            for place, check in enumerate(checks)
        ),
        *_legend(bottom + 26, scale),
    ]  # fmt: skip
    svg = element(
        "svg", *body, xmlns="http://www.w3.org/2000/svg", viewBox=f"0 0 {width} {bottom + _LEGEND}",
        width=width, height=bottom + _LEGEND, role="img",
    )  # fmt: skip
    return f'<?xml version="1.0" encoding="UTF-8"?>\n{svg}\n'


class _Scale:
    """Colours of errors, by powers of ten."""

    def __init__(self, sizes: Sequence[float]) -> None:
        self.low, self.high = (min(sizes), max(sizes)) if sizes else (0.0, 0.0)

    def colour(self, size: float) -> str:
        if self.high <= self.low:
            return _ERRORS[-1]
        share = (log10(size) - log10(self.low)) / (log10(self.high) - log10(self.low))
        return _ERRORS[round(share * (len(_ERRORS) - 1))]


def _sizes(check: Mapping[str, Any]) -> list[float]:
    """Return the errors of a check that have a size."""
    comparison = check["comparison"]
    errors = [] if comparison is None else [each["largest"] for each in comparison["logit_error"]]
    return [each for each in errors if isinstance(each, int | float) and each > 0]


def _row(check: Mapping[str, Any], top: int, positions: int, scale: _Scale) -> Markup:
    comparison = check["comparison"]
    name = element("text", check["check"], x=_LEFT - 10, y=top + 13, text_anchor="end")
    said = element("text", _said(check), x=_LEFT + _CELLS + 10, y=top + 13)
    if comparison is None:
        reason = element("title", check["reason"] or "")
        return element("g", reason, name, _bar(0, 1, 1, top, _NOT_RUN), said)
    compared = min(comparison["positions"], positions)
    cells = [
        _bar(0, positions, positions, top, _UNCOMPARED),
        _bar(0, compared, positions, top, _HOLDS),
    ]
    cells += [
        _bar(step["position"], 1, positions, top, scale.colour(step["largest"]))
        for step in comparison["logit_error"]
        if isinstance(step["largest"], int | float) and step["largest"] > 0
    ]
    parting = comparison["first_token_divergence"]
    if parting is not None:
        place = min(parting["position"], positions - 1)
        x = _LEFT + _CELLS * (place + 0.5) / positions
        cells.append(element("circle", cx=round(x, 1), cy=top + _BAR / 2, r=5, fill=_PARTED))
    return element("g", name, *cells, said)


def _bar(start: int, length: int, positions: int, top: int, colour: str) -> Markup:
    x, width = (round(_CELLS * each / positions, 2) for each in (start, length))
    return element("rect", x=_LEFT + x, y=top, width=width, height=_BAR, fill=colour)


def _said(check: Mapping[str, Any]) -> str:
    comparison = check["comparison"]
    if comparison is None or comparison["largest_logit_error"] is None:
        return str(check["answer"])
    error = comparison["largest_logit_error"]
    shown = f"{error:.3g}" if isinstance(error, int | float) else error
    return f"{check['answer']}, logit error up to {shown}"


def _legend(top: int, scale: _Scale) -> list[Markup]:
    entries = [(_HOLDS, "the same bits"), (_NOT_RUN, "not run")]
    if scale.high > 0:
        entries += [
            (_ERRORS[0], f"logits differ, {scale.low:.2g}"),
            (_ERRORS[-1], f"to {scale.high:.2g}"),
            (_PARTED, "the first other token"),
            (_UNCOMPARED, "nothing to compare"),
        ]
    return [
        element(
            "g",
            element("rect", x=20 + 155 * place, y=top, width=12, height=12, fill=colour),
            element("text", text, x=38 + 155 * place, y=top + 10, class_="small"),
        )
        for place, (colour, text) in enumerate(entries)
    ]
