"""Amounts, rates and times as people read them."""

from dis_command.terminal import size_text
from dis_derivations.realisation.events import Measure

BYTES = "bytes"
_MINUTE, _HOUR = 60, 3600
_SIZES = (("TiB", 1 << 40), ("GiB", 1 << 30), ("MiB", 1 << 20), ("KiB", 1 << 10))
_FEW = 10


def took_text(seconds: float) -> str:
    """Return how long something took: `0.3 s`, `1 min 05 s`."""
    return f"{seconds:.1f} s" if seconds < _MINUTE else time_text(seconds)


def time_text(seconds: float) -> str:
    """Return a time in whole seconds: `7 s`, `1 min 05 s`, `2 h 03 min`."""
    whole = int(seconds)
    if whole < _MINUTE:
        return f"{whole} s"
    if whole < _HOUR:
        return f"{whole // _MINUTE} min {whole % _MINUTE:02d} s"
    return f"{whole // _HOUR} h {whole % _HOUR // _MINUTE:02d} min"


def amount_text(measure: Measure) -> str:
    """Return how much is done: `1.5/2.0 GiB`, `3/8 requests`, `1 token`."""
    if measure.unit == BYTES:
        return _bytes_text(measure.done, measure.total)
    of = "" if measure.total is None else f"/{measure.total}"
    whole = measure.done if measure.total is None else measure.total
    return f"{measure.done}{of} {measure.unit.removesuffix('s') if whole == 1 else measure.unit}"


def rate_text(unit: str, rate: float) -> str:
    """Return how much is done in a second: `210.0 MiB/s`, `85 tokens/s`."""
    if unit == BYTES:
        return f"{size_text(int(rate))}/s"
    return f"{rate:.1f} {unit}/s" if rate < _FEW else f"{rate:.0f} {unit}/s"


def share_of(measure: Measure) -> float | None:
    """Return what part is done, between 0 and 1; None where there is no total."""
    if not measure.total:
        return None
    return min(1.0, measure.done / measure.total)


def _bytes_text(done: int, total: int | None) -> str:
    if total is None:
        return size_text(done)
    for unit, size in _SIZES:
        if total >= size:
            return f"{done / size:.1f}/{total / size:.1f} {unit}"
    return f"{done}/{total} B"
