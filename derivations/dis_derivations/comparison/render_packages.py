"""The packages of two images that differ, as text for a terminal."""

from dis_derivations.comparison.causes.package_changes import PackageChanges
from dis_derivations.comparison.causes.package_effects import package_effect
from dis_derivations.comparison.text_layout import heading, paragraph, printable, shortened, table
from dis_derivations.images.contents.image_packages import PackageDifference

_SHOWN_PACKAGES = 12
_SHOWN_UNREAD = 6
_SHOWN_VERSIONS = 60


def packages_section(found: PackageChanges | None) -> list[str]:
    """Return the section about packages; nothing where no layer of the images differs."""
    if found is None:
        return []
    lines = heading(f"Packages in the images: {found.statement}")
    rows = [package_row(each) for each in found.packages[:_SHOWN_PACKAGES]]
    lines += table(rows) if rows else []
    if (more := len(found.packages) - len(rows)) > 0:
        lines.append(f"  … and {more} more (--json has them)")
    for said in found.unread[:_SHOWN_UNREAD]:
        lines += paragraph(f"- {said}", 2, 2)
    if (more := len(found.unread) - _SHOWN_UNREAD) > 0:
        lines.append(f"  … and {more} more could not be read (--json has them)")
    return lines


def package_row(found: PackageDifference) -> list[str]:
    """Return a package in cells: its name, its system, what became of it, what is known of its effect."""
    return [
        found.name,
        found.system,
        f"{_versions(found.old)} → {_versions(found.new)}",
        package_effect(found.name).words,
    ]


def _versions(versions: tuple[str, ...]) -> str:
    return shortened(printable(", ".join(versions)), _SHOWN_VERSIONS) if versions else "(absent)"
