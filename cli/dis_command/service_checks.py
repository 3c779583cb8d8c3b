"""The checks of `dis doctor` that are about services: Docker, registries, the hub. None of them is contacted."""

import os
from collections.abc import Iterator, Mapping
from pathlib import Path

from dis_command.machine_checks import Check, Status
from dis_store.errors import DisError

_SOCKET = "unix://"
_FOR_DOCKER = "only runs in an image and `dis image load` need one"


def service_checks(environment: Mapping[str, str]) -> Iterator[Check]:
    """Yield what can be told from files and variables about what answers elsewhere."""
    for name, look in (("docker", _docker), ("registries", _registries), ("hub", _hub)):
        try:
            status, detail = look(environment)
            yield Check(status, name, detail)
        except DisError as error:
            yield Check("WARN", name, f"{error.what}: {error.cause}", error.hint)


def _docker(environment: Mapping[str, str]) -> tuple[Status, str]:
    from dis_derivations.images.docker_place import docker_place

    place = docker_place(environment)
    if not place.address.startswith(_SOCKET):
        return "INFO", f"{place.address}: {place.chosen_by}; not contacted"
    socket = place.address.removeprefix(_SOCKET)
    if not os.access(socket, os.F_OK):
        return "INFO", f"no socket at {socket}; {_FOR_DOCKER}"
    if not os.access(socket, os.R_OK | os.W_OK):
        return "INFO", f"{socket} is not accessible to this user; {_FOR_DOCKER}"
    return "PASS", f"socket {socket}"


def _registries(environment: Mapping[str, str]) -> tuple[Status, str]:
    from dis_derivations.registry.credentials import CredentialStore

    credentials = CredentialStore(environment)
    known = ", ".join(credentials.places())
    if not known:
        return "INFO", f"no password in {credentials.path}; to keep one: dis login HOST"
    return "PASS", f"passwords for {known}, as {credentials.path} says"


def _hub(environment: Mapping[str, str]) -> tuple[Status, str]:
    from dis_derivations.sources.hub_settings import hub_settings, token_path

    settings = hub_settings(environment)
    if settings.offline:
        return (
            "INFO",
            f"{settings.endpoint} is not asked, by HF_HUB_OFFLINE or TRANSFORMERS_OFFLINE",
        )
    if environment.get("HF_TOKEN"):
        return "PASS", f"{settings.endpoint}, with the token in HF_TOKEN"
    path = token_path(environment)
    if _holds_something(path):
        return "PASS", f"{settings.endpoint}, with the token in {path}"
    return "INFO", f"{settings.endpoint}, without a token: models that anybody may read need none"


def _holds_something(path: Path) -> bool:
    try:
        return path.stat().st_size > 0
    except OSError:
        return False
