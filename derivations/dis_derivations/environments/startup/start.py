"""Runs a module or a program in an environment: `python -s -S -B start.py (-m MODULE | PROGRAM) [ARGUMENT…]`."""

import runpy
import sys


def main() -> None:
    """Run what the arguments name, as `__main__`, importing from the environment alone."""
    import sitecustomize  # type: ignore[import-not-found] # found by its name beside this file

    sitecustomize.use_environment()
    arguments = sys.argv[1:]
    if arguments[0] == "-m":
        sys.argv[:] = arguments[1:]
        runpy.run_module(arguments[1], run_name="__main__", alter_sys=True)
    else:
        sys.argv[:] = arguments
        runpy.run_path(arguments[0], run_name="__main__")


if __name__ == "__main__":
    main()
