"""The packages of a manifest in its lock: those that stay, and those that are resolved and fetched anew."""

from collections.abc import Callable, Collection
from contextlib import contextmanager
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from dis_derivations.environments.interpreter import find_interpreter
from dis_derivations.environments.pip_report import ResolvedWheel
from dis_derivations.environments.request import (
    ALL_PACKAGES,
    POINTER,
    PackageRequest,
    package_request,
    packages_are_stale,
)
from dis_derivations.environments.resolution import resolve_packages
from dis_derivations.environments.wheel_names import PACKAGE_PREFIX, is_package, parse_wheel_name
from dis_derivations.environments.wheel_source import WheelSource
from dis_derivations.lock.document import Lock, LockedFile
from dis_derivations.lock.ingestion import GroupPlan
from dis_derivations.lock.staleness import retrieval_of
from dis_derivations.manifest.artifact_groups import ArtifactGroup, DeclaredFile, DeclaredSource
from dis_derivations.sources.package_index import PackageIndex
from dis_derivations.sources.pip_download import has_pip
from dis_store.errors import MismatchError, UnfitEnvironmentError

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from dis_derivations.manifest.loading import LoadedManifest
    from dis_store import Store


@dataclass(frozen=True)
class PackagePlan:
    """What becomes of the packages when a manifest is locked.

    Attributes:
        kept: Wheels that are locked as they were.
        plans: Wheels that are to be fetched.
    """

    kept: tuple[LockedFile, ...] = ()
    plans: tuple[GroupPlan, ...] = ()


def package_names(loaded: "LoadedManifest", previous: Lock | None) -> list[str]:
    """Return what `--update` may name of the packages: all of them together, and each that is locked."""
    try:
        if package_request(loaded) is None:
            return []
    except ValueError:
        # It is refused, item by item, before anything is resolved.
        return []
    return [ALL_PACKAGES, *(file.name for file in locked_packages(previous))]


def locked_packages(lock: Lock | None) -> list[LockedFile]:
    """Return the wheels that a lock has."""
    return [file for file in (lock.artifacts if lock else ()) if is_package(file.name)]


def plan_packages(
    loaded: "LoadedManifest",
    store: "Store",
    previous: Lock | None,
    update: Collection[str],
    check_interrupted: Callable[[], None],
) -> PackagePlan:
    """Return what becomes of the packages. pip is asked when the request is another one, or something is to move.

    Args:
        loaded: The manifest; nothing of its packages is refused.
        store: Where pip works, in the room for unfinished things.
        previous: The lock so far; what it has stays as far as it can.
        update: Names of those that may move.
        check_interrupted: Called all the while; raises when the user asked to stop.

    Raises:
        MismatchError: A wheel is not the one that the manifest declares.
        BuildError: pip finds no wheels that go together.
        UnfitEnvironmentError: There is no pip, or no Python of the wanted version.
    """
    request = package_request(loaded)
    if request is None:
        return PackagePlan()
    locked = locked_packages(previous)
    moving = {name.removeprefix(PACKAGE_PREFIX) for name in update if is_package(name)}
    moves_all = ALL_PACKAGES in update
    if not (moves_all or moving or packages_are_stale(loaded, locked)):
        return PackagePlan(kept=tuple(locked))
    # A version that the manifest says comes before the one that is locked.
    moving |= {each.name for each in request.packages if each.version is not None}
    versions = {} if moves_all else _versions(locked, moving | set(request.exclude))
    wheels = resolve_now(request, store, versions, check_interrupted)
    _check_declared(loaded, request, wheels)
    before = {file.path: file for file in locked}
    groups = [(wheel, _group(request, wheel)) for wheel in wheels]
    index = PackageIndex()
    kept = [
        replace(before[wheel.file], retrieval=retrieval_of(group))
        for wheel, group in groups
        if _stays(wheel, before)
    ]
    plans = [
        GroupPlan(group, WheelSource(wheel.file, wheel.sha256, wheel, index), group.files)
        for wheel, group in groups
        if not _stays(wheel, before)
    ]
    return PackagePlan(tuple(kept), tuple(plans))


def resolve_now(
    request: PackageRequest,
    store: "Store",
    versions: dict[str, str],
    check_interrupted: Callable[[], None],
) -> list[ResolvedWheel]:
    """Return what a request leads to today, when some versions are to stay.

    Raises:
        BuildError: pip finds no wheels that go together.
        UnfitEnvironmentError: There is no pip, or no Python of the wanted version.
    """
    if not has_pip():
        raise UnfitEnvironmentError(
            "Python packages cannot be resolved",
            cause="the Python that runs dis has no pip",
            hint="install it: python -m ensurepip",
        )
    interpreter = find_interpreter(request.python)
    with _work_directory(store) as directory:
        return resolve_packages(request, interpreter, versions, directory, check_interrupted)


@contextmanager
def _work_directory(store: "Store") -> "Iterator[Path]":
    from dis_store.writing.work_space import work_space

    with work_space(store.path / "tmp") as space:
        yield space.path


def _versions(locked: Collection[LockedFile], moving: Collection[str]) -> dict[str, str]:
    named = [parse_wheel_name(file.path) for file in locked]
    return {each.package: each.version for each in named if each.package not in moving}


def _stays(wheel: ResolvedWheel, before: dict[str, LockedFile]) -> bool:
    was = before.get(wheel.file)
    return was is not None and wheel.sha256 in {None, was.digest}


def _group(request: PackageRequest, wheel: ResolvedWheel) -> ArtifactGroup:
    name = f"{PACKAGE_PREFIX}{wheel.name}"
    asked = next((each for each in request.packages if each.name == wheel.name), None)
    field = f"{POINTER}/packages" if asked is None else asked.field
    source = DeclaredSource(
        type="wheel",
        repository=wheel.name,
        revision=wheel.version,
        url=wheel.origin or None,
        mirrors=(),
        local_path=None,
        location=None,
        field=field,
        request=str(request.digest),
    )
    declared = wheel.sha256 if asked is None else asked.sha256 or wheel.sha256
    file = DeclaredFile(path=wheel.file, sha256=declared, unset=False, field=field)
    return ArtifactGroup(name=name, label=name, source=source, files=(file,))


def _check_declared(
    loaded: "LoadedManifest", request: PackageRequest, wheels: Collection[ResolvedWheel]
) -> None:
    found = {wheel.name: wheel for wheel in wheels}
    wrong = [
        f"{each.name}: declared {each.sha256}, and {found[each.name].file} has {found[each.name].sha256}"
        for each in request.packages
        if each.sha256 is not None and found[each.name].sha256 not in {None, each.sha256}
    ]
    if wrong:
        raise MismatchError(
            f"{loaded.path} declares digests that the wheels for Python {request.python} do not have",
            cause="\n".join(wrong),
            hint="leave the digest out, and dis lock finds it; or declare the one that was found",
        )
