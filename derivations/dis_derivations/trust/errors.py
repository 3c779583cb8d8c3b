"""What is raised where something is not vouched for."""

from dis_store.errors import IntegrityError


class UntrustedError(IntegrityError):
    """What somebody offers is not vouched for by the keys that you trust.

    Nothing of it was used. `dis key list` shows whom you trust; docs/guides/signing.md says how to trust a key, and how
    to go on without signatures.
    """

    code = "E0440"


def unbelieved(cause: str) -> UntrustedError:
    """Return the error for an attestation that is not believed."""
    return UntrustedError("an attestation is not believed", cause=cause)
