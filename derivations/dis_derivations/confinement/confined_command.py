"""Programs that run without a network, for who starts them itself: an engine, a container's client.

Usage: python -m dis_derivations.confinement.confined_command ATTEMPTS PROGRAM [ARGUMENT…]

The program runs in namespaces of its own, as in `child.py`. Standard streams, signals and the exit code are its own.
What it tries to reach is written into the file ATTEMPTS, a JSON document a line; `-` is no file. When it has ended
well and tried something, the exit code is 113.
"""

import json
import os
import signal
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path
from types import FrameType

ATTEMPTED, REFUSED = 113, 114
_NO_FILE = "-"
_PASSED_ON = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)


def confined_argv(argv: Sequence[str], attempts: Path | None = None) -> list[str]:
    """Return a command that runs another one without network.

    Args:
        argv: The command.
        attempts: The file into which its attempts to use the network are written.

    The command ends with 114, and says why on stderr, where this machine cannot take the network from it.
    """
    place = _NO_FILE if attempts is None else str(attempts.absolute())
    return [sys.executable, "-P", "-m", __name__, place, *argv]


def main() -> int:
    """Run the program, and return the exit code."""
    from dis_derivations.confinement.child import ENTER, shut
    from dis_derivations.confinement.means import witness_of
    from dis_derivations.confinement.outlets import sockets, without_outlets

    place, *argv = sys.argv[1:]
    try:
        witness = witness_of(*shut(list(sockets(os.environ)), how=ENTER))
        process = subprocess.Popen(argv, env=without_outlets(os.environ))  # noqa: S603 - the caller's
    except OSError as error:
        print(f"dis: {argv[0]} does not run without network: {error.strerror}", file=sys.stderr)  # noqa: T201
        return REFUSED

    def pass_on(number: int, frame: FrameType | None) -> None:
        del frame
        process.send_signal(number)

    for number in _PASSED_ON:
        signal.signal(number, pass_on)
    code = process.wait()
    found = [str(attempt) for attempt in witness.take()]
    if found and place != _NO_FILE:
        lines = "".join(f"{json.dumps({'attempt': each})}\n" for each in found)
        Path(place).write_text(lines, "utf-8")
    if code < 0:
        return 128 - code
    return code if code or not found else ATTEMPTED


if __name__ == "__main__":
    sys.exit(main())
