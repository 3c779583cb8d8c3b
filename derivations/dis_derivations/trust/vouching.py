"""Who vouches for the builds that a root stands for, by the signatures that the store holds."""

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import TYPE_CHECKING

from dis_derivations.trust.policy import Decision, TrustedKey, TrustPolicy, accept_claim
from dis_derivations.trust.signing import Build, claim_of

if TYPE_CHECKING:
    from dis_store.reading import StoreReader


@dataclass(frozen=True)
class Vouched:
    """A build, and whether it is vouched for: None where nobody need vouch, since its files are known by digest."""

    build: Build
    decision: Decision | None

    @property
    def good(self) -> bool:
        """Whether as many trusted keys as the policy asks for have signed it, or none need to."""
        return self.decision is None or self.decision.vouched


def vouch(
    store: "StoreReader",
    builds: Sequence[Build],
    policy: TrustPolicy,
    keys: Sequence[TrustedKey],
    now: datetime,
) -> list[Vouched]:
    """Return for each build who vouches for it.

    The claim is made anew of the record and the objects, so a signature over anything else counts for nothing.

    Raises:
        IntegrityError: An output is not in the store.
    """
    return [
        Vouched(
            build,
            None
            if build.obstacle == "fixed output"
            else accept_claim(
                claim_of(store, build),
                list(store.signatures(build.record.key).values()),
                policy,
                keys,
                now=now,
            ),
        )
        for build in builds
    ]
