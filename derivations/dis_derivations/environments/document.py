"""`environment.json`: what an environment is made of, and which interpreters it is for."""

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from dis_store import strict_json
from dis_store.digest import Sha256
from dis_store.errors import InvalidInputError

DOCUMENT = "environment.json"
SITE_PACKAGES = "site-packages"
# What wheels want beside the interpreter, below its prefix: shared libraries of compilers, for one.
DATA = "data"
KIND, FORMAT = "environment", 1
_MAX_BYTES = 16 << 20


@dataclass(frozen=True)
class EnvironmentPackage:
    """A package of an environment.

    Attributes:
        name: Normalised: lower case, words joined by `-`.
        version: As its wheel says.
        wheel: The file name of its wheel.
        sha256: Of the wheel's bytes.
        tags: `PYTHON-ABI-PLATFORM`, sorted; an interpreter must have one of them.
        requires_python: The versions of Python that it says it is for; empty where it says nothing.
    """

    name: str
    version: str
    wheel: str
    sha256: Sha256
    tags: tuple[str, ...]
    requires_python: str

    def to_json(self) -> dict[str, Any]:
        """Return its entry."""
        return {
            "name": self.name,
            "version": self.version,
            "wheel": self.wheel,
            "sha256": str(self.sha256),
            "tags": list(self.tags),
            "requires_python": self.requires_python,
        }


@dataclass(frozen=True)
class EnvironmentDocument:
    """What an environment says of itself.

    Attributes:
        python: The version of Python that was wanted, such as `3.11` or `3.11.9`.
        packages: Sorted by name.
        import_paths: Further directories below `site-packages` that modules are imported from, because a `.pth` file
            names them, in order.
        ignored: Lines of `.pth` files that are not acted on, as `FILE: LINE`, in order.
    """

    python: str
    packages: tuple[EnvironmentPackage, ...]
    import_paths: tuple[str, ...]
    ignored: tuple[str, ...]

    def to_json(self) -> dict[str, Any]:
        """Return the document; `EnvironmentDocument.of_json(x.to_json()) == x`."""
        return {
            "kind": KIND,
            "format": FORMAT,
            "python": self.python,
            "packages": [each.to_json() for each in self.packages],
            "import_paths": list(self.import_paths),
            "ignored": list(self.ignored),
        }

    @classmethod
    def of_json(cls, document: Mapping[str, Any]) -> "EnvironmentDocument":
        """Parse it.

        Raises:
            ValueError, TypeError, KeyError: It is no environment of this format.
        """
        if (document["kind"], document["format"]) != (KIND, FORMAT):
            raise ValueError(f"it is no environment of format {FORMAT}")
        packages = tuple(
            EnvironmentPackage(
                name=str(each["name"]),
                version=str(each["version"]),
                wheel=str(each["wheel"]),
                sha256=Sha256(each["sha256"]),
                tags=tuple(map(str, each["tags"])),
                requires_python=str(each["requires_python"]),
            )
            for each in document["packages"]
        )
        return cls(
            python=str(document["python"]),
            packages=packages,
            import_paths=tuple(map(str, document["import_paths"])),
            ignored=tuple(map(str, document["ignored"])),
        )


def read_environment(environment: Path) -> EnvironmentDocument:
    """Return what the environment at a path says of itself.

    Raises:
        InvalidInputError: It is no environment.
    """
    path = environment / DOCUMENT
    try:
        with path.open("rb") as file:
            data = file.read(_MAX_BYTES)
        return EnvironmentDocument.of_json(strict_json.decode(data, name=str(path)))
    except (OSError, ValueError, TypeError, KeyError, InvalidInputError) as error:
        raise InvalidInputError(
            f"{environment} is not a Python environment of dis",
            cause=error.strerror if isinstance(error, OSError) else str(error),
            hint="realise one: dis realize CONFIG#environment",
        ) from error
