"""The user as records of builds name them: evidence, and part of no digest."""

import getpass
import os


def recorded_user() -> str:
    """Return the name of the user, or the number of one who is in no password database, as in a container."""
    try:
        return getpass.getuser()
    except (KeyError, OSError):
        return str(os.getuid())
