"""Environments in the store."""

from typing import TYPE_CHECKING

from dis_derivations.builders.closure import ENVIRONMENT_DIRECTORY
from dis_derivations.environments.document import DOCUMENT, EnvironmentDocument, read_environment
from dis_store.errors import InvalidInputError

if TYPE_CHECKING:
    from dis_store import Store
    from dis_store.digest import Digest


def stored_environment(store: "Store", digest: "Digest") -> "tuple[Digest, EnvironmentDocument]":
    """Return an environment and what it says of itself.

    Args:
        store: Where it is.
        digest: Of the environment, or of a closure that has one.

    Raises:
        InvalidInputError: It is no environment, and has none.
    """
    for file in store.files(digest):
        if file.path in (DOCUMENT, f"{ENVIRONMENT_DIRECTORY}/{DOCUMENT}"):
            return file.owner, read_environment(store.object_path(file.owner))
    raise InvalidInputError(
        f"{digest[:12]} is no Python environment, and has none",
        hint="realise one: dis realize CONFIG#environment",
    )
