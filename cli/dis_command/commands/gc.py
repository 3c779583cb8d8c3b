"""`dis gc`: free what no root keeps."""

from datetime import timedelta
from functools import partial
from typing import TYPE_CHECKING, Any

import click

from dis_command.amounts import byte_count, duration
from dis_command.command import command, json_option, pass_session, yes_option
from dis_command.session import Session

if TYPE_CHECKING:
    from dis_store import CollectionReport, RootWeight


@command(
    "gc",
    examples=(
        "dis gc --dry-run",
        "dis gc",
        "dis gc --older-than 30d --keep-last 10",
        "dis gc --keep-free 50G",
    ),
)
@click.option("--dry-run", is_flag=True, help="Print what would be freed, and free nothing.")
@click.option(
    "--older-than",
    callback=duration,
    metavar="TIME",
    help="First drop automatic roots of runs not used for so long (30d).",
)
@click.option(
    "--keep-last",
    type=click.IntRange(min=0),
    metavar="N",
    help="First drop automatic roots but the N used last.",
)
@click.option(
    "--max-freed", callback=byte_count, metavar="BYTES", help="Stop when so much is freed (10G)."
)
@click.option(
    "--keep-free",
    callback=byte_count,
    metavar="BYTES",
    help="Stop when so much is free on the disk; drop automatic roots for it.",
)
@click.option("--drop-inputs", is_flag=True, help="Free what kept results were built from as well.")
@click.option(
    "--docker",
    is_flag=True,
    help="Remove images from Docker whose objects are gone as well, and containers of killed runs.",
)
@yes_option
@json_option
@pass_session
def gc(  # noqa: PLR0913, PLR0917 - one parameter an option, passed by name
    session: Session,
    dry_run: bool,
    older_than: timedelta | None,
    keep_last: int | None,
    max_freed: int | None,
    keep_free: int | None,
    drop_inputs: bool,
    docker: bool,
    yes: bool,
) -> None:
    """Free what no root keeps.

    Every realised run has a root, so a bare gc frees no run, and asks nothing.
    --older-than and --keep-last drop automatic roots first; where both are
    given, a root is dropped when both allow it. With --max-freed or --keep-free
    they go one by one, least recently used first, until it is enough. Before
    any of them goes, gc says what that frees and asks. Roots that people named
    are never dropped, nor are those of runs whose manifests want them to be
    kept for some time yet. --dry-run also prints what each root keeps.

    Images that dis loaded into Docker stay there when their objects go; gc
    names them, and with --docker removes them from there.
    """
    from dis_command.docker_garbage import collect_from_docker
    from dis_command.upkeep import collecting
    from dis_store import RetirementPolicy, SpaceGoal, Store

    policy = RetirementPolicy(older_than=older_than, keep_last=keep_last)
    collect = partial(
        Store.collect_garbage,
        policy=policy,
        goal=SpaceGoal(max_freed=max_freed, keep_free=keep_free),
        drop_inputs=drop_inputs,
    )
    with session.open_store() as store:
        drops_roots = policy != RetirementPolicy() or keep_free is not None
        if drops_roots and not dry_run and not yes:
            _confirm(collect(store, dry_run=True))
        with session.reporting() as reporter, collecting(reporter) as progress:
            report = collect(store, dry_run=dry_run, progress=progress)
        in_docker = collect_from_docker(
            store, report, session.environment, remove=docker and not dry_run
        )
    session.print_result(
        lambda: {
            **_document(report),
            "docker_images": in_docker.to_json(),
            "docker_containers": list(in_docker.containers),
        },
        lambda: "\n".join((_text(report), *in_docker.lines)),
    )
    if report.retained_roots:
        session.say(_retained(report))
    if report.unproven_roots:
        session.say(_unproven(report))
    if not report.reached and keep_free is not None:
        session.say(_shortfall(report))


def _confirm(plan: "CollectionReport") -> None:
    """Ask before roots of runs are dropped."""
    from dis_command.confirmation import Loss, confirm

    if plan.retired_roots:
        confirm(Loss(plan.retired_roots, len(plan.objects), plan.freed_bytes), yes=False)


def _document(report: "CollectionReport") -> dict[str, Any]:
    return {
        "schema_version": 1,
        "dry_run": report.dry_run,
        "retired_roots": list(report.retired_roots),
        "dead_links": [str(link) for link in report.dead_links],
        "objects": [
            {"digest": each.digest, "label": each.label, "size": each.size}
            for each in report.objects
        ],
        "orphans": list(report.orphans),
        "derivations": [str(digest) for digest in report.derivations],
        "realisations": len(report.realisations),
        "freed_bytes": report.freed_bytes,
        "wanted_bytes": report.wanted_bytes,
        "reached": report.reached,
        "unproven_roots": list(report.unproven_roots),
        "retained_roots": list(report.retained_roots),
        "roots": [_weight(each) for each in report.roots],
    }


def _weight(weight: "RootWeight") -> dict[str, Any]:
    used = weight.last_used
    return {
        "name": weight.name,
        "kind": weight.kind,
        "last_used": None if used is None else used.time.isoformat(timespec="seconds"),
        "objects": weight.objects,
        "only_bytes": weight.only_bytes,
        "shared_bytes": weight.shared_bytes,
        "kept_until": None
        if weight.kept is None
        else weight.kept.until.isoformat(timespec="seconds"),
    }


def _text(report: "CollectionReport") -> str:
    from dis_command.table import aligned
    from dis_command.terminal import count_text, size_text

    would = "would be " if report.dry_run else ""
    lines = [*_weights(report.roots), ""] if report.roots else []
    lines += [f"root {name} {would}dropped" for name in report.retired_roots]
    lines += [f"link {link} is gone" for link in report.dead_links]
    if report.objects:
        rows = [
            (each.digest[:12], each.label or "-", size_text(each.size)) for each in report.objects
        ]
        lines += aligned(rows).splitlines()
    if report.orphans:
        lines.append(f"{count_text(len(report.orphans), 'leftover')} of a crash {would}removed")
    freed = size_text(report.freed_bytes)
    lines.append(
        f"{count_text(len(report.objects), 'object')} {would}deleted, {freed} {would}freed"
    )
    return "\n".join(lines)


def _weights(roots: "tuple[RootWeight, ...]") -> list[str]:
    from dis_command.table import aligned
    from dis_command.terminal import size_text

    head = ("ROOT", "KIND", "LAST USED", "ONLY IT KEEPS", "SHARED")
    rows = [
        (
            each.name,
            each.kind,
            "-" if each.last_used is None else each.last_used.time.date().isoformat(),
            size_text(each.only_bytes),
            size_text(each.shared_bytes),
        )
        for each in roots
    ]
    if not any(each.kept for each in roots):  # which is so wherever no manifest asks for it
        return aligned([head, *rows]).splitlines()
    until = ["-" if each.kept is None else each.kept.date for each in roots]
    wide = [(*row, date) for row, date in zip(rows, until, strict=True)]
    return aligned([(*head, "KEPT UNTIL"), *wide]).splitlines()


def _retained(report: "CollectionReport") -> str:
    from dis_command.terminal import count_text

    roots = count_text(len(report.retained_roots), "automatic root")
    return (
        f"note: {roots} kept, as outputs.bundle_policy of the manifest asks: dis root list says until when, and"
        " dis root remove --force lets go"
    )


def _unproven(report: "CollectionReport") -> str:
    from dis_command.terminal import count_text
    from dis_store.garbage_collection.retention import DAYS_OF_EVIDENCE

    roots = count_text(len(report.unproven_roots), "automatic root")
    return (
        f"note: {roots} that the clock calls older stay: it may be wrong, so the store must also have been used on"
        f" {DAYS_OF_EVIDENCE} later days, of which dis gc makes one; --keep-last and --keep-free do not ask it"
    )


def _shortfall(report: "CollectionReport") -> str:
    from dis_command.terminal import size_text

    left = size_text((report.wanted_bytes or 0) - report.freed_bytes)
    return (
        f"note: {left} less than was asked for; what is left is kept by named roots and links,"
        " of which dis gc --dry-run says how much each keeps, or is not in this store"
    )
