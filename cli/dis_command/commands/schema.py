"""`dis schema`: the JSON Schema of a manifest."""

import click

from dis_command.command import command, json_option, pass_session
from dis_command.session import Session


@command(
    "schema",
    examples=("dis schema > manifest.schema.json", "dis schema --lock > lock.schema.json"),
)
@click.option("--lock", is_flag=True, help="Print that of a lock instead.")
@json_option
@pass_session
def schema(session: Session, lock: bool) -> None:
    """Print the JSON Schema of a manifest.

    Of a manifest whose bases are merged. The rules between fields are not in
    it; docs/reference/manifest.md has them. The output is always JSON.
    """
    if lock:
        from dis_derivations.lock.schema import lock_schema

        session.print_document(lock_schema())
        return
    from dis_derivations.manifest.schema import manifest_schema

    session.print_document(manifest_schema())
