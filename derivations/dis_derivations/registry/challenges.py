"""What a registry asks of those who want something: the challenges of an answer with status 401."""

import re
from collections.abc import Iterable
from dataclasses import dataclass

_LONGEST = 8192
_SCHEME = re.compile(r"(?:^|,)\s*(basic|bearer)(?=\s|$|,)\s*", re.IGNORECASE)
_PARAMETER = re.compile(r'([a-z_]{1,32})\s*=\s*(?:"((?:[^"\\]|\\.)*+)"|([^\s",]+))', re.IGNORECASE)


@dataclass(frozen=True)
class Challenge:
    """One way to prove who asks.

    Attributes:
        scheme: `basic` or `bearer`.
        realm: For `bearer`, the address that gives tokens.
        service: What the registry calls itself there.
    """

    scheme: str
    realm: str = ""
    service: str = ""


def challenges(headers: Iterable[str]) -> list[Challenge]:
    """Return the challenges that dis understands, of values of `WWW-Authenticate`; one that is too long has none."""
    found = []
    for header in headers:
        if len(header) > _LONGEST:
            continue
        starts = list(_SCHEME.finditer(header))
        ends = [each.start() for each in starts[1:]] + [len(header)]
        for start, end in zip(starts, ends, strict=False):
            parameters = {
                match[1].lower(): re.sub(r"\\(.)", r"\1", match[2])
                if match[2] is not None
                else match[3]
                for match in _PARAMETER.finditer(header, start.end(), end)
            }
            found.append(
                Challenge(
                    start[1].lower(), parameters.get("realm", ""), parameters.get("service", "")
                )
            )
    return found
