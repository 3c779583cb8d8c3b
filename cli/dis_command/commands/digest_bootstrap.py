"""`dis digest-bootstrap`: fill the digests of a manifest from the bytes of its files."""

from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from dis_command.command import (
    chosen_config,
    command,
    config_arguments,
    force_option,
    json_option,
    pass_session,
)
from dis_command.session import Session

if TYPE_CHECKING:
    from dis_derivations.lock.bootstrap import Bootstrapped


@command(
    "digest-bootstrap",
    examples=(
        "dis digest-bootstrap my-model.json --in-place",
        "dis digest-bootstrap my-model.json --output pinned.json --write-lock",
    ),
)
@config_arguments()
@click.option(
    "--output",
    type=click.Path(path_type=Path, dir_okay=False),
    metavar="FILE",
    help="Where the manifest with its digests goes.",
)
@click.option("--in-place", is_flag=True, help="Write the digests into CONFIG itself.")
@click.option(
    "--replace-existing", is_flag=True, help="Replace digests that are there by what is found."
)
@click.option("--write-lock", is_flag=True, help="Write the lock as well.")
@force_option
@json_option
@pass_session
def digest_bootstrap(
    session: Session,
    config: str | None,
    config_option: str | None,
    output: Path | None,
    in_place: bool,
    replace_existing: bool,
    write_lock: bool,
    force: bool,
) -> None:
    """Fill the digests of a manifest from its files.

    The bytes of every file are read from its source; no digest is made from anything else. A
    file with a digest must have it, unless --replace-existing is given. Where
    one digest cannot be found, all that are missing are told, and nothing is
    written.
    """
    from dis_derivations.lock.bootstrap import bootstrap_digests
    from dis_derivations.manifest.loading import load_manifest

    if (output is None) == (not in_place):
        raise click.UsageError("say where the manifest goes: --output FILE, or --in-place")
    loaded = load_manifest(Path(chosen_config(config, config_option)))
    with session.open_store() as store, session.reporting() as reporter:
        made = bootstrap_digests(
            store,
            loaded,
            loaded.path if output is None else output,
            replace_file=in_place or force,
            replace_existing=replace_existing,
            write_lock=write_lock,
            reporter=reporter,
        )
    session.print_result(lambda: _document(made), lambda: _text(made))
    session.say(f"filled {len(made.filled)} of {len(made.files)} digests in {made.path}")
    if made.lock is not None:
        session.say(f"locked {len(made.files)} files in {made.lock}")


def _document(made: "Bootstrapped") -> dict[str, Any]:
    return {
        "schema_version": 1,
        "path": str(made.path),
        "lock": None if made.lock is None else str(made.lock),
        "files": len(made.files),
        "filled": [
            {
                "name": filled.name,
                "path": filled.path,
                "digest": filled.digest,
                "before": filled.before,
            }
            for filled in made.filled
        ],
    }


def _text(made: "Bootstrapped") -> str:
    from dis_command.table import aligned

    return aligned([(filled.name, filled.path, filled.digest) for filled in made.filled])
