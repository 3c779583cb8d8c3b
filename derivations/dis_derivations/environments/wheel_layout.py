"""Where each file of a wheel goes in an environment, from names alone.

NAME-VERSION.data/purelib, platlib   site-packages/
NAME-VERSION.data/data               data/
NAME-VERSION.data/scripts, headers   nowhere: they are for a shell and for compilers
__pycache__/                         nowhere: bytecode is of one Python, and is made again
everything else                      site-packages/
"""

from collections.abc import Collection
from dataclasses import dataclass

from dis_derivations.environments.document import DATA, SITE_PACKAGES
from dis_derivations.environments.record import RECORD
from dis_derivations.environments.wheel_names import normalised, parse_wheel_name

_BELOW = {"purelib": SITE_PACKAGES, "platlib": SITE_PACKAGES, "data": DATA}
_NOWHERE = frozenset({"scripts", "headers"})
# What installers note of their own work, and signatures of a RECORD that is written anew.
_NOTES = frozenset(
    {RECORD, "RECORD.jws", "RECORD.p7s", "INSTALLER", "REQUESTED", "direct_url.json"}
)
_CACHE = "__pycache__"


@dataclass(frozen=True)
class WheelLayout:
    """The parts of a wheel.

    Attributes:
        info: The name of its `.dist-info` directory.
        places: Where each file that is kept goes in the object, by its path in the wheel.
    """

    info: str
    places: dict[str, str]


def lay_out(wheel: str, members: Collection[str]) -> WheelLayout:
    """Return where the files of a wheel go.

    Args:
        wheel: Its file name.
        members: The paths of its files.

    Raises:
        ValueError: It has no single `.dist-info` of its own package and version, a file for a place that there is not,
            or bytecode without its source.
    """
    info = _directory_of(wheel, members, ".dist-info")
    if info is None:
        raise ValueError("it has no .dist-info of its own name and version")
    data = _directory_of(wheel, members, ".data")
    places: dict[str, str] = {}
    for member in members:
        place = _place(member, info, data)
        if place is None:
            continue
        if place.endswith(".pyc"):
            if f"{member[:-1]}" in members:
                continue
            raise ValueError(f"{member} in it is bytecode without its source")
        places[member] = place
    return WheelLayout(info, places)


def _place(member: str, info: str, data: str | None) -> str | None:
    parts = member.split("/")
    if _CACHE in parts or (parts[0] == info and len(parts) == 2 and parts[1] in _NOTES):  # noqa: PLR2004 - directly in it
        return None
    if parts[0] != data:
        return f"{SITE_PACKAGES}/{member}"
    if len(parts) < 3 or parts[1] not in {*_BELOW, *_NOWHERE}:  # noqa: PLR2004 - directory, scheme, file
        raise ValueError(f"{member} in it is for a place that there is not")
    if parts[1] in _NOWHERE:
        return None
    return "/".join((_BELOW[parts[1]], *parts[2:]))


def _directory_of(wheel: str, members: Collection[str], suffix: str) -> str | None:
    """Return the one directory with this suffix.

    Raises:
        ValueError: There are several, or it is of another package.
    """
    tops = {member.split("/")[0] for member in members if "/" in member}
    found = sorted(top for top in tops if top.endswith(suffix))
    if not found:
        return None
    if len(found) > 1:
        raise ValueError(f"it has several {suffix} directories: {', '.join(found)}")
    named = parse_wheel_name(wheel)
    name, _, version = found[0].removesuffix(suffix).rpartition("-")
    if not name or normalised(name) != named.package or _version(version) != named.version:
        raise ValueError(f"its directory {found[0]} is of another package or version")
    return found[0]


def _version(text: str) -> str:
    from packaging.version import Version

    # InvalidVersion is a ValueError.
    return str(Version(text.replace("_", "-")))
