"""Lists of packages in images: which files they are, and what they say.

Debian and what is made of it keep one file, images without a package manager one for each package; Alpine keeps one
file; an installed Python distribution has a directory. RPM has a database, which is read where it is one of SQLite.
"""

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from io import BytesIO
from typing import Literal

from packaging.utils import canonicalize_name
from packaging.version import InvalidVersion, Version

from dis_derivations.images.contents.layer_stream import Allowance, UnreadableError
from dis_derivations.images.contents.rpm_database import rpm_packages

System = Literal["Debian", "Alpine", "Python", "RPM"]
SYSTEMS: tuple[System, ...] = ("Python", "Debian", "Alpine", "RPM")

# What SQLite has not yet taken into a database stands beside it.
_PENDING = "-wal"
_DEBIAN = "var/lib/dpkg/status"
_DISTROLESS = f"{_DEBIAN}.d/"
_CHECKSUMS = ".md5sums"
_PYTHON = ".dist-info/METADATA"
_FIXED: Mapping[str, System] = {
    _DEBIAN: "Debian",
    "lib/apk/db/installed": "Alpine",
    "usr/lib/apk/db/installed": "Alpine",
    **{
        f"{directory}/{name}": "RPM"
        for directory in ("var/lib/rpm", "usr/lib/sysimage/rpm", "usr/share/rpm")
        for name in ("Packages", "Packages.db", "rpmdb.sqlite", f"rpmdb.sqlite{_PENDING}")
    },
}
# Of METADATA the fields in front count; a description that may be long follows them.
_METADATA_BYTES = 256 << 10
_WORD = re.compile(r"[!-~]{1,255}")


@dataclass(frozen=True, order=True, slots=True)
class Package:
    """A package that is installed.

    Attributes:
        system: What manages it.
        name: As its system compares names.
        version: As its list says it.
    """

    system: System
    name: str
    version: str


def system_of(path: str) -> System | None:
    """Return which system's list of packages a file of an image is; None for any other file."""
    if path.endswith(_PYTHON):
        return "Python"
    if path.startswith(_DISTROLESS):
        name = path.removeprefix(_DISTROLESS)
        return None if "/" in name or name.endswith(_CHECKSUMS) else "Debian"
    return _FIXED.get(path)


def bytes_needed(path: str, most: int) -> int:
    """Return how many bytes of a list are looked at, where one of `most` bytes is read whole."""
    return min(_METADATA_BYTES, most) if path.endswith(_PYTHON) else most


def packages_in(path: str, data: bytes, allowance: Allowance) -> Iterator[Package | None]:
    """Yield the packages that a list names, in its order.

    Args:
        path: Of the list in its image.
        data: Its content.
        allowance: How long it may take.

    Yields:
        None for an entry that is no package and took as long to read as one.

    Raises:
        UnreadableError: It is malformed, nothing here reads it, or the time is over.
    """
    match system_of(path):
        case "Debian":
            yield from _debian(path, data)
        case "Alpine":
            yield from _alpine(data)
        case "Python":
            yield _python(path, data)
        case "RPM" if path.endswith(_PENDING):
            if data:
                raise UnreadableError("it holds changes that are not in the database yet")
        case "RPM":
            for each in rpm_packages(data, allowance):
                yield None if each is None else _package("RPM", *each)
        case _:
            raise UnreadableError("it is no list of packages")


def _debian(path: str, data: bytes) -> Iterator[Package]:
    for fields in _paragraphs(data, b"Package", b"Version", b"Status"):
        # Where every package has a file of its own, no status is kept.
        status = fields.get("Status", "" if path == _DEBIAN else "install ok installed")
        if status.endswith(" installed"):
            yield _package("Debian", fields.get("Package"), fields.get("Version"))


def _alpine(data: bytes) -> Iterator[Package]:
    for fields in _paragraphs(data, b"P", b"V"):
        yield _package("Alpine", fields.get("P"), fields.get("V"))


def _paragraphs(data: bytes, *wanted: bytes) -> Iterator[dict[str, str]]:
    """Yield some fields of each paragraph, line by line: a list of empty lines must not become one of objects."""
    beginnings = tuple(name + b":" for name in wanted)
    fields: dict[str, str] = {}
    for line in BytesIO(data):
        if line.isspace():
            if fields:
                yield fields
            fields = {}
        elif line.startswith(beginnings):
            name, _, value = line.partition(b":")
            fields[name.decode()] = value.strip().decode("utf-8", "replace")
    if fields:
        yield fields


def _package(system: System, name: str | None, version: str | None) -> Package:
    if name is None or version is None or not (_WORD.fullmatch(name) and _WORD.fullmatch(version)):
        raise UnreadableError("a package in it has no name or no version")
    return Package(system, name, version)


def _python(path: str, data: bytes) -> Package:
    """Return the distribution that a directory is named after; what its METADATA says otherwise stands beside it."""
    directory = path.removesuffix(_PYTHON).rpartition("/")[2]
    name, _, version = directory.rpartition("-")
    package = _package("Python", canonicalize_name(name) if name else None, version or None)
    header = data.replace(b"\r\n", b"\n").partition(b"\n\n")[0]
    said = next(_paragraphs(header, b"Name", b"Version"), {})
    if _agrees(package, said):
        return package
    what = " ".join(said[field] for field in ("Name", "Version") if field in said)
    other = what.encode("ascii", "backslashreplace").decode()[:80] or "neither name nor version"
    return Package("Python", package.name, f"{package.version} (its METADATA says {other})")


def _agrees(package: Package, said: Mapping[str, str]) -> bool:
    name, version = said.get("Name"), said.get("Version")
    if name is None or version is None or not _WORD.fullmatch(version):
        return False
    if canonicalize_name(name) != package.name:
        return False
    if version == package.version:
        return True
    try:
        # A file name may have another spelling of the same version.
        return Version(version) == Version(package.version)
    except InvalidVersion:
        return False
