"""By whom signatures are judged: the keys that the settings trust, and those that the user merely has."""

from typing import TYPE_CHECKING

from dis_command.session import Session

if TYPE_CHECKING:
    from dis_derivations.trust.public_key import PublicKey
    from dis_derivations.validation.signatures import Signatories


def signatories(session: Session) -> "Signatories":
    """Return whom to believe.

    Raises:
        InvalidSettingError: A setting is malformed.
    """
    from datetime import UTC, datetime

    from dis_command.trust import read_trust
    from dis_derivations.validation.signatures import Signatories

    trust = read_trust(session)
    return Signatories(trust.policy, trust.keys, _at_hand(session), datetime.now(UTC))


def _at_hand(session: Session) -> "dict[str, PublicKey]":
    """Return the user's own keys; a ring that cannot be read is for `dis key list` to complain of."""
    from dis_command.trust import key_ring
    from dis_store.errors import DisError

    try:
        ring = key_ring(session)
        return {name: ring.get(name).public for name in ring.names()}
    except DisError:
        return {}
