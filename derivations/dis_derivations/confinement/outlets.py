"""Ways out that are no network: sockets of services that would reach it for others, and variables that name them."""

import contextlib
import os
import re
from collections.abc import Iterator, Mapping
from pathlib import Path

from dis_store import strict_json
from dis_store.errors import InvalidInputError

# Docker and its like start programs with a network; resolvers and buses ask others in their place.
_SOCKETS = (
    "docker.sock",
    "podman/podman.sock",
    "containerd/containerd.sock",
    "crio/crio.sock",
    "buildkit/buildkitd.sock",
    "snapd.socket",
    "snapd-snap.socket",
    "dbus/system_bus_socket",
    "systemd/private",
    "systemd/resolve/io.systemd.Resolve",
    "systemd/resolve/io.systemd.Resolve.Monitor",
    "nscd/socket",
    "avahi-daemon/socket",
    "libvirt/libvirt-sock",
)
_OF_THE_USER = ("docker.sock", "podman/podman.sock", "bus", "systemd/private")
_NAMING_SOCKETS = ("DOCKER_HOST", "CONTAINER_HOST", "SSH_AUTH_SOCK", "DBUS_SESSION_BUS_ADDRESS")
_SOCKET_PATH = re.compile(r"(?:^unix://|^unix:path=|;unix:path=|^(?=/))(/[^,;]*)")
# The fetching process needs these, and a build that may fetch nothing does not.
_WITHHELD = re.compile(
    r"TOKEN(?!IZER)|SECRET|PASSW|CREDENTIAL|NETRC|(API|ACCESS|PRIVATE|AUTH)_?KEY|_PROXY$|_AUTH$"
    r"|^(PIP|UV)_.*(URL|INDEX)|^(DOCKER|CONTAINER)_|^SSH_|^DBUS_",
    re.IGNORECASE,
)


def sockets(environment: Mapping[str, str]) -> Iterator[Path]:
    """Yield where such sockets may be on this machine, those that the environment names included."""
    runtime = environment.get("XDG_RUNTIME_DIR") or f"/run/user/{os.geteuid()}"
    yield from (Path("/run", name) for name in _SOCKETS)
    yield from (Path(runtime, name) for name in _OF_THE_USER)
    for name in _NAMING_SOCKETS:
        for path in _SOCKET_PATH.findall(environment.get(name, "")):
            yield Path(path)
    yield from _of_docker_contexts(environment)


def _of_docker_contexts(environment: Mapping[str, str]) -> Iterator[Path]:
    """Yield the sockets of all contexts that Docker's configuration knows: whichever is chosen, each leads out."""
    config = environment.get("DOCKER_CONFIG") or Path(environment.get("HOME") or "/", ".docker")
    for described in Path(config, "contexts/meta").glob("*/meta.json"):
        # One that cannot be read leads nowhere.
        with contextlib.suppress(OSError, InvalidInputError, KeyError, TypeError):
            document = strict_json.decode(described.read_bytes(), name=str(described))
            yield from map(Path, _SOCKET_PATH.findall(document["Endpoints"]["docker"]["Host"]))


def without_outlets(environment: Mapping[str, str]) -> dict[str, str]:
    """Return an environment without secrets, proxies and the addresses of such services."""
    return {name: value for name, value in environment.items() if not _WITHHELD.search(name)}
