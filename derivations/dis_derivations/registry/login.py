"""Trying a password before it is stored."""

from collections.abc import Mapping

from dis_derivations.registry.authority import Scope, login_hint
from dis_derivations.registry.client import RegistryClient
from dis_derivations.registry.credentials import Login
from dis_derivations.registry.errors import RegistryRefusedError
from dis_derivations.registry.exchange import Call
from dis_derivations.registry.reference import RegistryReference
from dis_derivations.transport.address import Address

_OK, _UNAUTHORISED = 200, 401


def check_login(
    environment: Mapping[str, str], host: str, login: Login, realm: Address | None
) -> bool:
    """Show a registry a password; tell whether it asked for one.

    Args:
        environment: Of the user.
        host: The registry.
        login: The password.
        realm: Another server that may be told it, if the registry names that one for tokens.

    Raises:
        RegistryRefusedError: The registry does not take it, or names a server that may not be told it.
        TransferError: It cannot be reached, or makes no sense.
    """
    agreed = frozenset() if realm is None else frozenset({realm.origin})
    reference = RegistryReference(host, "any")
    call = Call("GET", reference.address(""))
    with RegistryClient(environment, login=login, agreed=agreed) as client:
        exchange = client.exchange(reference, Scope())
        authority = exchange.authority
        try:
            exchange.perform(call, (_OK,), lambda _: None)
        except RegistryRefusedError as error:
            if error.status != _UNAUTHORISED or authority.withheld:
                raise
            raise RegistryRefusedError(
                f"{host} does not take the password",
                hint="see that name and password are right",
                status=_UNAUTHORISED,
            ) from error
        if authority.withheld:
            # It gives tokens to everybody, so that nothing was learned of the password.
            raise RegistryRefusedError(
                f"the password for {host} was not tried",
                cause=f"{host} names {authority.withheld} for tokens, another server",
                hint=login_hint(host, authority.withheld),
                status=_UNAUTHORISED,
            )
        return authority.was_asked
