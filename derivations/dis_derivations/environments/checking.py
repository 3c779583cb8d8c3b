"""Whether the packages of a manifest would be resolved today as they are locked."""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal

from dis_derivations.environments.locking import locked_packages, resolve_now
from dis_derivations.environments.request import ALL_PACKAGES, package_request
from dis_derivations.environments.wheel_names import PACKAGE_PREFIX
from dis_store.errors import DisError

if TYPE_CHECKING:
    from dis_derivations.environments.pip_report import ResolvedWheel
    from dis_derivations.lock.document import Lock, LockedFile
    from dis_derivations.manifest.loading import LoadedManifest
    from dis_store import Store


@dataclass(frozen=True)
class PackageChange:
    """A package that would be locked differently today; what `Finding` of a lock has.

    Attributes:
        name: What `--update` would name.
        path: The file name of the wheel that is locked, or would be.
        kind: `digest`, another wheel; `added`, `removed`; `unchecked`, it is not known.
        message: The same in a sentence.
    """

    name: str
    path: str
    kind: Literal["digest", "added", "removed", "unchecked"]
    message: str


def package_changes(
    loaded: "LoadedManifest", lock: "Lock", store: "Store"
) -> Iterator[PackageChange]:
    """Yield what differs, or why that is not known. Nothing is fetched but what pip needs to resolve."""
    request = package_request(loaded)
    if request is None:
        return
    try:
        today = {
            f"{PACKAGE_PREFIX}{wheel.name}": wheel
            for wheel in resolve_now(request, store, {}, lambda: None)
        }
    except DisError as error:
        yield PackageChange(ALL_PACKAGES, "", "unchecked", str(error))
        return
    locked = {file.name: file for file in locked_packages(lock)}
    for name in sorted({*today, *locked}):
        change = _change(name, locked.get(name), today.get(name))
        if change is not None:
            yield change


def _change(
    name: str, locked: "LockedFile | None", today: "ResolvedWheel | None"
) -> PackageChange | None:
    if locked is None or today is None:
        if today is not None:
            return PackageChange(
                ALL_PACKAGES, today.file, "added", "it is needed now, and is not locked"
            )
        assert locked is not None  # noqa: S101 - one of them is there
        return PackageChange(ALL_PACKAGES, locked.path, "removed", "it is not needed any more")
    if today.file != locked.path:
        message = f"it would be {today.file} today"
        return PackageChange(name, locked.path, "digest", message)
    if today.sha256 is None:
        message = f"the index does not tell the digest of {today.file}"
        return PackageChange(name, locked.path, "unchecked", message)
    if today.sha256 != locked.digest:
        message = f"it is {today.sha256} now, and {locked.digest} is locked"
        return PackageChange(name, locked.path, "digest", message)
    return None
