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
    from collections.abc import Sequence

    from dis_derivations.runs.archive import PlannedArchive
    from dis_derivations.runs.left_out import LeftOut


@command(
    "bundle",
    examples=(
        "dis bundle first",
        "dis bundle first --output first.tar.zst",
        "dis bundle --run-dir runs/quickstart",
        "dis bundle first --include logits",
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
@click.option(
    "--include",
    "words",
    multiple=True,
    metavar="WORD",
    help="Of what was captured, put in this and what is named with it.",
)
@click.option("--all", "everything", is_flag=True, help="Put in all of the run.")
@force_option
@dry_run_option
@json_option
@pass_session
def bundle(
    session: Session,
    ref: str | None,
    run_dir: str | None,
    output: Path | None,
    words: tuple[str, ...],
    everything: bool,
    force: bool,
    dry_run: bool,
) -> None:
    """Pack a run into one file.

    The same run makes the same bytes every time. The archive holds the tree
    manifests, so that the digest of the bundle can be computed from it alone;
    show, inspect, diff, verify, ls and cat read it like a run in the store.

    Without --include or --all, outputs.bundle_policy.include of the run's
    manifest says what goes in: of logits, activations and engine_trace those
    that it names, or everything. The archive has size and digest of the rest.
    """
    from dis_derivations.runs.archive import archive_run, plan_archive
    from dis_derivations.runs.left_out import check_words
    from dis_derivations.runs.reference import resolve

    if (ref is None) == (run_dir is None):
        raise click.UsageError("name one run: REF, or --run-dir DIR")
    if words and everything:
        raise click.UsageError("--include and --all exclude each other")
    include = check_words(words) if words or everything else None
    # A slash makes any name a path, and changes nothing in one that is a path already.
    wanted = ref if ref is not None else f"{run_dir}/"
    with session.open_store() as store:
        resolved = resolve(store, wanted)
        if dry_run:
            plan = plan_archive(store, resolved, output, include=include)
            _show_plan(session, plan, by_manifest=include is None)
            return
        archive = archive_run(store, resolved, output, replace=force, include=include)
    session.print_result(
        lambda: {
            "schema_version": 1,
            "path": str(archive.path),
            "bundle": str(archive.bundle),
            "size": archive.size,
            "sha256": str(archive.sha256),
            "left_out": [entry.to_json() for entry in archive.left_out],
        },
        lambda: str(archive.path),
    )
    _say_left_out(session, archive.left_out, by_manifest=include is None)


def _say_left_out(session: Session, entries: "Sequence[LeftOut]", *, by_manifest: bool) -> None:
    if entries:
        named = ", ".join(f"{each.path} ({size_text(each.size)})" for each in entries)
        because = ", as outputs.bundle_policy of its manifest says" if by_manifest else ""
        session.say(f"note: left out{because}: {named}; --all takes everything in")


def _show_plan(session: Session, plan: "PlannedArchive", *, by_manifest: bool) -> None:
    what = f"{count_text(plan.files, 'file')}, {size_text(plan.size)} before compression"
    session.print_result(
        lambda: {
            "schema_version": 1,
            "dry_run": True,
            "path": str(plan.path),
            "bundle": str(plan.bundle),
            "files": plan.files,
            "size": plan.size,
            "left_out": [entry.to_json() for entry in plan.left_out],
        },
        lambda: f"{plan.path} would be written: {what}",
    )
    _say_left_out(session, plan.left_out, by_manifest=by_manifest)
    if plan.path.exists():
        session.say(f"{plan.path} is there already; other content is replaced with --force only")
