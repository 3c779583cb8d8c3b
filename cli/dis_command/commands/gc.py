"""`dis gc`: free what no root keeps."""

import re
from datetime import timedelta
from typing import TYPE_CHECKING, Any

import click

from dis_command.command import command, json_option, pass_session
from dis_command.session import Session

if TYPE_CHECKING:
    from dis_store import CollectionReport

_DURATION = re.compile(r"(\d+)([smhdw])")
_UNITS = {"s": "seconds", "m": "minutes", "h": "hours", "d": "days", "w": "weeks"}


def _duration(ctx: click.Context, param: click.Parameter, value: str | None) -> timedelta | None:
    """Return a length of time such as `12h` or `30d`."""
    if value is None:
        return None
    match = _DURATION.fullmatch(value)
    try:
        if match is not None:
            return timedelta(**{_UNITS[match[2]]: int(match[1])})
    except OverflowError:
        pass
    raise click.BadParameter(
        f"{value!r} is no length of time; write for example 12h, 30d or 8w", ctx, param
    )


@command("gc", examples=("dis gc --dry-run", "dis gc", "dis gc --older-than 30d --keep-last 10"))
@click.option("--dry-run", is_flag=True, help="Print what would be freed, and free nothing.")
@click.option(
    "--older-than",
    callback=_duration,
    metavar="TIME",
    help="First drop automatic roots of older runs (30d).",
)
@click.option(
    "--keep-last",
    type=click.IntRange(min=0),
    metavar="N",
    help="First drop automatic roots but the N newest.",
)
@click.option("--drop-inputs", is_flag=True, help="Free what kept results were built from as well.")
@json_option
@pass_session
def gc(
    session: Session,
    dry_run: bool,
    older_than: timedelta | None,
    keep_last: int | None,
    drop_inputs: bool,
) -> None:
    """Free what no root keeps.

    It asks nothing: every realised run has a root, so a bare gc never frees a
    run. --older-than and --keep-last drop automatic roots first; where both are
    given, a root is dropped when both allow it. Roots that people named are
    never dropped.
    """
    from dis_command.upkeep import collecting
    from dis_store import RetirementPolicy

    policy = RetirementPolicy(older_than=older_than, keep_last=keep_last)
    with (
        session.open_store() as store,
        session.reporting() as reporter,
        collecting(reporter) as progress,
    ):
        report = store.collect_garbage(
            dry_run=dry_run, policy=policy, drop_inputs=drop_inputs, progress=progress
        )
    session.print_result(lambda: _document(report), lambda: _text(report))


def _document(report: "CollectionReport") -> dict[str, Any]:
    return {
        "schema_version": 1,
        "dry_run": report.dry_run,
        "retired_roots": list(report.retired_roots),
        "dead_links": [str(link) for link in report.dead_links],
        "objects": [
            {"digest": str(each.digest), "label": each.label, "size": each.size}
            for each in report.objects
        ],
        "orphans": list(report.orphans),
        "derivations": [str(digest) for digest in report.derivations],
        "realisations": len(report.realisations),
        "freed_bytes": report.freed_bytes,
    }


def _text(report: "CollectionReport") -> str:
    from dis_command.table import aligned
    from dis_command.terminal import count_text, size_text

    would = "would be " if report.dry_run else ""
    lines = [f"root {name} {would}dropped" for name in report.retired_roots]
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
