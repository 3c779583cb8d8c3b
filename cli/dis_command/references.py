"""REFs of a command line, those in registries among them."""

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from functools import partial
from typing import TYPE_CHECKING

from dis_command.session import Session

if TYPE_CHECKING:
    from dis_derivations.runs.reference import Resolved
    from dis_store import Store

Resolve = Callable[[str], "Resolved"]


@contextmanager
def looking_up(session: Session, refs: Sequence[str]) -> "Iterator[tuple[Store, Resolve]]":
    """Open the store for the time of a block, and give it with what tells what a REF names.

    Of what is in a registry, that is fetched which is read in the block, and checked on the way. It stays in the store,
    where nothing keeps it.

    Args:
        session: The call.
        refs: All that will be asked for. Only where one is in a registry, the store is written to.

    Raises:
        InterruptedBuildError: The user interrupted while something came.
    """
    from dis_derivations.runs.reference import is_remote, resolve

    if not any(map(is_remote, refs)):
        with session.open_store(reading=True) as store:
            yield store, partial(resolve, store)
        return
    from dis_command.transfers import interruptible, transferring
    from dis_derivations.distribution.remote_objects import Registries
    from dis_derivations.registry.client import RegistryClient

    with (
        session.open_store() as store,
        interruptible() as stop,
        RegistryClient(session.environment) as client,
        session.reporting() as reporter,
    ):
        fetching = partial(transferring, reporter, text="fetching", finished="fetched")
        registries = Registries(client, fetching, stop)
        yield store, partial(resolve, store, registries=registries)
