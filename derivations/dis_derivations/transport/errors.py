"""The kinds of errors of transfers."""

from dis_derivations.transport.address import Address
from dis_store.errors import BuildError, MismatchError

NOT_FOUND, GONE = 404, 410


class TransferError(BuildError):
    """A file could not be fetched: the server cannot be reached, breaks off, or answers what makes no sense.

    What has arrived is kept, and the same command goes on from there. The block says which server it was.
    """

    code = "E0320"


class RefusedRequestError(BuildError):
    """A server refuses to give a file.

    The block says which one, and why: the file is not there, or is not for everybody. A password for a server goes into
    ~/.netrc, never into a manifest.

    Attributes:
        status: What the server answered.
    """

    code = "E0321"

    def __init__(
        self, what: str, *, cause: str | None = None, hint: str | None = None, status: int = 0
    ) -> None:
        super().__init__(what, cause=cause, hint=hint)
        self.status = status

    @property
    def is_missing(self) -> bool:
        """Whether the server says that there is no such file."""
        return self.status in (NOT_FOUND, GONE)


class WrongSizeError(MismatchError):
    """A server has a file of another size than the one that is wanted.

    It is another version, or another file. Nothing of it is kept.
    """

    code = "E0405"

    def __init__(self, address: Address, wanted: int, found: int | None) -> None:
        size = f"more than {wanted}" if found is None else str(found)
        super().__init__(
            f"{address} is not the file that is wanted",
            cause=f"{address.place} has {size} bytes, and {wanted} are wanted",
            hint="name another place that has it, or accept the new one: dis lock CONFIG --update NAME",
        )
