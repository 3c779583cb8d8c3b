"""Passwords for registries: where Docker and oras look for them, read and written. Each belongs to one host."""

import base64
import binascii
import contextlib
import json
import os
import re
import subprocess
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from dis_derivations.registry.reference import DOCKER_HUB
from dis_derivations.transport.address import Address, UnsafeAddressError, parse_address
from dis_store import strict_json
from dis_store.errors import InvalidInputError, UnfitEnvironmentError

# What Docker Hub is called in Docker's file.
_HUB_KEY = "https://index.docker.io/v1/"
_HELPER = re.compile(r"[A-Za-z0-9_.-]{1,64}")
_HELPER_SECONDS = 30.0
# What helpers say in the place of a name: https://github.com/docker/docker-credential-helpers.
_IDENTITY_USER = "<token>"
_LONGEST_FILE = 4 << 20
# Where well-known registries let their users prove who they are.
_KNOWN_REALMS = {
    DOCKER_HUB: frozenset({("https", "auth.docker.io", 443)}),
    "registry.gitlab.com": frozenset({("https", "gitlab.com", 443)}),
}
Origin = tuple[str, str, int]


@dataclass(frozen=True)
class Login:
    """A name and its password.

    Attributes:
        user: The name.
        password: What proves it.
        is_identity: Whether that is an identity token, as `az acr login` leaves one: servers for tokens alone take it.
    """

    user: str
    password: str = field(repr=False)
    is_identity: bool = False

    @property
    def basic(self) -> str:
        """The value of the header that proves who asks."""
        text = base64.b64encode(f"{self.user}:{self.password}".encode()).decode("ascii")
        return f"Basic {text}"


@dataclass(frozen=True)
class CredentialStore:
    """The passwords of a user.

    Attributes:
        environment: Names the directories: `DOCKER_CONFIG`, `XDG_CONFIG_HOME`, `HOME`.
    """

    environment: Mapping[str, str] = field(repr=False)

    @property
    def path(self) -> Path:
        """Docker's file."""
        home = self.environment.get("HOME", "/")
        return Path(self.environment.get("DOCKER_CONFIG") or Path(home, ".docker"), "config.json")

    @property
    def realms_path(self) -> Path:
        """Where it is written down which other servers may be told a password."""
        named = self.environment.get("XDG_CONFIG_HOME", "")
        base = (
            Path(named)
            if Path(named).is_absolute()
            else Path(self.environment.get("HOME", "/"), ".config")
        )
        return base / "dis" / "realms.json"

    def login(self, host: str) -> Login | None:
        """Return the password for a registry; None where there is none.

        Raises:
            InvalidInputError: The file is malformed.
            UnfitEnvironmentError: The program that keeps passwords fails.
        """
        config = self._read()
        key = _key(host)
        entry = _member(config, "auths").get(key)
        helper = _member(config, "credHelpers").get(key)
        # In the order of Docker and oras: what the file holds itself, the helper of the host, the one of all hosts.
        if isinstance(entry, Mapping):
            if isinstance(entry.get("identitytoken"), str) and entry["identitytoken"]:
                return Login("", entry["identitytoken"], is_identity=True)
            if isinstance(entry.get("auth"), str) and entry["auth"]:
                return _decoded(entry["auth"], self.path)
        helper = helper or config.get("credsStore")
        return None if not helper else self._ask_helper(str(helper), key)

    def places(self) -> list[str]:
        """Return the registries that the file has a password for, or a program that keeps it; no program is asked.

        Raises:
            InvalidInputError: The file is malformed.
        """
        config = self._read()
        keys = [key for name in ("auths", "credHelpers") for key in _member(config, name)]
        hosts = sorted({DOCKER_HUB if key == _HUB_KEY else key for key in keys})
        helper = config.get("credsStore")
        return [*hosts, *([f"those that docker-credential-{helper} knows"] if helper else [])]

    def realms(self, host: str) -> frozenset[Origin]:
        """Return the other servers that may be told the password for a registry.

        Raises:
            InvalidInputError: The file is malformed.
        """
        try:
            data = self.realms_path.read_bytes()
        except OSError:
            return _KNOWN_REALMS.get(host, frozenset())
        try:
            named = strict_json.decode(data, name=str(self.realms_path)).get(host, [])
            chosen = frozenset(parse_address(each).origin for each in named)
        except (AttributeError, TypeError, UnsafeAddressError) as error:
            raise InvalidInputError(
                f"{self.realms_path} is malformed",
                hint="delete it, and log in again: dis login HOST",
            ) from error
        return chosen | _KNOWN_REALMS.get(host, frozenset())

    def store(self, host: str, login: Login, realm: Address | None = None) -> str:
        """Keep a password where Docker and oras look for it; return where that is.

        Args:
            host: The registry.
            login: Whom it belongs to.
            realm: Another server that may be told the password, too.

        Raises:
            UnfitEnvironmentError: It cannot be written.
        """
        config = self._read()
        key = _key(host)
        helper = _member(config, "credHelpers").get(key) or config.get("credsStore")
        if realm is not None:
            self._allow(host, realm)
        if helper:
            self._tell_helper(
                str(helper),
                "store",
                json.dumps({"ServerURL": key, "Username": login.user, "Secret": login.password}),
            )
            config.setdefault("auths", {})[key] = {}
            self._write(self.path, config)
            return f"docker-credential-{helper}"
        config.setdefault("auths", {})[key] = {"auth": login.basic.removeprefix("Basic ")}
        self._write(self.path, config)
        return str(self.path)

    def forget(self, host: str) -> bool:
        """Remove the password for a registry; tell whether there was one.

        Raises:
            UnfitEnvironmentError: It cannot be removed.
        """
        config = self._read()
        key = _key(host)
        helper = _member(config, "credHelpers").get(key) or config.get("credsStore")
        known = _member(config, "auths").pop(key, None) is not None
        if helper and self._ask_helper(str(helper), key) is not None:
            self._tell_helper(str(helper), "erase", key)
            known = True
        if known:
            self._write(self.path, config)
        return known

    def _read(self) -> dict[str, Any]:
        try:
            if not self.path.exists():
                return {}
            with self.path.open("rb") as file:
                found = json.loads(file.read(_LONGEST_FILE))
        except (OSError, ValueError) as error:
            raise self._unreadable() from error
        if not isinstance(found, dict):
            raise self._unreadable()
        return found

    def _unreadable(self) -> InvalidInputError:
        return InvalidInputError(
            f"{self.path} cannot be read",
            cause="it is no configuration of Docker, or not for this user",
            hint="repair it, or name another directory: DOCKER_CONFIG=DIR",
        )

    def _allow(self, host: str, realm: Address) -> None:
        try:
            known = json.loads(self.realms_path.read_bytes())
        except (OSError, ValueError):
            known = {}
        origin = f"{realm.scheme}://{realm.place}/"
        known = known if isinstance(known, dict) else {}
        self._write(self.realms_path, {**known, host: sorted({*known.get(host, []), origin})})

    def _write(self, path: Path, document: Mapping[str, Any]) -> None:
        temporary = path.with_name(f".{path.name}.{os.urandom(8).hex()}")
        try:
            path.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
            descriptor = os.open(temporary, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
            with os.fdopen(descriptor, "w", encoding="utf-8") as file:
                json.dump(document, file, indent="\t")
                file.flush()
                os.fsync(file.fileno())
            temporary.replace(path)
        except OSError as error:
            with contextlib.suppress(OSError):
                temporary.unlink()
            raise UnfitEnvironmentError(
                f"{path} cannot be written", cause=error.strerror
            ) from error

    def _ask_helper(self, helper: str, key: str) -> Login | None:
        answer = self._call_helper(helper, "get", key)
        if answer is None:
            return None
        try:
            document = json.loads(answer)
            user = str(document["Username"])
            return Login(user, str(document["Secret"]), is_identity=user == _IDENTITY_USER)
        except (ValueError, KeyError, TypeError):
            raise _helper_failed(helper, "its answer makes no sense") from None

    def _tell_helper(self, helper: str, verb: str, text: str) -> None:
        if self._call_helper(helper, verb, text) is None:
            raise _helper_failed(helper, f"it refuses to {verb} a password")

    def _call_helper(self, helper: str, verb: str, text: str) -> bytes | None:
        """Return what it says; None when it has nothing. The text goes through a pipe, never through arguments."""
        if not _HELPER.fullmatch(helper):
            raise _helper_failed(helper[:64], "it has no name that a program can have")
        try:
            done = subprocess.run(  # noqa: S603 - the program that the user's own settings name
                [f"docker-credential-{helper}", verb],
                input=text.encode(),
                capture_output=True,
                timeout=_HELPER_SECONDS,
                check=False,
                env=dict(self.environment),
            )
        except (OSError, subprocess.TimeoutExpired) as error:
            raise _helper_failed(helper, f"it cannot be run ({type(error).__name__})") from None
        return done.stdout if done.returncode == 0 else None


def _helper_failed(helper: str, cause: str) -> UnfitEnvironmentError:
    return UnfitEnvironmentError(
        f"docker-credential-{helper} cannot be used",
        cause=cause,
        hint="Docker's configuration names it (credsStore, credHelpers)",
    )


def _key(host: str) -> str:
    return _HUB_KEY if host == DOCKER_HUB else host


def _member(config: Mapping[str, Any], name: str) -> dict[str, Any]:
    value = config.get(name)
    return value if isinstance(value, dict) else {}


def _decoded(auth: str, path: Path) -> Login:
    try:
        user, colon, password = base64.b64decode(auth, validate=True).decode().partition(":")
    except (binascii.Error, UnicodeDecodeError):
        colon = user = password = ""
    if not colon:
        raise InvalidInputError(f"{path} holds a password that cannot be read")
    return Login(user, password.rstrip("\0"))
