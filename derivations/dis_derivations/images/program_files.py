"""Programs of this machine that an image gets beside its interpreter: those that packages start by their names."""

import shutil
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from dis_derivations.images.elf_file import is_elf
from dis_derivations.images.shared_libraries import NeededLibraries, needed_libraries
from dis_store.errors import UnfitEnvironmentError


@dataclass(frozen=True)
class ProgramFiles:
    """Programs as files of this machine.

    Attributes:
        programs: Where each is, links followed, by its name.
        needed: The shared libraries of all of them.
    """

    programs: dict[str, Path]
    needed: NeededLibraries


def program_files(names: Sequence[str]) -> ProgramFiles:
    """Return the files of programs.

    Args:
        names: Paths, or names on `PATH`; what each is called in the image is the last part of it.

    Raises:
        UnfitEnvironmentError: One is not there, is a script, or needs a library that is not there.
    """
    found: dict[str, Path] = {}
    for name in names:
        place = shutil.which(name)
        if place is None:
            raise UnfitEnvironmentError(f"there is no program {name} on this machine")
        real = Path(place).resolve()
        if not is_elf(real):
            raise UnfitEnvironmentError(
                f"the program {name} cannot be put into an image", cause="it is a script"
            )
        found[Path(name).name] = real
    needed = needed_libraries(found.values())
    for library, wanting in needed.missing.items():
        raise UnfitEnvironmentError(
            f"the program {wanting} cannot be put into an image",
            cause=f"the library {library}, which it needs, is not found",
        )
    return ProgramFiles(found, needed)
