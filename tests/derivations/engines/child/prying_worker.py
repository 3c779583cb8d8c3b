"""A worker of the standard library alone that looks around where it runs, and does there what it is told to."""

import importlib.util
import json
import os
import socket
import subprocess
import sys
import time
from pathlib import Path
from typing import Any


def fails(action: Any) -> "str | None":
    """Return what an action raises; None where it is allowed."""
    try:
        action()
    except OSError as error:
        return type(error).__name__
    return None


def view(model: str) -> "dict[str, Any]":
    """Return what this process may and sees."""
    status = dict(
        line.split(":\t", 1)
        for line in Path("/proc/self/status").read_text().splitlines()
        if ":\t" in line
    )
    objects = Path("/dis/objects")
    shared = os.statvfs("/dev/shm")  # noqa: S108 - the container's own
    return {
        "uid": os.getuid(),
        "capabilities": [status[name].strip() for name in ("CapEff", "CapPrm", "CapBnd", "CapInh")],
        "no_new_privileges": status["NoNewPrivs"].strip(),
        "interfaces": [name for _, name in socket.if_nameindex()],
        "connect": fails(lambda: socket.create_connection(("1.1.1.1", 53), 5)),
        "root": fails(lambda: Path("/evil").write_text("")),
        "model": fails(lambda: Path(model, "config.json").write_text("{}")),
        "removal": fails(lambda: Path(model, "config.json").unlink()),
        "program": fails(lambda: Path(__file__).write_text("")),
        "home": fails(lambda: Path(os.environ["HOME"], "fine").write_text("")),
        "config": json.loads(Path(model, "config.json").read_text()),
        "files": sorted(each.name for each in Path(model).iterdir()),
        "objects": sorted(each.name for part in objects.iterdir() for each in part.iterdir()),
        "variables": dict(os.environ),
        "shared": shared.f_frsize * shared.f_blocks,
        "modules": [name for name in ("hello",) if importlib.util.find_spec(name)],
    }


class Prying:
    """An engine that answers nothing."""

    def __init__(self, talk: Any, model: str, settings: "dict[str, Any]") -> None:
        if settings.get("stays"):
            # A process speaks with itself, over its own machine's address.
            server = socket.create_server(("127.0.0.1", 0))
            socket.create_connection(server.getsockname()).close()
            self._seen: dict[str, Any] = {}
            return
        self._seen = view(model)
        if settings.get("prints"):
            # What libraries do: by Python's own stream, past it, and from a process of theirs.
            print("printed by Python", flush=True)  # noqa: T201 - that is the point
            os.write(1, b"written past it\n")
            subprocess.run([sys.executable, "-c", "print('printed by a child')"], check=True)
            self._seen["input"] = sys.stdin.read()
        if settings.get("hangs"):
            talk.say("it hangs now")
            time.sleep(600)
        if settings.get("exit") is not None:
            os._exit(settings["exit"])

    def identity(self) -> "dict[str, Any]":
        """Return nothing."""
        return {}

    def environment(self) -> "dict[str, Any]":
        """Return what was seen."""
        return self._seen

    def generate(self, header: Any, ids: bytes) -> "dict[str, Any]":
        """Refuse: there is no model."""
        raise NotImplementedError


def main() -> int:
    """Speak with dis until it has nothing more to ask."""
    sys.path.insert(0, str(Path(__file__).resolve().parent))
    side = importlib.import_module("worker_side")
    return int(side.serve("prying", Prying, sys.argv[1:3]))


if __name__ == "__main__":
    sys.exit(main())
