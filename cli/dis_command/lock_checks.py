"""What `dis lock --check` prints, and its exit code."""

from typing import TYPE_CHECKING, Any

from dis_command.session import Session

if TYPE_CHECKING:
    from dis_derivations.lock.checking import LockCheck
    from dis_derivations.lock.location import LockLocation
    from dis_derivations.manifest.loading import LoadedManifest
    from dis_store import Store


def show_check(
    session: Session, loaded: "LoadedManifest", location: "LockLocation", store: "Store"
) -> int:
    """Compare a lock with what its names lead to today, print what differs, and return the exit code.

    Raises:
        InvalidInputError: There is no lock.
        UnfitEnvironmentError: Nothing differs, but something could not be looked at, and skipped is not passed.
    """
    from dis_derivations.lock.checking import check_lock
    from dis_derivations.lock.making import existing_lock
    from dis_store.errors import UnfitEnvironmentError

    lock = existing_lock(location, loaded)
    check = check_lock(loaded, lock, store)
    session.print_result(lambda: _document(check, str(lock.lock_id)), lambda: _text(check))
    if check.differing:
        names = " ".join(f"--update {name}" for name in check.differing)
        count = len(check.differing)
        session.say(
            f"{count} of {check.artifacts} artifacts would be pinned differently today; "
            f"the lock goes on to hold. To move: dis lock {loaded.path} {names}"
        )
        return 1
    if check.unchecked:
        raise UnfitEnvironmentError(
            f"{len(check.unchecked)} of {check.artifacts} artifacts could not be looked at",
            cause="\n".join(f"{found.name}: {found.message}" for found in check.unchecked),
            hint="look again when their sources can be reached",
        )
    session.say(f"all {check.artifacts} artifacts would be pinned as they are")
    return 0


def _document(check: "LockCheck", lock_id: str) -> dict[str, Any]:
    return {
        "schema_version": 1,
        "lock_id": lock_id,
        "current": not check.findings,
        "findings": [
            {
                "name": found.name,
                "path": found.path or None,
                "kind": found.kind,
                "message": found.message,
            }
            for found in check.findings
        ],
    }


def _text(check: "LockCheck") -> str:
    return "\n".join(
        " ".join(filter(None, (found.name, found.path))) + f": {found.message}"
        for found in check.findings
    )
