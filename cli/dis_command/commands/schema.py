"""`dis schema`: the JSON Schema of a manifest, of a lock, or of a comparison."""

import click

from dis_command.command import command, json_option, pass_session
from dis_command.session import Session


@command(
    "schema",
    examples=("dis schema > manifest.schema.json", "dis schema --lock > lock.schema.json"),
)
@click.option("--lock", is_flag=True, help="Print that of a lock instead.")
@click.option("--diff", is_flag=True, help="Print that of what `dis diff --json` says of two runs.")
@json_option
@pass_session
def schema(session: Session, lock: bool, diff: bool) -> None:
    """Print the JSON Schema of a manifest.

    Of a manifest whose bases are merged. The rules between fields are not in
    it; docs/reference/manifest.md has them. The output is always JSON.
    """
    if lock and diff:
        raise click.UsageError("--lock and --diff are two schemas, ask for one of them")
    if diff:
        from dis_derivations.comparison.diff_schema import diff_schema

        session.print_document(diff_schema())
        return
    if lock:
        from dis_derivations.lock.schema import lock_schema

        session.print_document(lock_schema())
        return
    from dis_derivations.manifest.schema import manifest_schema

    session.print_document(manifest_schema())
