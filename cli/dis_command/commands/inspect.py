"""`dis inspect`: what there is to know about a manifest, a lock, a run or an object."""

from collections.abc import Iterator
from typing import Any

import click

from dis_command import completion
from dis_command.command import command, json_option, pass_session, ref_argument
from dis_command.session import Session


@command(
    "inspect",
    examples=(
        "dis inspect configs/quickstart.json",
        "dis inspect first",
        "dis inspect runs/a --json",
    ),
)
@ref_argument(required=False)
@click.option(
    "--input",
    "ref_option",
    metavar="REF",
    shell_complete=completion.references,
    help="The same as REF.",
)
@json_option
@pass_session
def inspect(session: Session, ref: str | None, ref_option: str | None) -> None:
    """Describe a manifest, a lock, a run or an object."""
    from dis_command.references import looking_up
    from dis_derivations.runs.inspection import describe

    if (ref is None) == (ref_option is None):
        raise click.UsageError("name one thing to inspect: REF, or --input REF")
    named = ref or ref_option or ""
    with looking_up(session, [named]) as (store, resolve):
        found = describe(store, resolve(named))
    session.print_result(
        lambda: {"schema_version": 1, **found}, lambda: "\n".join(_lines(found, ""))
    )


def _lines(value: dict[str, Any], indent: str) -> Iterator[str]:
    """Yield an object as lines, one a scalar, with objects and lists below their names."""
    for name, item in value.items():
        if isinstance(item, dict) and item:
            yield f"{indent}{name}:"
            yield from _lines(item, f"{indent}  ")
        elif isinstance(item, list) and item:
            yield f"{indent}{name}:"
            for each in item:
                yield f"{indent}  {_scalar(each)}"
        else:
            yield f"{indent}{name}: {_scalar(item)}"


def _scalar(value: Any) -> str:
    from dis_command.terminal import one_line

    if isinstance(value, dict):
        return "  ".join(f"{name}={_scalar(item)}" for name, item in value.items()) or "none"
    if value is None or value == []:
        return "none"
    if isinstance(value, bool):
        return "yes" if value else "no"
    return one_line(str(value))
