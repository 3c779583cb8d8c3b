"""What a process may inherit from a strange machine; each function makes this process one of them."""

import locale
import os
import time

_SPAN = 400 * 86_400
_TIME, _TIME_NS = time.time, time.time_ns


def _shift(seconds: int) -> None:
    time.time = lambda: _TIME() + seconds
    time.time_ns = lambda: _TIME_NS() + seconds * 1_000_000_000


def slow_clock() -> None:
    """Let the clock be 400 days behind."""
    _shift(-_SPAN)


def fast_clock() -> None:
    """Let the clock be 400 days ahead."""
    _shift(_SPAN)


def umask_000() -> None:
    """Let everybody write to what is made."""
    os.umask(0o000)


def umask_077() -> None:
    """Let nobody else read what is made."""
    os.umask(0o077)


def new_zone() -> None:
    """Take the time zone from the environment."""
    time.tzset()


def new_locale() -> None:
    """Take the locale from the environment."""
    locale.setlocale(locale.LC_ALL, "")
