"""Amounts on the command line: lengths of time, numbers of bytes."""

import re
from datetime import timedelta

import click

_DURATION = re.compile(r"(\d{1,18})([smhdw])")
_UNITS = {"s": "seconds", "m": "minutes", "h": "hours", "d": "days", "w": "weeks"}
_SIZE = re.compile(r"(\d{1,18})(?:([KMGT])(?:i?B)?)?", re.IGNORECASE)
_FACTORS = {"K": 1 << 10, "M": 1 << 20, "G": 1 << 30, "T": 1 << 40}


def duration(ctx: click.Context, param: click.Parameter, value: str | None) -> timedelta | None:
    """Return a length of time such as `12h` or `30d`."""
    if value is None:
        return None
    match = _DURATION.fullmatch(value)
    try:
        if match is not None:
            return timedelta(**{_UNITS[match[2]]: int(match[1])})
    except OverflowError:
        pass
    raise click.BadParameter(
        f"{value!r} is no length of time; write for example 12h, 30d or 8w", ctx, param
    )


def byte_count(ctx: click.Context, param: click.Parameter, value: str | None) -> int | None:
    """Return a number of bytes such as `10G` or `1048576`; K, M, G and T are powers of 1024."""
    if value is None:
        return None
    match = _SIZE.fullmatch(value)
    if match is None:
        raise click.BadParameter(
            f"{value!r} is no number of bytes; write for example 500M, 10G or 1048576", ctx, param
        )
    return int(match[1]) * (_FACTORS[match[2].upper()] if match[2] else 1)
