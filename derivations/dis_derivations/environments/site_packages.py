"""Directories of installed packages, each file held against the RECORD of its package."""

import hashlib
import json
import os
from collections.abc import Collection, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from email.parser import BytesHeaderParser
from pathlib import Path

from dis_derivations.environments.record import RECORD, RecordedFile, parse_record
from dis_derivations.environments.wheel_names import normalised
from dis_store import canonical_json
from dis_store.digest import Digest, Sha256

_FORMAT = 1
# What installers note of their own work in a `.dist-info` directory: no part of what a package is.
_NOTES = frozenset(
    {RECORD, "RECORD.jws", "RECORD.p7s", "INSTALLER", "REQUESTED", "direct_url.json"}
    | {"uv_cache.json", "uv_build.json"}
)
# What makers of virtual environments put there for their own sake. It runs, so it counts.
_UNRECORDED = frozenset({"_virtualenv.py", "_virtualenv.pth"})
_INFO = ".dist-info"
_OLD_FORMS = (".egg-info", ".egg-link", ".egg")


@dataclass(frozen=True)
class InstalledPackage:
    """A package that is installed.

    Attributes:
        name: Normalised: lower case, words joined by `-`.
        version: As its metadata says.
        files: How many of its files count: those beside its metadata but `.pyc` and what an installer notes.
    """

    name: str
    version: str
    files: int


@dataclass(frozen=True)
class SitePackages:
    """What was found in directories of packages.

    Attributes:
        digest: Of all files that count, by path, size and SHA-256; None where there are faults.
        packages: Sorted by name.
        faults: Why they cannot be pinned, sorted.
    """

    digest: Digest | None
    packages: tuple[InstalledPackage, ...]
    faults: tuple[str, ...]


@dataclass(frozen=True)
class _Counted:
    """A file that counts: where it is, and what RECORD says of it, if anything."""

    path: str
    place: Path
    recorded: RecordedFile | None


@dataclass(frozen=True)
class _Directory:
    """One directory of packages, read as far as its records go."""

    packages: tuple[InstalledPackage, ...]
    counted: Mapping[str, _Counted]
    faults: tuple[str, ...]


def read_site_packages(directories: Sequence[Path], *, jobs: int | None = None) -> SitePackages:
    """Verify every file in directories of packages.

    Args:
        directories: Where an interpreter imports from, beside its standard library.
        jobs: How many files are read at a time; the number of processors if None.
    """
    found = [_read_directory(each) for each in directories]
    counted = [file for each in found for file in each.counted.values()]
    faults = [fault for each in found for fault in each.faults]
    with ThreadPoolExecutor(jobs or os.cpu_count() or 1) as pool:
        # In chunks, because handing over a file costs as much as hashing a small one.
        chunks = [counted[start : start + 64] for start in range(0, len(counted), 64)]
        results = [result for part in pool.map(_verify_all, chunks) for result in part]
    faults += [result for result in results if isinstance(result, str)]
    files = sorted(result for result in results if not isinstance(result, str))
    packages = sorted(
        (each for part in found for each in part.packages), key=lambda each: each.name
    )
    digest = None if faults else canonical_json.digest({"format": _FORMAT, "files": files})
    return SitePackages(digest, tuple(packages), tuple(sorted(faults)))


def _verify_all(files: Sequence[_Counted]) -> list[list[str | int] | str]:
    return [_verify(file) for file in files]


def _verify(file: _Counted) -> list[str | int] | str:
    """Return path, size and SHA-256 of a file; or a sentence that says what is wrong with it."""
    try:
        with file.place.open("rb") as opened:
            sha256 = hashlib.file_digest(opened, "sha256")
            size = opened.tell()
            if file.recorded is None:
                return [file.path, size, f"sha256:{sha256.hexdigest()}"]
            hasher = file.recorded.hasher()
            if hasher.name != "sha256":
                opened.seek(0)
                hasher = hashlib.file_digest(opened, hasher.name)
    except OSError as error:
        return f"{file.place} cannot be read: {error.strerror}"
    except ValueError as error:
        return f"{file.place}: {error}"
    digest = sha256.digest() if hasher.name == "sha256" else hasher.digest()
    difference = file.recorded.difference(size, digest)
    if difference is not None:
        return f"{file.place} was changed: {difference}"
    return [file.path, size, str(Sha256(f"sha256:{sha256.hexdigest()}"))]


def _read_directory(top: Path) -> _Directory:
    packages: list[InstalledPackage] = []
    counted: dict[str, _Counted] = {}
    faults: list[str] = []
    known: set[str] = set()
    for name in sorted(each.name for each in top.iterdir()):
        if name.endswith(_OLD_FORMS):
            faults.append(f"{top / name} is of a package that was installed without RECORD")
        if not name.endswith(_INFO):
            continue
        try:
            record = parse_record((top / name / RECORD).read_bytes())
            about = _about(top / name)
            package, version = normalised(about["name"]), about["version"]
        except (OSError, ValueError) as error:
            reason = error.strerror if isinstance(error, OSError) else str(error)
            faults.append(f"{top / name} is of a package without a readable RECORD: {reason}")
            continue
        if _is_editable(top / name):
            faults.append(f"{package} {version} is an editable install: its files can change")
        known |= {os.path.normpath(path) for path in record}
        own = {file.path: file for file in _counting(top, name, record)}
        counted |= own
        packages.append(InstalledPackage(package, version, len(own)))
    for path in _unrecorded(top, known):
        if path in _UNRECORDED:
            counted[path] = _Counted(path, top / path, None)
        else:
            faults.append(f"{top / path} is in no RECORD")
    return _Directory(tuple(packages), counted, tuple(faults))


def _counting(top: Path, info: str, record: Mapping[str, RecordedFile]) -> Iterator[_Counted]:
    """Yield the files of a package that count: no bytecode, no notes, nothing outside of the directory."""
    for listed, file in record.items():
        path = os.path.normpath(listed)
        if path.startswith(("../", "/")) or path.endswith(".pyc"):
            continue
        directory, _, name = path.rpartition("/")
        if directory == info and name in _NOTES:
            continue
        yield _Counted(path, top / path, file)


def _about(info: Path) -> dict[str, str]:
    """Return the name and the version that metadata say.

    Raises:
        OSError: They cannot be read.
        ValueError: They say none.
    """
    metadata = BytesHeaderParser().parsebytes((info / "METADATA").read_bytes())
    name, version = metadata.get("Name"), metadata.get("Version")
    if name is None or version is None:
        raise ValueError("METADATA has no Name or no Version")
    return {"name": str(name), "version": str(version)}


def _is_editable(info: Path) -> bool:
    try:
        document = json.loads((info / "direct_url.json").read_bytes())
        return bool(document.get("dir_info", {}).get("editable", False))
    except FileNotFoundError:
        return False
    except (OSError, ValueError, AttributeError):
        # What cannot be read may be anything.
        return True


def _unrecorded(top: Path, known: Collection[str]) -> Iterator[str]:
    """Yield the files below a directory that no RECORD lists, without bytecode."""
    prefix = len(str(top)) + 1
    for directory, names, files in os.walk(top):
        names[:] = [name for name in names if name != "__pycache__"]
        below = directory[prefix:]
        for name in files:
            path = f"{below}/{name}" if below else name
            if path not in known and not name.endswith(".pyc"):
                yield path
        yield from (
            f"{below}/{name}" if below else name
            for name in names
            if os.path.islink(os.path.join(directory, name))  # noqa: PTH114, PTH118 - many thousands
        )
