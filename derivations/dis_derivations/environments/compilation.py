"""The environment of a locked manifest as derivations: each wheel a fixed output, and what is unpacked from all."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from dis_derivations.environments.wheel_names import (
    PACKAGE_PREFIX,
    input_name,
    is_package,
)
from dis_derivations.graph.derivation import Derivation, OutputReference
from dis_derivations.lock.document import Lock

LABEL = "environment"


@dataclass(frozen=True)
class EnvironmentDerivations:
    """The builds that an environment is made by.

    Attributes:
        wheels: One for each package.
        environment: The one that unpacks them.
    """

    wheels: tuple[Derivation, ...]
    environment: Derivation


def environment_derivations(
    name: str, document: Mapping[str, Any], lock: Lock
) -> EnvironmentDerivations | None:
    """Return the derivations of an environment; None where the lock has no packages.

    Args:
        name: Of the manifest.
        document: The manifest.
        lock: Its lock.
    """
    files = [file for file in lock.artifacts if is_package(file.name)]
    if not files:
        return None
    wheels = {
        file.name.removeprefix(PACKAGE_PREFIX): Derivation(
            name=f"wheel-{file.name.removeprefix(PACKAGE_PREFIX)}",
            builder="files",
            builder_version=1,
            inputs={},
            args={
                "kind": file.name,
                "files": [
                    {
                        "path": file.path,
                        "size": file.size,
                        "sha256": str(file.digest),
                        "executable": file.executable,
                    }
                ],
            },
            platform="any",
            outputs=("out",),
            compared=("out",),
        )
        for file in files
    }
    environment = Derivation(
        name=f"{name}-environment",
        builder="environment",
        builder_version=1,
        inputs={
            input_name(package): OutputReference(wheel.digest, "out")
            for package, wheel in wheels.items()
        },
        args={"python": document["software_stack"]["python"]["version"]},
        platform="any",
        outputs=("out", "log"),
        compared=("out",),
    )
    return EnvironmentDerivations(tuple(wheels.values()), environment)
