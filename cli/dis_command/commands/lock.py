"""`dis lock`: pin every file of a manifest to its digest."""

from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from dis_command.command import (
    chosen_config,
    command,
    config_arguments,
    dry_run_option,
    json_option,
    pass_session,
    set_option,
)
from dis_command.session import Session

if TYPE_CHECKING:
    from dis_derivations.lock.document import Lock
    from dis_derivations.lock.making import PlannedLock


@command(
    "lock",
    examples=(
        "dis lock configs/quickstart.json",
        "dis lock configs/quickstart.json --update model.weight",
    ),
)
@config_arguments()
@click.option(
    "--output",
    type=click.Path(path_type=Path, dir_okay=False),
    metavar="FILE",
    help="Where the lock goes.  [default: artifacts.lockfile, or CONFIG with .lock.json]",
)
@click.option(
    "--update", multiple=True, metavar="NAME", help="Pin this artifact again; repeatable."
)
@dry_run_option
@set_option
@json_option
@pass_session
def lock(
    session: Session,
    config: str | None,
    config_option: str | None,
    output: Path | None,
    update: tuple[str, ...],
    dry_run: bool,
    overrides: tuple[str, ...],
) -> None:
    """Pin every file of a manifest to its digest.

    Prints what was pinned, file by file, or what cannot be pinned and why.
    Files of local sources are read into the store on the way. What is pinned
    stays pinned until its source changes in the manifest or --update names it.
    """
    from dis_derivations.lock.location import LockLocation
    from dis_derivations.lock.making import make_lock, plan_new_lock
    from dis_derivations.manifest.loading import load_manifest

    loaded = load_manifest(Path(chosen_config(config, config_option)), overrides)
    location = LockLocation.of(loaded.raw) if output is None else LockLocation(output)
    if dry_run:
        with session.open_store() as store:
            _show_plan(session, plan_new_lock(store, loaded, location, update=update))
        return
    with session.open_store() as store, session.reporting() as reporter:
        made, path = make_lock(store, loaded, location, update=update, reporter=reporter)
    session.print_result(lambda: _document(made, path), lambda: _text(made))
    session.say(f"locked {len(made.artifacts)} files in {path}")


def _document(lock: "Lock", path: Path) -> dict[str, Any]:
    return {
        "schema_version": 1,
        "path": str(path),
        "lock_id": str(lock.lock_id),
        "manifest_id": str(lock.manifest_id),
        "artifacts": [
            {**file.identity, "digest_source": file.digest_source} for file in lock.artifacts
        ],
    }


def _text(lock: "Lock") -> str:
    from dis_command.table import aligned
    from dis_command.terminal import size_text

    return aligned(
        [(file.name, file.path, size_text(file.size), str(file.digest)) for file in lock.artifacts]
    )


def _show_plan(session: Session, plan: "PlannedLock") -> None:
    files = [
        {"name": read.group.name, "path": file.path, "size": read.source.size(file.path) or 0}
        for read in plan.reads
        for file in read.files
    ]
    size = sum(read.size for read in plan.reads)
    session.print_result(
        lambda: {
            "schema_version": 1,
            "dry_run": True,
            "path": None if plan.path is None else str(plan.path),
            "written": plan.written,
            "reads": files,
            "bytes": size,
            "kept": plan.kept,
        },
        lambda: _plan_text(plan, files, size),
    )


def _plan_text(plan: "PlannedLock", files: list[dict[str, Any]], size: int) -> str:
    from dis_command.table import aligned
    from dis_command.terminal import count_text, size_text

    rows = [(file["name"], file["path"], size_text(file["size"])) for file in files]
    kept = f"{count_text(plan.kept, 'file stays', 'files stay')} pinned as they are"
    place = f"{plan.path} would {'be written' if plan.written else 'not change'}"
    read = f"{count_text(len(files), 'file')} would be read, {size_text(size)}"
    return "\n".join([*aligned(rows).splitlines(), f"{read}; {kept}; {place}"])
