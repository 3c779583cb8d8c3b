"""Names of packages and of wheels, as the standards of packaging have them."""

import hashlib
import re
from collections.abc import Collection
from dataclasses import dataclass

PACKAGE_PREFIX = "python.package."

_SEPARATORS = re.compile(r"[-_.]+")
_NAME = re.compile(r"[A-Za-z0-9](?:[A-Za-z0-9._-]{0,126}[A-Za-z0-9])?")
# What the name of a derivation's input may have, behind `wheel-`.
_INPUT = re.compile(r"[a-z0-9-]{1,57}")


@dataclass(frozen=True)
class WheelName:
    """What the file name of a wheel says.

    Attributes:
        package: Normalised.
        version: As it is written there, which is normalised too.
        tags: Each `PYTHON-ABI-PLATFORM`, sorted.
    """

    package: str
    version: str
    tags: tuple[str, ...]

    def fits(self, tags: Collection[str]) -> bool:
        """Tell whether an interpreter with these tags takes it."""
        return not set(self.tags).isdisjoint(tags)


def parse_wheel_name(file: str) -> WheelName:
    """Return what a wheel's file name says.

    Raises:
        ValueError: It is no name of a wheel.
    """
    from packaging.utils import parse_wheel_filename

    # InvalidWheelFilename is a ValueError.
    package, version, _, tags = parse_wheel_filename(file)
    return WheelName(str(package), str(version), tuple(sorted(map(str, tags))))


def normalised(name: str) -> str:
    """Return the one spelling of a package's name.

    Raises:
        ValueError: It is no name of a package.
    """
    if not _NAME.fullmatch(name):
        raise ValueError(f"{name!r:.100} is not the name of a package")
    return _SEPARATORS.sub("-", name).lower()


def is_package(artifact: str) -> bool:
    """Tell whether an artifact of a lock is a wheel of the environment."""
    return artifact.startswith(PACKAGE_PREFIX)


def input_name(package: str) -> str:
    """Return what an environment's derivation calls the wheel of a package, whose name is normalised."""
    if _INPUT.fullmatch(package):
        return f"wheel-{package}"
    return f"wheel-{hashlib.sha256(package.encode()).hexdigest()[:40]}"
