"""How an interpreter is started so that it imports from one environment and nowhere else.

The interpreter's own `site-packages`, the user's, the working directory and every variable `PYTHON…` that is inherited
are left out. No `.pth` file is executed: the directories that such files name inside the environment were noted when it
was made, and are imported from; their lines of code are not run (docs/internals/formats/environment.md).
"""

import os
from collections.abc import Collection, Mapping, Sequence
from pathlib import Path, PurePath

from dis_derivations.environments.document import (
    SITE_PACKAGES,
    EnvironmentDocument,
    read_environment,
)
from dis_derivations.environments.fit import check_fit
from dis_derivations.environments.interpreter import probe_interpreter
from dis_derivations.environments.startup.sitecustomize import VARIABLE
from dis_store.errors import InvalidInputError, UnfitEnvironmentError

# What the command puts in `PYTHONPATH`. Who confines the process must let it be read, as the environment itself.
STARTUP_DIRECTORY = Path(__file__).with_name("startup")

# -s and -S: no site-packages but ours; -B: an object cannot take .pyc files. Not -E, which -I has in it: PYTHONHASHSEED
# must count, and what else was inherited is dropped below.
_FLAGS = ("-s", "-S", "-B")
_OWN_VARIABLES = {
    "PYTHONNOUSERSITE": "1",
    "PYTHONDONTWRITEBYTECODE": "1",
    "PYTHONSAFEPATH": "1",
}
_DROPPED_PREFIXES = ("PYTHON", "CONDA_", "PIP_")
_DROPPED = frozenset({"VIRTUAL_ENV", "VIRTUAL_ENV_PROMPT", "__PYVENV_LAUNCHER__", VARIABLE})


def environment_command(
    environment: Path,
    interpreter: Path,
    module_or_program: Sequence[str],
    *,
    inherited: Mapping[str, str] | None = None,
) -> tuple[list[str], dict[str, str]]:
    """Return the argument vector and the variables with which something runs in an environment.

    Processes that it starts in turn with `multiprocessing`, or as `sys.executable -m …`, import from the same places,
    as long as they keep the variables.

    Args:
        environment: The object, as it lies in the store: `site-packages/` and `environment.json`.
        interpreter: Which Python. It is run once to tell what it is.
        module_or_program: `["-m", MODULE, ARGUMENT…]`, or `[PROGRAM, ARGUMENT…]` with the path of a Python file, whose
            directory is not imported from.
        inherited: The variables to start from, of which those that steer Python are dropped but `PYTHONHASHSEED`; if
            None those of this process, without that one either. The caller may add to what is returned.

    Raises:
        InvalidInputError: The object is no environment, or nothing is named that could be run.
        UnfitEnvironmentError: There is no such interpreter, the environment is not for it, or the path of the
            environment holds what separates paths.
    """
    if not module_or_program or (module_or_program[0] == "-m" and len(module_or_program) == 1):
        raise InvalidInputError("no module or program is named that could run in the environment")
    document = read_environment(environment)
    python = probe_interpreter(interpreter)
    check_fit(document, python)
    places = _places(document, environment.absolute())
    if any(os.pathsep in place for place in (*places, str(STARTUP_DIRECTORY))):
        raise UnfitEnvironmentError(
            f"nothing can run in the environment {environment}",
            cause=f"its path holds {os.pathsep!r}, which separates paths for Python",
            hint="move the store: dis --store DIR …",
        )
    flags, own = started_in(document, environment.absolute(), STARTUP_DIRECTORY)
    kept = set() if inherited is None else {"PYTHONHASHSEED"}
    variables = _inherited(os.environ if inherited is None else inherited, kept)
    return [str(python.path), *flags, *module_or_program], {**variables, **own}


def started_in(
    document: EnvironmentDocument, environment: PurePath, startup: PurePath
) -> tuple[list[str], dict[str, str]]:
    """Return the flags, and the variables, with which an interpreter is started in an environment, wherever that lies.

    Args:
        document: The environment's.
        environment: The object's place, as the interpreter will see it.
        startup: The place of what is in `STARTUP_DIRECTORY`, likewise.
    """
    variables = {
        **_OWN_VARIABLES,
        "PYTHONPATH": str(startup),
        VARIABLE: os.pathsep.join(_places(document, environment)),
    }
    return [*_FLAGS, str(startup / "start.py")], variables


def _places(document: EnvironmentDocument, environment: PurePath) -> list[str]:
    top = environment / SITE_PACKAGES
    return [str(top), *(str(top / path) for path in document.import_paths)]


def _inherited(inherited: Mapping[str, str], kept_anyway: Collection[str]) -> dict[str, str]:
    return {
        name: value
        for name, value in inherited.items()
        if name in kept_anyway or not (name in _DROPPED or name.startswith(_DROPPED_PREFIXES))
    }
