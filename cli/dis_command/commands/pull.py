"""`dis pull`: fetch something, with all that belongs to it, from a registry."""

from typing import TYPE_CHECKING

import click

from dis_command.command import command, dry_run_option, json_option, pass_session
from dis_command.session import Session

if TYPE_CHECKING:
    from dis_derivations.distribution.pulling import Pulled, PullPlan
    from dis_store import Store


@command(
    "pull",
    examples=(
        "dis pull oci://registry.example.com/runs:first",
        "dis pull oci://registry.example.com/runs:first --only weights",
    ),
)
@click.argument("place", metavar="oci://HOST/REPOSITORY:TAG[@DIGEST]")
@click.option(
    "--only", metavar="PART", help="Fetch one part, with what it refers to: see `dis remote ls`."
)
@click.option("--name", metavar="NAME", help="Keep it under this name.")
@dry_run_option
@json_option
@pass_session
def pull(session: Session, place: str, only: str | None, name: str | None, dry_run: bool) -> None:
    """Fetch something with all that belongs to it from a registry.

    Every byte is compared with its digests before anything is registered. What
    is known of builds is taken as far as the setting `trust` allows. Prints the
    store path of the object.
    """
    from dis_command.substituters import acceptance
    from dis_command.transfers import interruptible, transferring
    from dis_derivations.distribution.pulling import plan_pull
    from dis_derivations.distribution.pulling import pull as fetch
    from dis_derivations.registry.client import RegistryClient
    from dis_derivations.registry.reference import parse_reference

    reference = parse_reference(place)
    accept = acceptance(session)
    with session.open_store() as store, interruptible() as stop:
        if name is not None:
            store.root(name)  # refuses a bad name now, and not after the fetch
        with (
            RegistryClient(session.environment) as client,
            session.reporting() as reporter,
            transferring(
                reporter, reference, text="fetching", finished="looked at" if dry_run else "fetched"
            ) as progress,
        ):
            plan = plan_pull(store, client, reference, only=only, stop=stop)
            if not dry_run:
                pulled = fetch(store, client, plan, accept=accept, progress=progress, stop=stop)
        if dry_run:
            _show_plan(session, plan)
            return
        root = _keep(store, plan, name)
        for what, reason in pulled.refused:
            session.say(f"the build of {what} is not taken over: {reason}")
        session.print_result(
            lambda: _document(store, pulled, root), lambda: str(store.object_path(pulled.root))
        )


def _keep(store: "Store", plan: "PullPlan", name: str | None) -> str:
    from dataclasses import replace

    from dis_derivations.distribution.pulling import root_of

    label = plan.closure.reference.repository.rpartition("/")[2]
    root = root_of(plan, store, label)
    chosen = name or f"{label}.{plan.root[:8]}"
    known = store.root(chosen)
    if known is None or known.object != root.object or known.key != root.key:
        store.set_root(chosen, replace(root, automatic=name is None))
    return chosen


def _show_plan(session: Session, plan: "PullPlan") -> None:
    from dis_command.terminal import count_text, size_text

    session.print_result(
        lambda: {
            "schema_version": 1,
            "reference": str(plan.closure.reference),
            "digest": str(plan.closure.digest),
            "dry_run": True,
            "object": str(plan.root),
            "objects": plan.objects,
            "missing": len(plan.missing),
            "bytes": plan.size,
        },
        lambda: (
            f"{count_text(plan.objects, 'object')}, {len(plan.missing)} of them not in the store; "
            f"{size_text(plan.size)} would be fetched"
        ),
    )


def _document(store: "Store", pulled: "Pulled", root: str) -> dict[str, object]:
    return {
        "schema_version": 1,
        "reference": str(pulled.reference),
        "digest": str(pulled.reference.digest),
        "dry_run": False,
        "object": str(pulled.root),
        "path": str(store.object_path(pulled.root)),
        "root": root,
        "objects": pulled.objects,
        "new": len(pulled.new),
        "bytes": pulled.size,
        "builds": pulled.builds,
        "refused": [{"build": what, "reason": reason} for what, reason in pulled.refused],
    }
