"""Where a process of `dis` begins: the settings of the interpreter, before anything is imported."""

import gc
from typing import NoReturn

# Nothing that start-up makes is garbage; looking for it would take a tenth of a call that has nothing to do.
_OBJECTS_BETWEEN_LOOKS = 50_000


def main() -> NoReturn:
    """Run the command line of this process and exit."""
    gc.set_threshold(_OBJECTS_BETWEEN_LOOKS)
    from dis_command.main import main as run

    try:
        run()
    finally:
        # Nor is it worth a look at the end, when all of it goes.
        gc.freeze()
