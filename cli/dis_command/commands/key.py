"""`dis key`: the keys that sign builds."""

from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from dis_command import completion
from dis_command.command import command, json_option, pass_session, yes_option
from dis_command.lazy_group import LazyCommand, LazyGroup
from dis_command.session import Session

if TYPE_CHECKING:
    from dis_derivations.trust.key_ring import NamedKey

_MODULE = "dis_command.commands.key"
_MAX_BYTES = 1 << 14


@click.group(
    "key",
    cls=LazyGroup,
    examples=("dis key generate laptop", "dis key list", "dis key show laptop --setting"),
    lazy={
        "generate": LazyCommand(_MODULE, "generate", "Make a new key."),
        "list": LazyCommand(_MODULE, "list_", "List the keys that are here."),
        "show": LazyCommand(_MODULE, "show", "Print a public key."),
        "import": LazyCommand(_MODULE, "import_", "Take a key from a file."),
        "remove": LazyCommand(_MODULE, "remove", "Delete a key."),
    },
)
def key() -> None:
    """Make and list the keys that sign builds."""


passphrase_file_option = click.option(
    "--passphrase-file",
    type=click.Path(exists=True, dir_okay=False, path_type=Path),
    metavar="FILE",
    shell_complete=completion.files,
    help="Take the passphrase of the key from the first line of FILE.",
)


@command(
    "generate",
    examples=("dis key generate laptop", "dis key generate laptop --passphrase"),
)
@click.argument("name", metavar="NAME")
@click.option("--passphrase", is_flag=True, help="Ask for a passphrase, and encrypt the key.")
@passphrase_file_option
@json_option
@pass_session
def generate(session: Session, name: str, passphrase: bool, passphrase_file: Path | None) -> None:
    """Make a new key.

    It is an Ed25519 key, in the directory keys/ beside config.toml. Nobody
    else may read it, and no store ever holds it.
    """
    from dis_command.passphrases import new_passphrase
    from dis_command.trust import key_ring
    from dis_derivations.trust.key_ring import check_name
    from dis_derivations.trust.private_key import PrivateKey

    ring = key_ring(session)
    check_name(name)
    secret = new_passphrase(passphrase_file) if passphrase or passphrase_file else None
    made = PrivateKey.generate()
    added = ring.add(name, made.public, made.to_pem(secret))
    _print(session, added)


@command("list", examples=("dis key list", "dis key list --json"))
@json_option
@pass_session
def list_(session: Session) -> None:
    """List the keys that are here.

    Those that only the settings have are listed too.
    """
    from dis_command.trust import key_ring, read_trust

    ring, trust = key_ring(session), read_trust(session)
    rows = [
        _row(
            each.name,
            each.public.fingerprint,
            "signs" if each.can_sign else "public",
            _trusted(each, trust.keys),
        )
        for each in map(ring.get, ring.names())
    ]
    here = {row["fingerprint"] for row in rows}
    rows += [
        _row(each.name, each.key.fingerprint, "setting", each.name)
        for each in trust.keys
        if each.key.fingerprint not in here
    ]
    for row in rows:
        row["revoked"] = row["fingerprint"] in trust.policy.revoked
    session.print_result(lambda: {"schema_version": 1, "keys": rows}, lambda: _table(rows))


@command("show", examples=("dis key show laptop", "dis key show laptop --setting"))
@click.argument("name", metavar="NAME", shell_complete=completion.keys)
@click.option("--setting", is_flag=True, help="Print the lines of config.toml that trust the key.")
@json_option
@pass_session
def show(session: Session, name: str, setting: bool) -> None:
    """Print a public key.

    It is a PEM block, what others need, and no secret.
    """
    from dis_command.trust import key_ring
    from dis_derivations.trust.trust_settings import setting_of

    found = key_ring(session).get(name)
    text = setting_of(name, found.public) if setting else found.public.to_pem().decode()
    session.print_result(lambda: _document(found), lambda: text)


@command("import", examples=("dis key import farm farm.pem", "dis key import laptop backup.pem"))
@click.argument("name", metavar="NAME")
@click.argument(
    "file",
    metavar="FILE",
    type=click.Path(exists=True, dir_okay=False, path_type=Path),
    shell_complete=completion.files,
)
@passphrase_file_option
@json_option
@pass_session
def import_(session: Session, name: str, file: Path, passphrase_file: Path | None) -> None:
    """Take a key from a file.

    FILE is PEM, with a public key, or with a private one that signs. That a
    key is here makes it trusted for nothing: see dis key show NAME --setting.
    """
    from dis_command.passphrases import passphrase_source
    from dis_command.trust import key_ring
    from dis_derivations.trust.private_key import PrivateKey, is_private
    from dis_derivations.trust.public_key import PublicKey

    with file.open("rb") as stream:
        text = stream.read(_MAX_BYTES + 1)
    if is_private(text):
        ask = passphrase_source(passphrase_file)
        public, private = PrivateKey.from_pem(text, name=str(file), ask=ask).public, text
        added = key_ring(session).add(name, public, private)
    else:
        added = key_ring(session).add(name, PublicKey.from_pem(text, name=str(file)))
    _print(session, added)


@command("remove", examples=("dis key remove farm", "dis key remove laptop --yes"))
@click.argument("name", metavar="NAME", shell_complete=completion.keys)
@yes_option
@json_option
@pass_session
def remove(session: Session, name: str, yes: bool) -> None:
    """Delete a key.

    What it signed stays signed.
    """
    from dis_command.confirmation import ask, can_ask
    from dis_command.errors import UnconfirmedError
    from dis_command.trust import key_ring

    ring = key_ring(session)
    found = ring.get(name)
    if found.can_sign and not yes:
        what = f"the private key {name} would be deleted, and nothing brings it back"
        if not can_ask():
            raise UnconfirmedError(
                what, cause="nobody can be asked here", hint="go on without a question with --yes"
            )
        ask(what)
    ring.remove(name)
    session.print_result(lambda: _document(found), lambda: "")


def _trusted(named: "NamedKey", trusted: Any) -> str:
    """Return the name that the settings trust a key by; empty if they do not."""
    return next((each.name for each in trusted if each.key == named.public), "")


def _row(name: str, fingerprint: str, kind: str, trusted: str) -> dict[str, Any]:
    return {"name": name, "fingerprint": str(fingerprint), "kind": kind, "trusted": trusted}


def _table(rows: list[dict[str, Any]]) -> str:
    from dis_command.table import aligned

    return aligned([(row["name"], row["fingerprint"], row["kind"], _standing(row)) for row in rows])


def _standing(row: dict[str, Any]) -> str:
    if row["revoked"]:
        return "revoked"
    return "trusted" if row["trusted"] else ""


def _document(named: "NamedKey") -> dict[str, Any]:
    return {
        "schema_version": 1,
        "name": named.name,
        "algorithm": named.public.algorithm,
        "fingerprint": str(named.public.fingerprint),
        "public_key": named.public.to_pem().decode(),
        "can_sign": named.can_sign,
    }


def _print(session: Session, named: "NamedKey") -> None:
    session.print_result(lambda: _document(named), lambda: str(named.public.fingerprint))
