"""`dis login` and `dis logout`: the passwords for registries."""

import sys

import click

from dis_command.command import command, json_option, pass_session
from dis_command.session import Session

_LONGEST_PASSWORD = 1 << 16


@command(
    "login",
    examples=(
        "dis login registry.example.com",
        "dis login ghcr.io --user me --password-stdin < token",
    ),
)
@click.argument("host")
@click.option("-u", "--user", metavar="NAME", help="Who you are there; asked for otherwise.")
@click.option("--password-stdin", is_flag=True, help="Read the password from stdin.")
@click.option(
    "--realm", metavar="URL", help="Let this server, which HOST names for tokens, be told it, too."
)
@json_option
@pass_session
def login(
    session: Session, host: str, user: str | None, password_stdin: bool, realm: str | None
) -> None:
    """Store a password for a registry where Docker looks for it.

    It is tried first. A registry may send to another server for tokens; that
    server is told the password only if you name it with --realm.
    """
    from dis_derivations.registry.credentials import CredentialStore, Login
    from dis_derivations.registry.login import check_login
    from dis_derivations.registry.reference import check_host
    from dis_derivations.transport.address import parse_address

    check_host(host)
    address = None if realm is None else parse_address(realm)
    given = Login(user or _asked("user"), _password(password_stdin))
    checked = check_login(session.environment, host, given, address)
    place = CredentialStore(session.environment).store(host, given, address)
    if not checked:
        session.say(f"{host} asks nobody for a password, so it was not tried")
    session.print_result(
        lambda: {"schema_version": 1, "host": host, "kept_in": place, "tried": checked},
        lambda: f"the password for {host} is in {place}",
    )


@command("logout", examples=("dis logout registry.example.com",))
@click.argument("host")
@json_option
@pass_session
def logout(session: Session, host: str) -> None:
    """Remove the password for a registry."""
    from dis_derivations.registry.credentials import CredentialStore
    from dis_derivations.registry.reference import check_host

    check_host(host)
    known = CredentialStore(session.environment).forget(host)
    session.print_result(
        lambda: {"schema_version": 1, "host": host, "removed": known},
        lambda: (
            f"the password for {host} is removed" if known else f"there was no password for {host}"
        ),
    )


def _password(from_stdin: bool) -> str:
    from dis_store.errors import InvalidInputError

    text = sys.stdin.read(_LONGEST_PASSWORD) if from_stdin else _asked("password")
    text = text.removesuffix("\n").removesuffix("\r")
    if not text:
        raise InvalidInputError("there is no password", cause="it is empty")
    return text


def _asked(what: str) -> str:
    from dis_store.errors import InvalidInputError

    if not sys.stdin.isatty():
        raise InvalidInputError(
            f"the {what} cannot be asked for",
            cause="stdin is no terminal",
            hint="name the user, and give the password on stdin: "
            "dis login HOST --user NAME --password-stdin",
        )
    answer: str = click.prompt(what, hide_input=what == "password", err=True)
    return answer
