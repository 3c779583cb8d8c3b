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
from dis_command.image_trust import image_check_of
from dis_command.lock_checks import show_check
from dis_command.session import Session

if TYPE_CHECKING:
    from dis_derivations.lock.document import Lock
    from dis_derivations.lock.making import PlannedLock


@command(
    "lock",
    examples=(
        "dis lock configs/quickstart.json",
        "dis lock configs/quickstart.json --update model.weight",
        "dis lock configs/quickstart.json --check",
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
@click.option(
    "--no-fetch",
    is_flag=True,
    help="Take the digests that hub and index publish; fetch no weights.",
)
@click.option(
    "--check", is_flag=True, help="Say what would be pinned differently today; change nothing."
)
@dry_run_option
@set_option
@json_option
@pass_session
def lock(  # noqa: PLR0913, PLR0917 - one parameter an option, passed by name
    session: Session,
    config: str | None,
    config_option: str | None,
    output: Path | None,
    update: tuple[str, ...],
    no_fetch: bool,
    check: bool,
    dry_run: bool,
    overrides: tuple[str, ...],
) -> int:
    """Pin every file of a manifest to its digest.

    Prints what was pinned, file by file, or what cannot be pinned and why.
    Files are read into the store on the way. What is pinned stays pinned until
    its source changes in the manifest or --update names it. A branch or a tag
    of a hub is pinned by its commit.

    With --check, 0 when all names lead where they led, 1 when one does not.
    """
    from dis_derivations.lock.location import LockLocation
    from dis_derivations.lock.making import make_lock, plan_new_lock
    from dis_derivations.manifest.loading import load_manifest

    loaded = load_manifest(Path(chosen_config(config, config_option)), overrides)
    location = LockLocation.of(loaded.raw) if output is None else LockLocation(output)
    if check:
        if update or no_fetch or dry_run:
            raise click.UsageError("--check changes nothing: it stands by itself")
        with session.open_store() as store:
            return show_check(session, loaded, location, store)
    fetch = not no_fetch
    if dry_run:
        with session.open_store() as store:
            plan = plan_new_lock(store, loaded, location, update=update, fetch=fetch)
            _show_plan(session, plan)
        return 0
    with session.open_store() as store, session.reporting() as reporter:
        made, path = make_lock(
            store,
            loaded,
            location,
            update=update,
            fetch=fetch,
            image_check=image_check_of(session),
            reporter=reporter,
        )
    session.print_result(lambda: _document(made, path), lambda: _text(made))
    session.say(f"locked {len(made.artifacts)} files in {path}")
    return 0


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
