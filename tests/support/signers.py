"""Keys and claims for tests: fixed ones, so that every signature is the same everywhere."""

from collections.abc import Mapping
from datetime import UTC, datetime
from functools import cache
from typing import Any

from dis_derivations.trust.claim import Claim, ClaimedOutput
from dis_derivations.trust.policy import TrustedKey
from dis_derivations.trust.private_key import PrivateKey
from dis_derivations.trust.statement import PAYLOAD_TYPE
from dis_store.digest import Digest, Sha256

NOW = datetime(2026, 12, 1, tzinfo=UTC)
SEEDS = {
    # RFC 8032, section 7.1, tests 1 to 3.
    "alice": "9d61b19deffd5a60ba844af492ec2cc44449c5697b326919703bac031cae7f60",
    "bob": "4ccd089b28ff96da9db6c346ec114e0f5b8a319f35aba624da8cf6ed4fb8a6fb",
    "carol": "c5aa8df43f9f837bedb7442f31dcb7b166d38535076f094b85ce3a2e0b4458f7",
}


@cache
def signer(name: str) -> PrivateKey:
    """Return a key of the RFC."""
    return PrivateKey.from_seed(bytes.fromhex(SEEDS[name]))


def trusted(name: str, **changes: Any) -> TrustedKey:
    """Return a key of the RFC as one that is trusted."""
    return TrustedKey(name, signer(name).public, **changes)


def output(content: str) -> ClaimedOutput:
    """Return an output that is a function of a text."""
    return ClaimedOutput(Digest.of(content.encode()), Sha256.of(content.encode()))


def claim_of(
    name: str = "generation",
    results: str = "results",
    log: str = "log",
    platform: Mapping[str, Any] | None = None,
) -> Claim:
    """Return a claim about the build of a name: what came out, and on which platform."""
    facts = dict(platform or {})
    return Claim(
        key=Digest.of(f"{name} on {sorted(facts.items())}".encode()),
        platform_free_key=Digest.of(name.encode()),
        builder="generation",
        platform={"class": "cuda" if facts else "any", "facts": facts},
        outputs={"results": output(results), "log": output(log)},
        compared=("results",),
    )


def signed(name: str, claim: Claim) -> bytes:
    """Return a claim as a Sigstore bundle that somebody signed."""
    return signer(name).sign(claim.encode(), PAYLOAD_TYPE)
