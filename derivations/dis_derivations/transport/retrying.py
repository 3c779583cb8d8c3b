"""When to ask again: later and later, never all at once, and not before the server says."""

import email.utils
import random
from datetime import UTC, datetime

import urllib3.exceptions as errors

from dis_derivations.transport import refusals
from dis_derivations.transport.address import Address
from dis_derivations.transport.conduct import Conduct
from dis_derivations.transport.errors import TransferError

LATER = "run the same command again later: it goes on from what has arrived"
_UNREACHABLE = "see whether its name and port are right; then run the same command again later"
# Clients that failed together must not come back together; nothing depends on how good the chance is.
_chance = random.SystemRandom()


class ServerBusyError(Exception):
    """A server cannot answer now.

    Attributes:
        status: What it answered.
        retry_after: Seconds after which it wants to be asked again; None where it does not say.
    """

    def __init__(self, status: int, retry_after: float | None) -> None:
        super().__init__(status)
        self.status = status
        self.retry_after = retry_after


def delay_before(attempt: int, conduct: Conduct, retry_after: float | None) -> float | None:
    """Return the seconds to wait before an attempt, or None when it must not be made.

    Args:
        attempt: 1 for the second one.
        conduct: The bounds.
        retry_after: What the server asked for.
    """
    if attempt >= conduct.attempts:
        return None
    if retry_after is not None and retry_after > conduct.longest_retry_after:
        return None
    longest = min(conduct.longest_delay, conduct.first_delay * float(2 ** (attempt - 1)))
    return max(retry_after or 0.0, longest * _chance.uniform(0.5, 1.0))


def seconds_of(header: str | None) -> float | None:
    """Return the seconds that a `Retry-After` asks for, as a number or as a date; None where it is neither."""
    if header is None:
        return None
    text = header.strip()
    if text.isascii() and text.isdigit() and len(text) < 10:  # noqa: PLR2004 - decades
        return float(text)
    try:
        moment = email.utils.parsedate_to_datetime(text)
    except (ValueError, TypeError, OverflowError):
        return None
    if moment.tzinfo is None:
        moment = moment.replace(tzinfo=UTC)
    return max(0.0, (moment - datetime.now(UTC)).total_seconds())


class Trouble:
    """How often in a row something failed, and how long to wait before it is tried again."""

    def __init__(self, conduct: Conduct) -> None:
        self._conduct = conduct
        self._failures = 0

    def delay_after(self, error: BaseException, progress: int = 0) -> float | None:
        """Return the seconds to wait after a failure; None when it is not to be tried again.

        Args:
            error: What went wrong.
            progress: The bytes that had come before.
        """
        if progress >= self._conduct.progress_bytes:
            self._failures = 0
        self._failures += 1
        if refusals.is_hopeless(error):
            return None
        # Who does not answer at all is given up sooner, so that a mirror gets its turn.
        count = 2 * self._failures if _is_unreachable(error) else self._failures
        retry_after = error.retry_after if isinstance(error, ServerBusyError) else None
        return delay_before(count, self._conduct, retry_after)


def gave_up(address: Address, error: BaseException, *, hint: str = LATER) -> TransferError:
    """Return the error for what was tried often enough.

    Args:
        address: Who was asked.
        error: How it ended.
        hint: What helps, where there is a server at all.
    """
    if isinstance(error, ServerBusyError):
        later = ""
        if error.retry_after is not None:
            later = f", and wants to be asked again in {error.retry_after:.0f} seconds"
        return refusals.failed(
            address, f"{address.place} answers with status {error.status}{later}", hint=hint
        )
    if _is_unreachable(error):
        hint = _UNREACHABLE
    return refusals.failed(address, refusals.reason(error, address.place), hint=hint)


def _is_unreachable(error: BaseException) -> bool:
    return isinstance(error, errors.NewConnectionError | errors.ConnectTimeoutError)
