"""The error of the logits before the tokens part, as curves."""

from collections.abc import Sequence
from math import log10

from dis_derivations.comparison.page.markup import Markup, element
from dis_derivations.comparison.tensors.error_curve import ErrorCurve, StepError

_SHOWN = 24
_WIDTH, _HEIGHT, _LEFT, _BOTTOM = 900, 260, 70, 30
_COLOURS = ("#2563eb", "#c2410c", "#15803d", "#7c3aed", "#be185d", "#0e7490", "#a16207", "#475569")
_Range = tuple[float, float]


def error_curves(curves: Sequence[ErrorCurve]) -> Markup | None:
    """Return the largest difference of each step over its position, on a scale of powers of ten.

    None where there is no difference that has a size.
    """
    shown = [curve for curve in curves if _points(curve)][:_SHOWN]
    if not shown:
        return None
    values = [log10(_size(step)) for curve in shown for step in _points(curve)]
    places = [step.position for curve in shown for step in _points(curve)]
    high, low = max(values) + 0.2, min(values) - 0.2
    last = max(*places, 1)
    lines = [
        _curve(curve, _COLOURS[index % len(_COLOURS)], (low, high), last)
        for index, curve in enumerate(shown)
    ]
    axes = [
        element(
            "line", x1=_LEFT, y1=_HEIGHT - _BOTTOM, x2=_WIDTH, y2=_HEIGHT - _BOTTOM, class_="axis"
        ),
        element("line", x1=_LEFT, y1=0, x2=_LEFT, y2=_HEIGHT - _BOTTOM, class_="axis"),
        *_ticks((low, high)),
        element("text", "0", x=_LEFT, y=_HEIGHT - 10),
        element("text", f"position {last}", x=_WIDTH, y=_HEIGHT - 10, text_anchor="end"),
    ]
    svg = element(
        "svg", *axes, *lines, viewBox=f"0 0 {_WIDTH} {_HEIGHT}", width=_WIDTH, height=_HEIGHT, role="img",
        aria_label="logit error by position",
    )  # fmt: skip
    more = (
        f" The first {_SHOWN} of {len(curves)} sequences are drawn." if len(curves) > _SHOWN else ""
    )
    about = f"The largest difference between two logits at each position. A dot is where the tokens part.{more}"
    key = element("p", *(_key(curve, index) for index, curve in enumerate(shown)), class_="key")
    return element("div", element("p", about), svg, key)


def _key(curve: ErrorCurve, index: int) -> Markup:
    swatch = element(
        "svg",
        element("rect", width=12, height=12, fill=_COLOURS[index % len(_COLOURS)]),
        width=12,
        height=12,
    )
    return element("label", swatch, f" {curve.request}  ")


def _points(curve: ErrorCurve) -> list[StepError]:
    return [step for step in curve.steps if 0 < _size(step) < float("inf")]


def _size(step: StepError) -> float:
    return step.max_abs or 0.0


def _x(position: int, last: int) -> float:
    return round(_LEFT + (_WIDTH - _LEFT - 10) * position / last, 1)


def _y(value: float, scale: _Range) -> float:
    low, high = scale
    return round((_HEIGHT - _BOTTOM) * (high - value) / (high - low), 1)


def _curve(curve: ErrorCurve, colour: str, scale: _Range, last: int) -> Markup:
    places = [(_x(step.position, last), _y(log10(_size(step)), scale)) for step in _points(curve)]
    drawn = "M" + " L".join(f"{x} {y}" for x, y in places)
    end = None
    if curve.parts_at is not None and curve.steps[-1].position == curve.parts_at:
        end = element("circle", cx=places[-1][0], cy=places[-1][1], r=4, fill=colour)
    line = element("path", d=drawn, class_="curve", stroke=colour)
    return element("g", element("title", curve.request), line, end)


def _ticks(scale: _Range) -> list[Markup]:
    low, high = scale
    whole = range(int(low) - 1, int(high) + 2)
    inside = [power for power in whole if low <= power <= high]
    step = max(1, len(inside) // 6)
    return [
        element("text", f"{10.0**power:g}", x=_LEFT - 6, y=_y(power, scale) + 4, text_anchor="end")
        for power in inside[::step]
    ]
