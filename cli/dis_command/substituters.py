"""The registries that are asked before something is built, as the settings name them."""

from collections.abc import Callable
from typing import TYPE_CHECKING

from dis_command.session import Session

if TYPE_CHECKING:
    from dis_derivations.distribution.pulling import AcceptClaim
    from dis_derivations.distribution.substitution import Substituter

# Who is asked on the way to a build must not hold it up for long.
_ATTEMPTS = 2
_SECONDS_TO_CONNECT = 5.0


def substituter_of(session: Session) -> "Callable[[], Substituter] | None":
    """Return what makes the substituter of the settings; None where they name no registry.

    Raises:
        InvalidSettingError: A file of settings is malformed.
    """
    found = session.settings.substituters()
    if found is None:
        return None
    value, origin = found.value, found.origin

    def make() -> "Substituter":
        from dis_command.errors import InvalidSettingError
        from dis_command.trust import read_trust
        from dis_derivations.distribution.substitution import Substituter, repositories
        from dis_derivations.registry.client import RegistryClient
        from dis_derivations.registry.reference import parse_reference
        from dis_derivations.transport.conduct import Conduct
        from dis_store.errors import InvalidInputError

        try:
            references = [parse_reference(each) for each in value.split()]
        except InvalidInputError as error:
            raise InvalidSettingError(
                f"{origin} has a wrong substituters", cause=f"{error.what}: {error.cause}"
            ) from error
        trust = read_trust(session)
        conduct = Conduct(ranges=2, attempts=_ATTEMPTS, connect_seconds=_SECONDS_TO_CONNECT)
        return Substituter(
            RegistryClient(session.environment, conduct),
            repositories(references),
            tuple(each.key.fingerprint for each in trust.keys if "builds" in each.roles),
            trust.policy.mode != "require",
            acceptance(session),
        )

    return make


def acceptance(session: Session) -> "AcceptClaim":
    """Return what decides, by the settings, whether a build that somebody else made is believed.

    Raises:
        InvalidSettingError: A setting is malformed.
    """
    from datetime import UTC, datetime

    from dis_command.trust import read_trust
    from dis_derivations.trust.policy import accept_claim

    trust = read_trust(session)
    return lambda claim, envelopes: accept_claim(
        claim, envelopes, trust.policy, trust.keys, now=datetime.now(UTC)
    )
