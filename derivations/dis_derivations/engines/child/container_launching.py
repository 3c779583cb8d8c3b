"""How a worker is started in a container: what it is given to see, and how the image's Python is told to run it."""

import re
from collections.abc import Iterable, Mapping
from pathlib import Path, PurePosixPath
from typing import TYPE_CHECKING, Any

from dis_derivations.engines.child.container import DESCRIPTORS, ContainerLaunch
from dis_derivations.engines.child.launching import (
    ContainerSource,
    Surroundings,
    WorkerProgram,
    declared_by,
)
from dis_derivations.environments.launch import STARTUP_DIRECTORY, started_in
from dis_derivations.images.container import (
    SCRATCH,
    ContainerCommand,
    ContainerLimits,
    object_place,
)
from dis_derivations.images.interpreter_label import ENVIRONMENT

if TYPE_CHECKING:
    from dis_store import Store
    from dis_store.digest import Digest

_PYTHON = re.compile(r"python[0-9.]*")
_USUAL_PYTHON = "python3"
_PROGRAM, _STARTUP = "program", "startup"
# Of an image's variables those without which nothing in it is found. The others are kept only where the image is what
# a result is known by.
_NEEDED = frozenset({"PATH", "LD_LIBRARY_PATH"})
# The model is in memory, and so is what an engine compiles; the rest is what the machine has.
LIMITS = ContainerLimits(
    memory_bytes=None, processes=4096, scratch_bytes=2 << 30, shared_bytes=1 << 30
)


def model_place(source: ContainerSource) -> str:
    """Return where a worker in a container sees its model: in the closure, as in the store."""
    return f"{object_place(source.closure)}/{source.model}"


def container_launch(
    program: WorkerProgram,
    spec: Mapping[str, Any],
    surroundings: Surroundings,
    source: ContainerSource,
) -> ContainerLaunch:
    """Return how a worker is started in a container; its program becomes an object, so that it can be mounted.

    Args:
        program: What it runs.
        spec: The `engine` of the closure.
        surroundings: Where it runs.
        source: What the container is made of.

    Raises:
        InvalidInputError: The environment is none.
        DiskFullError: The store has no room for the program.
    """
    store, image = source.store, source.image
    laid = register_start(store, program.files)
    place = PurePosixPath(object_place(laid))
    started, own = image_start(source, place)
    command = ContainerCommand(
        arguments=[*started, str(place / _PROGRAM / program.path.name), *DESCRIPTORS],
        objects=(source.closure, laid),
        left_out=store.closure([image.object]),
        environment={**own, **scratch_home(), **declared_by(spec, surroundings)},
        limits=LIMITS,
        is_spoken_with=True,
        has_accelerators=surroundings.platform.get("class") == "cuda",
    )
    return ContainerLaunch(store, image, command, surroundings.patience)


def register_start(store: "Store", program: Iterable[Path] = ()) -> "Digest":
    """Register what an interpreter is started with as an object: then whoever mounts it has it where the rest is.

    Args:
        store: Where to.
        program: The files of a worker; none where the interpreter runs what it imports.
    """
    with store.new_tree() as tree:
        for path in program:
            tree.write_bytes(f"{_PROGRAM}/{path.name}", path.read_bytes())
        for path in sorted(STARTUP_DIRECTORY.glob("*.py")):
            tree.write_bytes(f"{_STARTUP}/{path.name}", path.read_bytes())
        return tree.register()


def image_start(
    source: ContainerSource, place: PurePosixPath
) -> tuple[list[str], dict[str, str | None]]:
    """Return the image's Python with its flags, and the variables that make it import from the right place."""
    config = source.image.image.config
    first = config.entrypoint[0] if config.entrypoint else ""
    is_python = _PYTHON.fullmatch(PurePosixPath(first).name) is not None
    python = first if is_python else _USUAL_PYTHON
    if source.environment is not None:
        from dis_derivations.environments.document import read_environment

        document = read_environment(source.store.object_path(source.environment))
        lies = PurePosixPath(object_place(source.environment))
        flags, own = started_in(document, lies, place / _STARTUP)
        names = {each.partition("=")[0] for each in config.environment}
        return [python, *flags], {**dict.fromkeys(names - _NEEDED), **own}
    if is_python and ENVIRONMENT in config.labels:
        # Made by dis: its entry point is how what is in it is started.
        return list(config.entrypoint), {}
    return [python, "-s", "-B"], {}


def scratch_home() -> dict[str, str]:
    """Return the variables by which what runs in a container writes to its scratch directory."""
    return {
        "HOME": SCRATCH,
        "TMPDIR": SCRATCH,
        "XDG_CACHE_HOME": f"{SCRATCH}/cache",
        "XDG_CONFIG_HOME": f"{SCRATCH}/config",
    }
