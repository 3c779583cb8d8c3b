"""The kinds of errors of registries."""

from dis_derivations.transport.address import Address
from dis_derivations.transport.errors import RefusedRequestError, TransferError
from dis_store.errors import IntegrityError


class RegistryError(TransferError):
    """A registry answers what makes no sense, or does not do what its protocol says.

    What has arrived is kept, and the same command goes on from there.
    """

    code = "E0330"


class RegistryRefusedError(RefusedRequestError):
    """A registry refuses: what is asked for is not there, or is not for who asks.

    `dis login HOST` stores a password for a registry.
    """

    code = "E0331"


class RegistryMismatchError(IntegrityError):
    """What came from a registry is not what its digest, its size or its description says.

    Nothing of it was registered. Somebody changed it on the way or in the registry.
    """

    code = "E0430"


def nonsense(address: Address, cause: str) -> RegistryError:
    """Return the error for an answer that contradicts itself or the protocol."""
    return RegistryError(f"{address.place} cannot be worked with", cause=f"it {cause}")
