"""The identity of an environment that is not in the store: the verified digests of its RECORD files."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from dis_derivations.environments.interpreter import Interpreter, probe_interpreter
from dis_derivations.environments.site_packages import InstalledPackage, read_site_packages
from dis_store.digest import Digest

_TOPS = ("site-packages", "dist-packages")


@dataclass(frozen=True)
class InstalledEnvironment:
    """What an interpreter imports from beside its standard library.

    Attributes:
        digest: Of all files that count, by path, size and SHA-256; equal wherever the same packages are installed.
            None when it cannot be pinned.
        packages: Sorted by name.
        faults: Why it cannot be pinned, each a sentence that names a file or a package; empty when it can.
        interpreter: Whose environment it is.
    """

    digest: Digest | None
    packages: tuple[InstalledPackage, ...]
    faults: tuple[str, ...]
    interpreter: Interpreter


def installed_environment(interpreter: Path) -> InstalledEnvironment:
    """Verify every file of every distribution that an interpreter finds, and return the digest of all.

    All files are read, as many at a time as there are processors; nothing is taken from a cache.

    Args:
        interpreter: A Python, for instance that of a virtual environment. It is run once to tell where it looks.

    Raises:
        UnfitEnvironmentError: It is no Python, or one that is too old.
    """
    python = probe_interpreter(interpreter, fresh=True)
    tops = [each for each in python.import_path if each.is_dir() and each.name in _TOPS]
    found = read_site_packages(list(dict.fromkeys(each.resolve() for each in tops)))
    faults = (*_strangers(python, tops), *found.faults)
    return InstalledEnvironment(
        digest=None if faults else found.digest,
        packages=found.packages,
        faults=faults,
        interpreter=python,
    )


def _strangers(python: Interpreter, tops: Sequence[Path]) -> Iterator[str]:
    """Yield places that are imported from and lie in no directory of packages."""
    for place in python.import_path:
        if place.exists() and place not in tops and not any(top in place.parents for top in tops):
            yield f"{place} is imported from, and is in no directory of packages"
