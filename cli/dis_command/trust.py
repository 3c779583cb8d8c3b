"""Whom the settings trust, and where the keys of the user are."""

from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING

from dis_command.config_places import config_path
from dis_command.errors import InvalidSettingError
from dis_command.session import Session
from dis_store.errors import InvalidInputError

if TYPE_CHECKING:
    from dis_derivations.trust.attestation_policy import AttestationPolicy
    from dis_derivations.trust.key_ring import KeyRing
    from dis_derivations.trust.policy import Mode, TrustedKey, TrustPolicy

_MAX_ROOT_BYTES = 1 << 22


@dataclass(frozen=True)
class Trust:
    """What the settings say.

    Attributes:
        policy: What is asked of builds that others made.
        keys: The trusted keys.
        images: What is asked of images.
    """

    policy: "TrustPolicy"
    keys: "tuple[TrustedKey, ...]"
    images: "AttestationPolicy"


def read_trust(session: Session, mode: str | None = None) -> Trust:
    """Return whom the settings trust: the first file that says so names the keys; what any file revokes is revoked.

    Args:
        session: The call.
        mode: What an option says instead of the setting `trust`.

    Raises:
        InvalidSettingError: A setting is malformed.
    """
    from dis_derivations.trust.attestation_policy import AttestationPolicy
    from dis_derivations.trust.policy import MODES, TrustPolicy
    from dis_derivations.trust.trust_settings import (
        read_fingerprints,
        read_identities,
        read_trusted_keys,
    )

    settings = session.settings
    modes: dict[str, Mode] = {each: each for each in MODES}
    threshold = settings.written("trust-threshold")
    images = settings.written("image-trust")
    try:
        keys = [
            read_trusted_keys(each.value, each.origin) for each in settings.written("trusted-keys")
        ]
        revoked = [
            read_fingerprints(each.value, each.origin) for each in settings.written("revoked-keys")
        ]
        identities = [
            read_identities(each.value, each.origin, Path(each.origin).parent)
            for each in settings.written("trusted-identities")
        ]
    except InvalidInputError as error:
        raise InvalidSettingError(error.what, cause=error.cause, hint=error.hint) from error
    policy = TrustPolicy(
        mode=modes[settings.trust(mode).value],
        threshold=int(threshold[0].value) if threshold else 1,
        revoked=frozenset().union(*revoked),
    )
    trusted = keys[0] if keys else ()
    return Trust(
        policy,
        trusted,
        AttestationPolicy(
            now=datetime.now(UTC),
            mode=modes[images[0].value] if images else "off",
            keys=trusted,
            identities=identities[0] if identities else (),
            builds=policy,
            roots={each.root: _root(each.root) for each in (identities[0] if identities else ())},
        ),
    )


def key_ring(session: Session) -> "KeyRing":
    """Return the user's keys: `keys` beside the user's file of settings.

    Raises:
        InvalidInputError: That is inside the store, which is not for keys.
        UnfitEnvironmentError: There is no home directory.
    """
    from dis_derivations.trust.key_ring import KeyRing

    directory = config_path(session.environment).parent / "keys"
    if directory.resolve().is_relative_to(session.store_path.resolve()):
        raise InvalidInputError(
            f"{directory} cannot be used for keys",
            cause="it lies in the store, and a store may be shared and copied",
            hint="name another store with --store, or another XDG_CONFIG_HOME",
        )
    return KeyRing(directory)


def _root(path: Path) -> bytes:
    try:
        with path.open("rb") as stream:
            return stream.read(_MAX_ROOT_BYTES)
    except OSError as error:
        raise InvalidSettingError(
            f"the trusted root {path} cannot be read", cause=error.strerror
        ) from error
