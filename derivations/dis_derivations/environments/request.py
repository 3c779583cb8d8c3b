"""The packages that a manifest asks for, before anything is resolved."""

from collections.abc import Collection, Iterator
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING

from dis_derivations.environments.wheel_names import normalised
from dis_derivations.sources.pip_download import Requirement
from dis_store import canonical_json
from dis_store.digest import Sha256

if TYPE_CHECKING:
    from dis_derivations.lock.document import LockedFile
    from dis_derivations.manifest.loading import LoadedManifest
    from dis_derivations.manifest.software_block import Package, Python

POINTER = "/software_stack/python"
# What `--update` calls all packages together.
ALL_PACKAGES = "python.packages"


@dataclass(frozen=True)
class RequestedPackage:
    """A package that a manifest names.

    Attributes:
        name: Normalised.
        version: The one version; None for the newest that goes with the others.
        sha256: What its wheel must hash to, where the manifest says it.
        field: The JSON Pointer of the digest in the manifest.
    """

    name: str
    version: str | None
    sha256: Sha256 | None
    field: str

    @property
    def requirement(self) -> Requirement:
        """The package as pip wants to know it."""
        return Requirement(self.name, self.version)


@dataclass(frozen=True)
class PackageRequest:
    """What a manifest asks of its Python environment.

    Attributes:
        python: The version of Python.
        packages: In the order of the manifest.
        exclude: Normalised names of packages that are left out although others ask for them; sorted.
    """

    python: str
    packages: tuple[RequestedPackage, ...]
    exclude: tuple[str, ...]

    @cached_property
    def digest(self) -> Sha256:
        """The identity of the request: a lock holds as long as this stays."""
        return canonical_json.sha256(
            {
                "python": self.python,
                "packages": sorted(
                    [each.name, each.version or "", each.sha256 or ""] for each in self.packages
                ),
                "exclude": list(self.exclude),
            }
        )


def package_request(loaded: "LoadedManifest") -> PackageRequest | None:
    """Return what a manifest asks for; None where it lists no packages.

    Raises:
        ValueError: A name or a version is none; `package_faults` says which.
    """
    python = loaded.manifest.software_stack.python
    if python is None or not python.packages:
        return None
    packages = tuple(
        RequestedPackage(
            name=normalised(package.name),
            version=package.version,
            sha256=package.source.sha256,
            field=f"{POINTER}/packages/{index}/source/digest",
        )
        for index, package in enumerate(python.packages)
    )
    return PackageRequest(
        python=python.version,
        packages=packages,
        exclude=tuple(sorted({normalised(name) for name in python.exclude})),
    )


def package_faults(python: "Python") -> Iterator[tuple[str, str, str]]:
    """Yield what of a manifest's packages cannot be resolved: the package, the field, and why."""
    seen: dict[str, int] = {}
    for index, package in enumerate(python.packages):
        field = f"{POINTER}/packages/{index}"
        yield from ((package.name, f"{field}/{place}", why) for place, why in _faults(package))
        first = seen.setdefault(package.name.lower().replace("_", "-").replace(".", "-"), index)
        if first != index:
            yield package.name, f"{field}/name", "it is listed twice"
    if python.packages and not _is_version(python.version):
        why = f"{python.version!r} is no version such as 3.11 or 3.11.9, so no wheel can be chosen"
        yield "python", f"{POINTER}/version", why
    for index, name in enumerate(python.exclude):
        field = f"{POINTER}/exclude/{index}"
        try:
            if normalised(name) in seen:
                yield name, field, "it is listed among the packages, too"
        except ValueError as error:
            yield name, field, str(error)


def _faults(package: "Package") -> Iterator[tuple[str, str]]:
    if package.source.type != "wheel":
        yield (
            "source/type",
            f"Python packages of source type {package.source.type!r} cannot be built; only wheels are taken",
        )
    elif package.source.url is not None or package.source.rev is not None:
        place = "source/url" if package.source.url is not None else "source/rev"
        yield place, "a wheel comes from the index that pip goes to, and from no other address"
    try:
        Requirement(package.name, package.version)
    except ValueError as error:
        yield "version" if package.version and package.version in str(error) else "name", str(error)


def _is_version(text: str) -> bool:
    parts = text.split(".")
    return len(parts) in (2, 3) and all(part.isascii() and part.isdigit() for part in parts)


def packages_are_stale(loaded: "LoadedManifest", locked: Collection["LockedFile"]) -> bool:
    """Tell whether the wheels of a lock were resolved for another request than the manifest's.

    Args:
        loaded: The manifest.
        locked: The wheels of its lock.
    """
    try:
        request = package_request(loaded)
    except ValueError:
        return True
    if request is None:
        return bool(locked)
    return not locked or any(
        file.retrieval.get("request") != str(request.digest) for file in locked
    )
