"""`dis schema`: the JSON Schemas of manifests, of locks, and of what commands print."""

from collections.abc import Mapping
from importlib import import_module

import click

from dis_command.command import command, json_option, pass_session
from dis_command.session import Session

# Where each schema is made. A name is that of a command whose `--json` it describes, but for the first two.
_SCHEMAS: Mapping[str, tuple[str, str]] = {
    "manifest": ("dis_derivations.manifest.schema", "manifest_schema"),
    "lock": ("dis_derivations.lock.schema", "lock_schema"),
    "diff": ("dis_derivations.comparison.diff_schema", "diff_schema"),
    "diff-matrix": ("dis_derivations.comparison.matrix_schema", "matrix_schema"),
    "diff-older": ("dis_derivations.comparison.older.older_schema", "older_schema"),
    "diff-weights": ("dis_derivations.comparison.weights.weights_schema", "weights_schema"),
    "diff-documents": (
        "dis_derivations.comparison.documents.documents_schema",
        "documents_schema",
    ),
    "verify": ("dis_derivations.comparison.verify_schema", "verify_schema"),
    "bisect": ("dis_derivations.bisection.bisection_schema", "bisection_schema"),
    "report": ("dis_derivations.validation.record_schema", "record_schema"),
    "probe": ("dis_derivations.probing.probe_schema", "probe_schema"),
}


@command(
    "schema",
    examples=(
        "dis schema > manifest.schema.json",
        "dis schema lock > lock.schema.json",
        "dis schema report",
    ),
)
@click.argument("name", type=click.Choice(list(_SCHEMAS)), metavar="[NAME]", required=False)
@click.option("--lock", is_flag=True, help="The same as NAME lock.")
@click.option("--diff", is_flag=True, help="The same as NAME diff.")
@click.option("--probe", is_flag=True, help="The same as NAME probe.")
@json_option
@pass_session
def schema(session: Session, name: str | None, lock: bool, diff: bool, probe: bool) -> None:
    """Print the JSON Schema of a manifest, of a lock, or of what a command prints.

    NAME is manifest (the default), lock, diff (of two runs), diff-matrix,
    diff-older (where a run is of the older tool), diff-weights, diff-documents
    (of manifests, locks and other objects), verify, bisect, report or probe. That
    of a manifest is of one whose bases are merged. The rules between fields are
    not in it; docs/reference/manifest.md has them. The output is always JSON.
    """
    flags = {"lock": lock, "diff": diff, "probe": probe}
    named = [each for each in (name, *(flag for flag, given in flags.items() if given)) if each]
    if len(named) > 1:
        raise click.UsageError(f"{', '.join(named)} are schemas, ask for one of them")
    module, maker = _SCHEMAS[named[0] if named else "manifest"]
    session.print_document(getattr(import_module(module), maker)())
