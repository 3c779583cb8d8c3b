"""Which packages of two images differ, the most likely to change bits first."""

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from dis_derivations.comparison.causes.package_effects import (
    effect_of_packages,
    package_effect,
    ranked,
)
from dis_derivations.images.contents.image_packages import (
    PackageDifference,
    PackageDifferences,
)

if TYPE_CHECKING:
    from collections.abc import Iterable

# A report of more would be long; how many there are is said in any case.
_MAX_LISTED = 2000


@dataclass(frozen=True)
class PackageChanges:
    """The packages of two images held against each other.

    Attributes:
        packages: Those that are not the same, the most likely to change bits first.
        unread: What could not be read, and why.
    """

    packages: tuple[PackageDifference, ...]
    unread: tuple[str, ...]

    @classmethod
    def of(cls, found: PackageDifferences) -> "PackageChanges":
        """Rank what differs."""
        return cls(ranked(found.packages), found.unread)

    @property
    def changed(self) -> int:
        """How many packages both images have, in other versions."""
        return _count(each.old and each.new for each in self.packages)

    @property
    def added(self) -> int:
        """How many packages B alone has."""
        return _count(not each.old for each in self.packages)

    @property
    def removed(self) -> int:
        """How many packages A alone has."""
        return _count(not each.new for each in self.packages)

    @property
    def statement(self) -> str:
        """The counts in words."""
        known = "as far as they could be read" if self.unread else ""
        if not self.packages:
            return f"none differs, {known}" if known else "none differs"
        counts = f"{self.changed} changed, {self.added} added, {self.removed} removed"
        return f"{counts}, {known}" if known else counts

    @property
    def effect(self) -> str:
        """What is known of their effect on bits; empty where nothing is."""
        if said := effect_of_packages(self.packages):
            return said
        harmless = all(package_effect(each.name).harmless for each in self.packages)
        if self.packages and harmless and not self.unread:
            return "of the packages in the images, only such differ as cannot change a bit"
        return ""

    def to_json(self) -> dict[str, Any]:
        """Return the packages as the reports hold them."""
        listed = self.packages[:_MAX_LISTED]
        return {
            "changed": self.changed,
            "added": self.added,
            "removed": self.removed,
            "packages": [
                {
                    "system": each.system,
                    "name": each.name,
                    "old": list(each.old),
                    "new": list(each.new),
                    "effect": package_effect(each.name).words,
                }
                for each in listed
            ],
            "left_out": len(self.packages) - len(listed),
            "unread": list(self.unread),
        }


def _count(found: "Iterable[object]") -> int:
    return sum(map(bool, found))
