"""`dis bundle`: a run as one file."""

from pathlib import Path
from typing import TYPE_CHECKING

import click

from dis_command import completion
from dis_command.command import (
    command,
    dry_run_option,
    force_option,
    json_option,
    pass_session,
    ref_argument,
)
from dis_command.session import Session
from dis_command.terminal import count_text, size_text

if TYPE_CHECKING:
    from dis_derivations.runs.archive import PlannedArchive


@command(
    "bundle",
    examples=(
        "dis bundle first",
        "dis bundle first --output first.tar.zst",
        "dis bundle --run-dir runs/quickstart",
    ),
)
@ref_argument(required=False)
@click.option(
    "--run-dir",
    metavar="DIR",
    shell_complete=completion.directories,
    help="A run that dis run laid out, in place of REF.",
)
@click.option(
    "--output",
    type=click.Path(path_type=Path),
    metavar="FILE",
    help="A .tar.gz or .tar.zst.  [default: NAME.DIGITS.tar.gz]",
)
@force_option
@dry_run_option
@json_option
@pass_session
def bundle(
    session: Session,
    ref: str | None,
    run_dir: str | None,
    output: Path | None,
    force: bool,
    dry_run: bool,
) -> None:
    """Pack a run into one file.

    The same run makes the same bytes every time. The archive holds the tree
    manifests, so that the digest of the bundle can be computed from it alone;
    show, inspect, diff, verify, ls and cat read it like a run in the store.
    """
    from dis_derivations.runs.archive import archive_run, plan_archive
    from dis_derivations.runs.reference import resolve

    if (ref is None) == (run_dir is None):
        raise click.UsageError("name one run: REF, or --run-dir DIR")
    # A slash makes any name a path, and changes nothing in one that is a path already.
    wanted = ref if ref is not None else f"{run_dir}/"
    with session.open_store() as store:
        if dry_run:
            _show_plan(session, plan_archive(store, resolve(store, wanted), output))
            return
        archive = archive_run(store, resolve(store, wanted), output, replace=force)
    session.print_result(
        lambda: {
            "schema_version": 1,
            "path": str(archive.path),
            "bundle": str(archive.bundle),
            "size": archive.size,
            "sha256": str(archive.sha256),
        },
        lambda: str(archive.path),
    )


def _show_plan(session: Session, plan: "PlannedArchive") -> None:
    what = f"{count_text(plan.files, 'file')}, {size_text(plan.size)} before compression"
    session.print_result(
        lambda: {
            "schema_version": 1,
            "dry_run": True,
            "path": str(plan.path),
            "bundle": str(plan.bundle),
            "files": plan.files,
            "size": plan.size,
        },
        lambda: f"{plan.path} would be written: {what}",
    )
    if plan.path.exists():
        session.say(f"{plan.path} is there already; other content is replaced with --force only")
