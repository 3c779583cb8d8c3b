"""Whether an environment fits the interpreter that is to run it."""

from collections.abc import Iterator

from dis_derivations.environments.document import EnvironmentDocument
from dis_derivations.environments.interpreter import Interpreter, fits_version
from dis_store.errors import UnfitEnvironmentError

_MOST_SHOWN = 5


def check_fit(document: EnvironmentDocument, interpreter: Interpreter) -> None:
    """Refuse an interpreter that is not the one that an environment was made for.

    Raises:
        UnfitEnvironmentError: Names what does not fit: the version, or the wheels that it does not take.
    """
    faults = list(_faults(document, interpreter))
    if not faults:
        return
    more = f"\nand {len(faults) - _MOST_SHOWN} more" if len(faults) > _MOST_SHOWN else ""
    raise UnfitEnvironmentError(
        f"the environment is not for {interpreter.path}, which is {interpreter.implementation} "
        f"{interpreter.version} on {interpreter.machine}",
        cause="\n".join(faults[:_MOST_SHOWN]) + more,
        hint=f"run it with a Python {document.python}; or lock the packages again for this one: "
        "dis lock CONFIG --update python.packages",
    )


def _faults(document: EnvironmentDocument, interpreter: Interpreter) -> Iterator[str]:
    if not fits_version(document.python, interpreter.version):
        yield f"it was made for Python {document.python}"
    tags = set(interpreter.tags)
    for package in document.packages:
        if tags.isdisjoint(package.tags):
            shown = ", ".join(package.tags[:3]) + (" …" if len(package.tags) > 3 else "")  # noqa: PLR2004 - as above
            yield f"the wheel {package.wheel} is for {shown}"
        elif package.requires_python and not _allows(package.requires_python, interpreter.version):
            yield f"{package.name} {package.version} wants Python {package.requires_python}"


def _allows(specifier: str, version: str) -> bool:
    from packaging.specifiers import InvalidSpecifier, SpecifierSet

    try:
        return SpecifierSet(specifier).contains(version, prereleases=True)
    except InvalidSpecifier:
        # What it says cannot be read by anybody; pip lets such packages pass as well.
        return True
