"""`dis schema`: the JSON Schema of a manifest, of a lock, of a comparison, or of a probe."""

import click

from dis_command.command import command, json_option, pass_session
from dis_command.session import Session


@command(
    "schema",
    examples=("dis schema > manifest.schema.json", "dis schema --lock > lock.schema.json"),
)
@click.option("--lock", is_flag=True, help="Print that of a lock instead.")
@click.option("--diff", is_flag=True, help="Print that of what `dis diff --json` says of two runs.")
@click.option("--probe", is_flag=True, help="Print that of the verdict of `dis probe`.")
@json_option
@pass_session
def schema(session: Session, lock: bool, diff: bool, probe: bool) -> None:
    """Print the JSON Schema of a manifest.

    Of a manifest whose bases are merged. The rules between fields are not in
    it; docs/reference/manifest.md has them. The output is always JSON.
    """
    if lock + diff + probe > 1:
        raise click.UsageError("--lock, --diff and --probe are schemas, ask for one of them")
    if probe:
        from dis_derivations.probing.probe_schema import probe_schema

        session.print_document(probe_schema())
        return
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
