"""What servers refuse and what goes wrong on the way, in words that hold nothing secret."""

import ssl
from typing import NoReturn

import urllib3.exceptions as errors

from dis_derivations.transport.address import Address
from dis_derivations.transport.errors import GONE, NOT_FOUND, RefusedRequestError, TransferError

_UNAUTHORISED, _FORBIDDEN, _OUT_OF_RANGE = 401, 403, 416
_TIMEOUT, _TOO_MANY, _SERVER_ERRORS = 408, 429, range(500, 600)
_LONGEST_CAUSE = 200


def is_transient(status: int) -> bool:
    """Tell whether an answer may be another one a little later."""
    return status in (_TIMEOUT, _TOO_MANY) or status in _SERVER_ERRORS


def refused(address: Address, status: int, answered: Address) -> RefusedRequestError:
    """Return the error for an answer that is no file.

    Args:
        address: What was asked for.
        status: The answer.
        answered: Who said so, after redirects.
    """
    who = answered.place
    if status == _UNAUTHORISED:
        cause, hint = f"{who} wants to know who asks (401)", _password_hint(address)
    elif status == _FORBIDDEN:
        cause, hint = f"{who} does not give it to who asks (403)", _password_hint(address)
    elif status == NOT_FOUND:
        cause, hint = f"{who} says that it is not there (404)", None
    elif status == GONE:
        cause, hint = f"{who} says that it was there and is no more (410)", None
    elif status == _OUT_OF_RANGE:
        cause, hint = f"{who} says that it is shorter than it was (416)", None
    else:
        cause, hint = f"{who} answers with status {status}", None
    return RefusedRequestError(
        f"{address} cannot be fetched", cause=cause, hint=hint, status=status
    )


def _password_hint(address: Address) -> str:
    return f"put your password for {address.host} into ~/.netrc (mode 0600)"


def failed(address: Address, cause: str, *, hint: str | None = None) -> TransferError:
    """Return the error for a transfer that did not work out."""
    return TransferError(f"{address} cannot be fetched", cause=cause, hint=hint)


def nonsense(address: Address, cause: str) -> NoReturn:
    """Refuse an answer that contradicts itself or what was said before."""
    raise failed(address, f"{address.place} {cause}")


def reason(error: BaseException, place: str) -> str:
    """Return why a connection failed. No text of an exception is used that may quote an address or a header."""
    cause = _innermost(error)
    for found, text in (
        (
            isinstance(cause, ssl.SSLCertVerificationError),
            f"the certificate of {place} is not trusted: {_short(_attribute(cause, 'verify_message'))}",
        ),
        (
            isinstance(error, errors.ProxyError),
            f"the proxy on the way to {place} does not let the connection through",
        ),
        (
            isinstance(cause, ssl.SSLError),
            f"no encrypted connection with {place}: {_short(_attribute(cause, 'reason'))}",
        ),
        (
            isinstance(error, errors.NameResolutionError),
            f"there is no server {place}: its name is not known",
        ),
        (
            isinstance(error, errors.ConnectTimeoutError | errors.NewConnectionError),
            f"{place} cannot be reached: {_short(_attribute(cause, 'strerror') or 'no answer in time')}",
        ),
        (isinstance(error, errors.ReadTimeoutError | TimeoutError), f"{place} fell silent"),
        (
            isinstance(cause, OSError) and cause.strerror,
            f"the connection with {place} broke: {_short(_attribute(cause, 'strerror'))}",
        ),
        (isinstance(cause, errors.IncompleteRead), f"{place} broke off"),
    ):
        if found:
            return text
    return f"{place} breaks off, or answers with something that is not HTTP"


def _attribute(error: BaseException, name: str) -> object:
    return getattr(error, name, None)


def is_hopeless(error: BaseException) -> bool:
    """Tell whether trying again is of no use: a certificate does not get better."""
    return isinstance(_innermost(error), ssl.SSLCertVerificationError)


def _innermost(error: BaseException) -> BaseException:
    seen = {id(error)}
    while True:
        inner = error.__cause__ or next(
            (each for each in error.args if isinstance(each, BaseException)), None
        )
        if inner is None or id(inner) in seen:
            return error
        seen.add(id(inner))
        error = inner


def _short(text: object) -> str:
    words = str(text) if text else "no reason given"
    return "".join(c if c.isprintable() else f"\\x{ord(c):02x}" for c in words[:_LONGEST_CAUSE])
