"""Calls of `dis` in a child that may use little memory and time, possibly as a user without rights."""

import json
import os
import resource
from collections.abc import Sequence
from pathlib import Path

# Another user may not be allowed to read the modules that a command loads late.
import dis_store.garbage_collection.collection  # noqa: F401
from command_line import Outcome, call
from processes import forked, waited_for

NOBODY = 65534
MIB = 1 << 20


def confined(
    calls: Sequence[Sequence[str]],
    place: Path,
    *,
    user: int | None = None,
    memory: int = 256 * MIB,
    seconds: int = 20,
) -> list[Outcome]:
    """Call the command several times in one child, with `place` as home and working directory.

    Args:
        calls: The arguments of each call.
        place: Where temporary files go too, in `tmp`.
        user: Who calls; whoever runs the tests unless given.
        memory: How much more the child may allocate than it has already.
        seconds: How long it may compute.
    """
    answer, told = os.pipe()

    def child() -> None:
        os.close(answer)
        _become(place, user)
        _limit(memory, seconds)
        found = [vars(call(list(argv))) for argv in calls]
        with os.fdopen(told, "w") as stream:
            json.dump(found, stream)

    number = forked(child)
    os.close(told)
    with os.fdopen(answer) as stream:
        text = stream.read()
    status = waited_for(number)
    assert status == 0, f"the child ended with {status}"
    return [Outcome(**each) for each in json.loads(text)]


def _become(place: Path, user: int | None) -> None:
    import tempfile

    os.environ |= {"HOME": str(place), "TMPDIR": str(place / "tmp"), "XDG_CONFIG_DIRS": str(place)}
    for name in ("CONFIG", "DATA", "STATE"):
        os.environ[f"XDG_{name}_HOME"] = str(place / "xdg")
    tempfile.tempdir = None
    os.chdir(place)
    if user is not None:
        os.setgroups([])
        os.setresgid(user, user, user)
        os.setresuid(user, user, user)


def _limit(memory: int, seconds: int) -> None:
    pages = int(Path("/proc/self/statm").read_text("ascii").split()[5])
    allowed = pages * resource.getpagesize() + memory
    resource.setrlimit(resource.RLIMIT_DATA, (allowed, allowed))
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    used = resource.getrusage(resource.RUSAGE_SELF)
    computed = int(used.ru_utime + used.ru_stime) + 1 + seconds
    resource.setrlimit(resource.RLIMIT_CPU, (computed, computed))
