"""Reading what settings say of trust: keys, fingerprints, identities; each as JSON, with the file that it is from."""

import re
from datetime import UTC, date, datetime, time
from pathlib import Path
from typing import Any, NoReturn

from dis_derivations.trust.attestation_policy import Identity
from dis_derivations.trust.policy import ROLES, TrustedKey
from dis_derivations.trust.public_key import PublicKey
from dis_store import strict_json
from dis_store.digest import Sha256
from dis_store.errors import InvalidInputError

_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._@-]{0,63}")
_KEY_FIELDS = {"key", "roles", "platforms", "expires"}
_IDENTITY_FIELDS = {"issuer", "subject", "root"}
_FACTS = (str, int, float, bool)


def read_trusted_keys(text: str, origin: str) -> tuple[TrustedKey, ...]:
    """Return the keys of `[trusted-keys.NAME]`.

    Raises:
        InvalidInputError: A table is wrong; the message names the file and the key.
    """
    return tuple(
        _trusted_key(name, table, f"{origin} has a wrong trusted key {name!r}")
        for name, table in _tables(text, origin, "trusted-keys").items()
    )


def read_fingerprints(text: str, origin: str) -> frozenset[Sha256]:
    """Return the fingerprints of `revoked-keys`.

    Raises:
        InvalidInputError: One of them is none.
    """
    listed = strict_json.decode(text.encode("utf-8", "surrogateescape"), name=origin)
    what = f"{origin} has a wrong revoked-keys"
    if not isinstance(listed, list):
        _refuse(what, "it must be a list of fingerprints")
    for each in listed:
        if not isinstance(each, str):
            _refuse(what, "it must be a list of fingerprints")
    try:
        return frozenset(map(Sha256, listed))
    except InvalidInputError as error:
        raise InvalidInputError(
            what, cause=str(error), hint="see the fingerprints of your keys: dis key list"
        ) from error


def read_identities(text: str, origin: str, directory: Path) -> tuple[Identity, ...]:
    """Return the identities of `[trusted-identities.NAME]`.

    Args:
        text: The tables, as JSON.
        origin: The file that they are from.
        directory: Where relative paths in it begin.

    Raises:
        InvalidInputError: A table is wrong.
    """
    found: list[Identity] = []
    for name, table in _tables(text, origin, "trusted-identities").items():
        what = f"{origin} has a wrong trusted identity {name!r}"
        _check_fields(table, _IDENTITY_FIELDS, what)
        if set(table) != _IDENTITY_FIELDS or not all(
            isinstance(value, str) and value for value in table.values()
        ):
            _refuse(what, "it must have an issuer, a subject and a root, as strings")
        root = directory / Path(table["root"]).expanduser()
        found.append(Identity(name, table["issuer"], table["subject"], root))
    return tuple(found)


def setting_of(name: str, key: PublicKey) -> str:
    """Return the lines that trust a key, as a file of settings has them."""
    quoted = name if re.fullmatch(r"[A-Za-z0-9_-]+", name) else f'"{name}"'
    return f'[trusted-keys.{quoted}]\nkey = "{key.to_base64()}"\n'


def _tables(text: str, origin: str, what: str) -> dict[str, dict[str, Any]]:
    tables = strict_json.decode(text.encode("utf-8", "surrogateescape"), name=origin)
    if not isinstance(tables, dict):
        _refuse(f"{origin} has a wrong {what}", "it must be tables")
    for name, table in tables.items():
        if not _NAME.fullmatch(name) or not isinstance(table, dict):
            _refuse(
                f"{origin} has a wrong {what}",
                f"{name!r} is no name of a table: write [{what}.NAME]",
            )
    return tables


def _trusted_key(name: str, table: dict[str, Any], what: str) -> TrustedKey:
    _check_fields(table, _KEY_FIELDS, what)
    key = table.get("key")
    if not isinstance(key, str):
        _refuse(what, "it has no `key`", "print the lines for a key: dis key show NAME --setting")
    roles, platforms = table.get("roles", ["builds"]), table.get("platforms", [])
    if not isinstance(roles, list) or not roles or any(role not in ROLES for role in roles):
        _refuse(what, f"`roles` must be a list of {', '.join(ROLES)}")
    if not isinstance(platforms, list) or not all(map(_is_facts, platforms)):
        _refuse(what, "`platforms` must be a list of tables of facts")
    return TrustedKey(
        name,
        PublicKey.from_base64(key, name=what),
        frozenset(roles),
        tuple(platforms),
        None if "expires" not in table else _time(table["expires"], what),
    )


def _is_facts(value: Any) -> bool:
    return (
        isinstance(value, dict)
        and bool(value)
        and all(isinstance(each, _FACTS) for each in value.values())
    )


def _time(value: Any, what: str) -> datetime:
    try:
        if isinstance(value, str) and "T" in value:
            found = datetime.fromisoformat(value)
        else:
            found = datetime.combine(date.fromisoformat(value), time(), UTC)
    except (ValueError, TypeError):
        _refuse(what, "`expires` must be a date, or a time with its zone")
    if found.tzinfo is None:
        _refuse(what, "`expires` must be a date, or a time with its zone")
    return found


def _check_fields(table: dict[str, Any], fields: set[str], what: str) -> None:
    if unknown := sorted(set(table) - fields):
        _refuse(
            what,
            f"it has the unknown key {unknown[0]!r}",
            f"the keys are {', '.join(sorted(fields))}",
        )


def _refuse(what: str, cause: str, hint: str | None = None) -> NoReturn:
    raise InvalidInputError(what, cause=cause, hint=hint)
