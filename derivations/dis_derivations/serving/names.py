"""What servers are called."""

import re

from dis_derivations.realisation.rooting import label_of
from dis_store import roots
from dis_store.errors import InvalidInputError

_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9_.-]{0,63}")
_LONGEST = 64


def check_name(name: str) -> None:
    """Accept the name of a server: one that a file, a root and a container may have.

    Raises:
        InvalidInputError: The name is refused.
    """
    if _NAME.fullmatch(name) is None or not _may_be_in_a_root(name):
        raise InvalidInputError(
            f"the name {name[:100]!r} is refused",
            cause="a server has a name of up to 64 letters, digits, '.', '_' and '-', the first a letter or digit, "
            "and one that a root may have",
            hint="name it: --name NAME",
        )


def name_for(manifest_name: str) -> str:
    """Return what a server of a manifest is called where nobody says it."""
    name = label_of(manifest_name).replace("+", "-").lstrip("_-.")[:_LONGEST] or "server"
    return name if _may_be_in_a_root(name) else name.replace(".", "-")


def _may_be_in_a_root(name: str) -> bool:
    """Tell whether `serve-NAME.HEX` is a name for a root."""
    try:
        roots.check_name(f"serve-{name}.00000000")
    except InvalidInputError:
        return False
    return True
