"""A Sigstore trusted root: the authorities and logs that somebody decided to believe, read from its JSON."""

from collections.abc import Callable
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any

from dis_derivations.trust.public_key import PublicKey
from dis_derivations.trust.strict_base64 import decode_base64
from dis_store import strict_json
from dis_store.digest import Sha256
from dis_store.errors import InvalidInputError

MEDIA_TYPES = tuple(
    f"application/vnd.dev.sigstore.trustedroot{form}"
    for form in ("+json;version=0.1", ".v0.1+json", ".v0.2+json", "+json;version=0.2")
)
_MAX_BYTES = 1 << 16
_NAME = "the trusted root"


@dataclass(frozen=True)
class Period:
    """A span of time; `end` is None where it is open."""

    start: datetime
    end: datetime | None

    def __contains__(self, time: datetime) -> bool:
        return self.start <= time and (self.end is None or time <= self.end)


@dataclass(frozen=True)
class Log:
    """A log: its key, whose fingerprint names it, and when it was in use."""

    key: PublicKey
    period: Period


@dataclass(frozen=True)
class Authority:
    """An authority: certificates in DER, from the one that issues to the one that all rests on, and its time."""

    chain: tuple[bytes, ...]
    period: Period


@dataclass(frozen=True)
class TrustedRoot:
    """Whom to believe.

    Attributes:
        authorities: Who issues certificates.
        certificate_logs: Where certificates are logged, by fingerprint.
        transparency_logs: Where signatures are logged, by fingerprint.
    """

    authorities: tuple[Authority, ...]
    certificate_logs: dict[Sha256, Log]
    transparency_logs: dict[Sha256, Log]

    @classmethod
    def decode(cls, data: bytes) -> "TrustedRoot":
        """Parse a trusted root. Logs with keys of a kind that is not used here are left out.

        Raises:
            InvalidInputError: It is none.
        """
        document = strict_json.decode(data, name=_NAME)
        if not isinstance(document, dict) or document.get("mediaType") not in MEDIA_TYPES:
            raise InvalidInputError(
                f"{_NAME} cannot be read", cause="its mediaType is not one that is known"
            )
        return cls(
            tuple(_each(document, "certificateAuthorities", _authority)),
            _logs(document, "ctlogs"),
            _logs(document, "tlogs"),
        )


def _each(document: dict[str, Any], field: str, read: Callable[[Any], Any]) -> list[Any]:
    listed = document.get(field, [])
    if not isinstance(listed, list):
        raise InvalidInputError(f"{_NAME} is malformed", cause=f"`{field}` is no list")
    try:
        return [read(each) for each in listed]
    except (KeyError, TypeError, ValueError, AttributeError) as error:
        raise InvalidInputError(
            f"{_NAME} is malformed", cause=f"an entry of `{field}` is none"
        ) from error


def _authority(entry: Any) -> Authority:
    chain = [
        decode_base64(each["rawBytes"], name=_NAME, limit=_MAX_BYTES)
        for each in entry["certChain"]["certificates"]
    ]
    if not chain:
        raise ValueError("a chain without certificates")
    return Authority(tuple(chain), _period(entry["validFor"]))


def _logs(document: dict[str, Any], field: str) -> dict[Sha256, Log]:
    found = (log for log in _each(document, field, _log) if log is not None)
    return {log.key.fingerprint: log for log in found}


def _log(entry: Any) -> Log | None:
    der = decode_base64(entry["publicKey"]["rawBytes"], name=_NAME, limit=_MAX_BYTES)
    period = _period(entry["publicKey"]["validFor"])
    try:
        return Log(PublicKey.from_der(der, name=_NAME), period)
    except InvalidInputError:
        return None


def _period(entry: Any) -> Period:
    end = entry.get("end")
    return Period(_time(entry["start"]), None if end is None else _time(end))


def _time(text: str) -> datetime:
    found = datetime.fromisoformat(text)
    return found if found.tzinfo is not None else found.replace(tzinfo=UTC)
