"""What an image runs on, as indexes and configurations of images say it."""

import platform as machine
from dataclasses import dataclass
from typing import Any, TypeGuard

from dis_store.errors import InvalidInputError

_MAX_TEXT = 64
_ARCHITECTURES = {
    "x86_64": ("amd64", None),
    "amd64": ("amd64", None),
    "aarch64": ("arm64", "v8"),
    "arm64": ("arm64", "v8"),
    "armv7l": ("arm", "v7"),
    "ppc64le": ("ppc64le", None),
    "riscv64": ("riscv64", None),
    "s390x": ("s390x", None),
}
# What an architecture is where nothing more is said.
_PLAIN_VARIANTS = {"arm64": "v8", "arm": "v7"}


@dataclass(frozen=True)
class Platform:
    """An operating system and a processor, in Go's words.

    Attributes:
        os: `linux`.
        architecture: `amd64`.
        variant: `v8`; None where there is one kind only, or nothing is said.
    """

    os: str
    architecture: str
    variant: str | None = None

    def __str__(self) -> str:
        return "/".join(part for part in (self.os, self.architecture, self.variant) if part)

    @property
    def is_unknown(self) -> bool:
        """Whether it is said that it runs on nothing: attestations are marked so."""
        return "unknown" in (self.os, self.architecture)

    def fits(self, wanted: "Platform") -> bool:
        """Tell whether what runs on this platform runs on the wanted one."""
        if (self.os, self.architecture) != (wanted.os, wanted.architecture):
            return False
        plain = _PLAIN_VARIANTS.get(self.architecture)
        return (self.variant or plain) == (wanted.variant or plain)


def machine_platform() -> Platform:
    """Return the platform of this machine: containers are Linux ones on any.

    Raises:
        InvalidInputError: The processor has no name among images.
    """
    found = machine.machine().lower()
    if found not in _ARCHITECTURES:
        raise InvalidInputError(
            f"there are no images for the processor {found!r}",
            cause=f"known are {', '.join(sorted(_ARCHITECTURES))}",
        )
    architecture, variant = _ARCHITECTURES[found]
    return Platform("linux", architecture, variant)


def platform_of(text: str) -> Platform:
    """Return the platform that `str` made a text of.

    Raises:
        InvalidInputError: It is none.
    """
    os, _, rest = text.partition("/")
    architecture, _, variant = rest.partition("/")
    return parse_platform(
        {"os": os, "architecture": architecture, "variant": variant}, f"the platform {text[:80]!r}"
    )


def parse_platform(value: Any, where: str) -> Platform:
    """Return the platform in a descriptor or a configuration.

    Raises:
        InvalidInputError: It is malformed.
    """
    names = ("os", "architecture", "variant")
    if not isinstance(value, dict):
        raise _refusal(where)
    os, architecture, variant = (value.get(name) for name in names)
    if not _is_word(os) or not _is_word(architecture):
        raise _refusal(where)
    if variant is not None and variant != "" and not _is_word(variant):
        raise _refusal(where)
    return Platform(os, architecture, variant or None)


def _is_word(value: Any) -> TypeGuard[str]:
    return (
        isinstance(value, str)
        and 0 < len(value) <= _MAX_TEXT
        and value.isascii()
        and value.isprintable()
        and not set(value) & {"/", " "}
    )


def _refusal(where: str) -> InvalidInputError:
    return InvalidInputError(
        f"{where} is malformed", cause="it does not say by name what it runs on (os, architecture)"
    )
