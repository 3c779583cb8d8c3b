"""What can go wrong in the command itself, below what goes wrong in the library."""

from dis_store.errors import DisError, InvalidInputError, UnfitEnvironmentError


class WrongUsageError(InvalidInputError):
    """The command line is wrong: a command, an option or an argument is unknown, missing or malformed.

    `dis help COMMAND` shows what a command takes.
    """

    code = "E0201"


class InvalidSettingError(InvalidInputError):
    """A setting is wrong: a variable whose name begins with DIS_, or a line of a file of settings.

    `dis config show --origin` shows every setting and where it comes from.
    """

    code = "E0202"


class UnconfirmedError(InvalidInputError):
    """Something would be lost, and nobody said yes.

    On a terminal the command asks. Elsewhere it does nothing, unless the command line says --yes.
    """

    code = "E0205"


class UnwritableOutputError(UnfitEnvironmentError):
    """Standard output cannot be written, for example because the disk is full where it goes."""

    code = "E0506"


class UnexpectedError(DisError):
    """A fault of dis itself.

    The hint names a file that has the traceback; please report it with that file.
    """

    code = "E0390"
    exit_code = 3
