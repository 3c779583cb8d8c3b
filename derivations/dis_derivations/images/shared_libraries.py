"""Which shared libraries of this machine programs need, and those need in turn, as the loader would find them."""

import os
import re
import subprocess
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from functools import cache
from pathlib import Path

from dis_derivations.images.elf_file import ElfFile, is_elf, read_elf
from dis_store.errors import InvalidInputError

_LINE = re.compile(r"^\s+(\S+) \(.*\) => (/\S+)$")
_USUAL = ("/lib64", "/usr/lib64", "/lib", "/usr/lib", "/usr/local/lib")


@dataclass(frozen=True)
class NeededLibraries:
    """What programs need of the machine.

    Attributes:
        libraries: Where each library is, links followed, by the name that it is asked for by.
        loaders: Where each loader is, by the path that programs name.
        missing: Names that are on this machine nowhere, each with a file that asks for it.
    """

    libraries: Mapping[str, Path]
    loaders: Mapping[str, Path]
    missing: Mapping[str, Path]


def needed_libraries(programs: Iterable[Path], own: Iterable[Path] = ()) -> NeededLibraries:
    """Return what programs and libraries need of this machine.

    Args:
        programs: The files.
        own: Further files among which libraries are looked for first, because they come along.
    """
    search = _Search({path.name: path for path in own})
    for path in programs:
        search.follow(path)
    return NeededLibraries(search.libraries, search.loaders, search.missing)


class _Search:
    def __init__(self, own: Mapping[str, Path]) -> None:
        self.libraries: dict[str, Path] = {}
        self.loaders: dict[str, Path] = {}
        self.missing: dict[str, Path] = {}
        self._own = own
        self._seen: set[Path] = set()

    def follow(self, path: Path) -> None:
        waiting = [path]
        while waiting:
            current = waiting.pop()
            if current in self._seen or not is_elf(current):
                continue
            self._seen.add(current)
            try:
                elf = read_elf(current)
            except InvalidInputError:
                # Of another width or byte order: nothing that runs here could load it.
                continue
            if elf.loader is not None:
                self.loaders[elf.loader] = Path(os.path.realpath(elf.loader))
            for name in elf.needed:
                found = self._find(name, current, elf)
                if found is not None:
                    waiting.append(found)

    def _find(self, name: str, wanting: Path, elf: ElfFile) -> Path | None:
        if "/" in name or name in self.libraries:
            return self.libraries.get(name)
        if any(Path(each).name == name for each in self.loaders):
            return None
        if name in self._own:
            return self._own[name]
        origin = str(wanting.parent)
        places = [
            each.replace("$ORIGIN", origin).replace("${ORIGIN}", origin) for each in elf.search
        ]
        candidates = [Path(place) / name for place in places]
        candidates += [*_cached_libraries().get(name, ()), *(Path(each) / name for each in _USUAL)]
        for candidate in candidates:
            if _fits(candidate, elf.machine):
                self.libraries[name] = Path(os.path.realpath(candidate))
                self.missing.pop(name, None)
                return self.libraries[name]
        self.missing.setdefault(name, wanting)
        return None


def _fits(path: Path, machine: int) -> bool:
    try:
        return is_elf(path) and read_elf(path).machine == machine
    except InvalidInputError:
        return False


@cache
def _cached_libraries() -> Mapping[str, tuple[Path, ...]]:
    """Return what the loader's own list of libraries has."""
    for program in ("/sbin/ldconfig", "/usr/sbin/ldconfig"):
        try:
            done = subprocess.run(  # noqa: S603 - the system's own, without anything from outside
                [program, "-p"],
                capture_output=True,
                text=True,
                check=True,
                timeout=30,
                env={"LC_ALL": "C"},
            )
        except (OSError, subprocess.SubprocessError):
            continue
        found: dict[str, tuple[Path, ...]] = {}
        for line in done.stdout.splitlines():
            if match := _LINE.match(line):
                found[match[1]] = (*found.get(match[1], ()), Path(match[2]))
        return found
    return {}
