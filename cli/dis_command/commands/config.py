"""`dis config`: the settings of dis."""

from typing import TYPE_CHECKING

import click

from dis_command.command import command, json_option, pass_session
from dis_command.lazy_group import LazyCommand, LazyGroup
from dis_command.session import Session

if TYPE_CHECKING:
    from dis_command.setting_origins import Setting

_MODULE = "dis_command.commands.config"


@click.group(
    "config",
    cls=LazyGroup,
    examples=("dis config show", "dis config show --origin"),
    lazy={"show": LazyCommand(_MODULE, "show", "Print every setting and its value.")},
)
def config() -> None:
    """Show the settings of dis."""


@command("show", examples=("dis config show --origin", "dis config show --json"))
@click.option("--origin", is_flag=True, help="Print where each value comes from as well.")
@json_option
@pass_session
def show(session: Session, origin: bool) -> None:
    """Print every setting and its value.

    An option comes before the environment, that before config.toml, that
    before the default.
    """
    from dis_command.setting_origins import settings_of

    found = settings_of(session)
    session.print_result(
        lambda: {
            "schema_version": 1,
            "settings": [
                {"name": each.name, "value": each.value, "origin": each.origin} for each in found
            ],
        },
        lambda: _text(found, origin=origin),
    )


def _text(found: "list[Setting]", *, origin: bool) -> str:
    from dis_command.table import aligned

    return aligned(
        [(each.name, each.value, *([f"({each.origin})"] if origin else [])) for each in found]
    )
