"""The password for a server, from its address or from ~/.netrc. It belongs to one origin and goes nowhere else."""

import base64
import netrc
import os
import stat
from collections.abc import Mapping
from pathlib import Path
from urllib.parse import unquote

from dis_derivations.transport.address import Address

_OTHERS_MAY_READ = 0o077


def authorization(address: Address, environment: Mapping[str, str]) -> dict[str, str]:
    """Return the header that proves who asks, or none."""
    if address.userinfo is not None:
        user, _, password = address.userinfo.partition(":")
        return _basic(unquote(user), unquote(password))
    entry = _entry(address.host.strip("[]"), environment)
    return {} if entry is None else _basic(*entry)


def _basic(user: str, password: str) -> dict[str, str]:
    token = base64.b64encode(f"{user}:{password}".encode()).decode("ascii")
    return {"Authorization": f"Basic {token}"}


def _entry(host: str, environment: Mapping[str, str]) -> tuple[str, str] | None:
    named = environment.get("NETRC")
    home = environment.get("HOME")
    if named is None and home is None:
        return None
    path = Path(named) if named is not None else Path(home or "", ".netrc")
    try:
        status = path.stat()
        # As curl and ftp do not: a password that others can read is none.
        if not stat.S_ISREG(status.st_mode) or status.st_uid != os.geteuid():
            return None
        if status.st_mode & _OTHERS_MAY_READ:
            return None
        found = netrc.netrc(str(path)).hosts.get(host)
    except (OSError, netrc.NetrcParseError, UnicodeDecodeError):
        return None
    if found is None:
        return None
    login, _, password = found
    return login, password or ""
