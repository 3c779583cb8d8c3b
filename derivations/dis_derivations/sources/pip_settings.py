"""What the user's pip is set to, as far as it decides how a file of an index is fetched: read, and never written."""

import ast
import os
import subprocess
import sys
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from itertools import takewhile

from dis_derivations.transport.address import Address, UnsafeAddressError, parse_address
from dis_store.errors import BuildError

_SECONDS = 60.0
_DEFAULT_INDEX = "https://pypi.org/simple"
# In this order: variables, the section of the command that is asked, the section of all commands.
_SECTIONS = (":env:", "install", "global")


@dataclass(frozen=True)
class PipSettings:
    """The settings of pip.

    Attributes:
        values: By section and name, as `pip config list` has them; they hold passwords.
    """

    values: Mapping[str, str] = field(repr=False)

    @classmethod
    def read(cls, environment: Mapping[str, str] | None = None) -> "PipSettings":
        """Ask pip. What it says goes through a pipe alone, because addresses of indexes hold passwords.

        Args:
            environment: In place of that of the process.

        Raises:
            BuildError: pip does not say it.
        """
        variables = dict(os.environ if environment is None else environment)
        try:
            said = subprocess.run(
                [sys.executable, "-m", "pip", "--no-input", "config", "list"],
                # As for every call of pip: a file of the user's called pip.py is not pip.
                cwd="/",
                env={**variables, "PIP_DISABLE_PIP_VERSION_CHECK": "1", "PIP_NO_COLOR": "1"},
                stdin=subprocess.DEVNULL,
                capture_output=True,
                timeout=_SECONDS,
                check=True,
            )
        except (OSError, subprocess.SubprocessError) as error:
            # Not what it printed: it quotes what is wrong, and that may be an address with a password.
            raise BuildError(
                "pip does not say how it is set", hint="look what it says: pip config list"
            ) from error
        return cls(
            dict(_setting(line) for line in said.stdout.decode().splitlines() if "=" in line)
        )

    def get(self, name: str) -> str:
        """Return a setting; nothing where it is not set."""
        for section in _SECTIONS:
            if (value := self.values.get(f"{section}.{name}")) is not None:
                return value
        return ""

    def address_of(self, url: str) -> Address:
        """Return an address that pip chose, with the password of the index on the same server if it has one.

        Of several indexes on one server the one with the longest common path counts, as it does for pip.

        Raises:
            UnsafeAddressError: dis does not contact it.
        """
        address = replace(parse_address(url.partition("#")[0]), userinfo=None)
        matching = [each for each in self._indexes() if each.origin == address.origin]
        if not matching:
            return address
        closest = max(matching, key=lambda each: _common(each.path, address.path))
        return replace(address, userinfo=closest.userinfo)

    def names_local_place(self) -> bool:
        """Tell whether an index, or another place for wheels, is a file or a directory of this machine."""
        named = " ".join(map(self.get, ("index-url", "extra-index-url", "find-links"))).split()
        return any(each.startswith("file:") or "://" not in each for each in named)

    def hindrance(self, url: str) -> str | None:
        """Return why only pip can fetch from an address; None where dis can as well."""
        try:
            address = self.address_of(url)
        except UnsafeAddressError as error:
            return error.cause or error.what
        if self.get("client-cert"):
            return "pip is set to prove who it is with a certificate (client-cert)"
        if address.scheme == "https" and {address.host, f"{address.host}:{address.port}"} & set(
            self.get("trusted-host").split()
        ):
            return f"pip is set to trust {address.place} without a certificate (trusted-host)"
        return None

    def environment(self, variables: Mapping[str, str]) -> dict[str, str]:
        """Return an environment in which dis trusts the authorities and goes through the proxy that pip is set to."""
        changed = dict(variables)
        if certificates := self.get("cert"):
            changed["SSL_CERT_FILE"] = certificates
        if proxy := self.get("proxy"):
            changed["https_proxy"] = proxy
        return changed

    def _indexes(self) -> list[Address]:
        named = [self.get("index-url") or _DEFAULT_INDEX]
        if self.get("no-index").lower() in {"1", "true", "yes", "on"}:
            named = []
        else:
            named += self.get("extra-index-url").split()
        found = []
        for text in (*named, *self.get("find-links").split()):
            try:
                found.append(parse_address(text))
            except UnsafeAddressError:
                continue  # a directory, or a server that pip alone contacts
        return found


def _setting(line: str) -> tuple[str, str]:
    """Return what a line says: the name, and the value, which pip writes as Python does."""
    name, _, value = line.partition("=")
    try:
        return name, str(ast.literal_eval(value))
    except (ValueError, SyntaxError):
        return name, value


def _common(first: str, second: str) -> int:
    """Return how many parts two paths have in common from their beginning."""
    pairs = zip(first.split("/"), second.split("/"), strict=False)
    same = takewhile(lambda pair: pair[0] == pair[1], pairs)
    return len(list(same))
