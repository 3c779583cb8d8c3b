"""What is asked of an attestation about an image: whose, and about what."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime
from pathlib import Path

from dis_derivations.trust.policy import Mode, TrustedKey, TrustPolicy


@dataclass(frozen=True)
class Identity:
    """Somebody who signs with short-lived certificates of an authority (Fulcio).

    Attributes:
        name: What the settings call them.
        issuer: Who vouched for them to the authority: the URL of an OpenID Connect provider.
        subject: Who they are: the URI or the mail address of the certificate, all of it; `*` at the end stands for any
            rest.
        root: A file with the trusted root: the authority, its transparency log, its log of certificates
            (`application/vnd.dev.sigstore.trustedroot+json`).
    """

    name: str
    issuer: str
    subject: str
    root: Path


@dataclass(frozen=True)
class AttestationPolicy:
    """Whose attestations are believed.

    Attributes:
        mode: `require`: an image without a good attestation is refused. `warn`: that is said. `off`: nothing is looked
            at.
        keys: Keys with the role `images`; others do not count.
        identities: Who may sign with certificates.
        predicate_types: What a statement may be, all of it; any type where there are none.
        builds: What is revoked.
        roots: The trusted roots, by the paths that identities name them by; read where the settings are.
        now: The time, with its zone.
    """

    now: datetime
    mode: Mode = "off"
    keys: tuple[TrustedKey, ...] = ()
    identities: tuple[Identity, ...] = ()
    predicate_types: frozenset[str] = frozenset()
    builds: TrustPolicy = field(default_factory=TrustPolicy)
    roots: Mapping[Path, bytes] = field(default_factory=dict)
