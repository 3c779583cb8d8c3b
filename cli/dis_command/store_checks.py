"""The checks of `dis doctor` that are about the store: where it is, and what its file system can do."""

import os
import shutil
import tempfile
from collections.abc import Iterator
from pathlib import Path

from dis_command.machine_checks import Check
from dis_command.session import Session
from dis_command.terminal import size_text
from dis_store.errors import DisError

_LITTLE_SPACE, _TOO_LITTLE_SPACE = 10 * 2**30, 2**30


def store_checks(session: Session) -> Iterator[Check]:
    """Yield what can be told about the store. A store that does not exist yet is not made."""
    try:
        path = session.store_path
    except DisError as error:
        yield Check("FAIL", "store", str(error), error.hint)
        return
    place = _nearest(path)
    yield _opens(session, path, place)
    yield _file_system(place)
    yield _links(place)
    yield _space(place)


def _nearest(path: Path) -> Path:
    """Return the store, or the directory in which it would be made."""
    # os.access first: it answers where is_dir would raise, as in a directory that may not be entered.
    places = (path, *path.parents)
    return next(
        (place for place in places if os.access(place, os.F_OK) and place.is_dir()), Path("/")
    )


def _opens(session: Session, path: Path, place: Path) -> Check:
    if not os.access(path, os.F_OK):
        if not os.access(place, os.W_OK | os.X_OK):
            return Check(
                "FAIL",
                "store",
                f"{path} cannot be made: {place} is not writable",
                "name another: --store DIR",
            )
        return Check("PASS", "store", f"{path}, not made yet")
    try:
        with session.open_store(reading=True) as store:
            count = len(store.roots())
    except DisError as error:
        return Check("FAIL", "store", str(error), error.hint)
    if not os.access(path, os.W_OK | os.X_OK):
        return Check(
            "FAIL", "store", f"{path} is not writable", f"make it yours: chown -R $USER {path}"
        )
    return Check("PASS", "store", f"{path}, {count} roots")


def _file_system(place: Path) -> Check:
    from dis_store.platform_linux import is_network_file_system

    kind = _mount_kind(place)
    try:
        if is_network_file_system(place):
            return Check(
                "WARN",
                "file system",
                f"{kind}: locks of other machines may not be seen",
                "keep the store on a local disk",
            )
    except OSError as error:
        return Check("WARN", "file system", f"not known: {error.strerror}")
    return Check("PASS", "file system", kind)


def _mount_kind(place: Path) -> str:
    """Return the type of the file system that holds a directory, from the longest mount point above it."""
    real, best, kind = place.resolve(), "", "unknown"
    try:
        lines = (
            Path("/proc/self/mountinfo").read_text(encoding="utf-8", errors="replace").splitlines()
        )
    except OSError:
        return kind
    for line in lines:
        before, _, after = line.partition(" - ")
        point = before.split()[4].replace("\\040", " ")
        if real.is_relative_to(point) and len(point) >= len(best):
            best, kind = point, after.split()[0]
    return kind


def _links(place: Path) -> Check:
    """Try in a directory of its own, which is removed again, what the store's file system can do."""
    from dis_store.platform_linux import clone_file

    try:
        with tempfile.TemporaryDirectory(prefix=".dis-doctor-", dir=place) as directory:
            source, clone = Path(directory, "source"), Path(directory, "clone")
            source.write_bytes(b"dis" * 4096)
            with source.open("rb") as reader, clone.open("wb") as writer:
                reflinks = clone_file(reader.fileno(), writer.fileno())
            os.link(source, Path(directory, "link"))
    except OSError as error:
        return Check(
            "FAIL",
            "links",
            f"{place}: {error.strerror}",
            "name a store that is writable: --store DIR",
        )
    means = (
        "reflinks and hard links"
        if reflinks
        else "hard links; no reflinks, so local files are copied"
    )
    return Check("PASS", "links", means)


def _space(place: Path) -> Check:
    free = shutil.disk_usage(place).free
    if free < _TOO_LITTLE_SPACE:
        return Check("FAIL", "disk space", f"{size_text(free)} free", "free some: dis gc")
    if free < _LITTLE_SPACE:
        return Check(
            "WARN",
            "disk space",
            f"{size_text(free)} free, a large model may not fit",
            "free some: dis gc",
        )
    return Check("PASS", "disk space", f"{size_text(free)} free")
