"""A Docker engine, spoken to through its own Python client, with its failures in our terms."""

import os
import socket
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from types import TracebackType
from typing import TYPE_CHECKING, Any, Self

from dis_derivations.images.docker_place import docker_place
from dis_derivations.images.stored_image import StoredImage
from dis_store.digest import Sha256
from dis_store.errors import BuildError, DisError, IntegrityError, UnfitEnvironmentError

if TYPE_CHECKING:
    from docker import APIClient

_SECONDS = 60.0
# The version of the interface that came with Docker 23.0.
_ZSTD_FROM = (1, 42)
_HINT = (
    "start Docker, or let DOCKER_HOST, DOCKER_CONTEXT or docker context use name an engine; "
    "fetching and inspecting images needs none"
)


class DockerEngine:
    """An engine that answers. A context manager: at its end the connection is closed.

    Args:
        client: The client of Docker's own library.
    """

    def __init__(self, client: "APIClient") -> None:
        self.client = client

    @classmethod
    def connect(cls, environment: Mapping[str, str] | None = None) -> Self:
        """Return the engine that the docker command would speak to (`docker_place`).

        Args:
            environment: In place of that of the process.

        Raises:
            UnfitEnvironmentError: There is none, it does not answer, or it is too old.
        """
        from docker.errors import DockerException
        from docker.utils import kwargs_from_env

        from dis_derivations.images.docker_client import EngineClient

        named = os.environ if environment is None else environment
        place = docker_place(named)
        try:
            if place.is_of_context:
                options = {"tls": False if place.tls is None else place.tls.config()}
            else:
                options = kwargs_from_env(environment=dict(named))
            options["base_url"] = place.address
            _check_socket(place.address)
            client = EngineClient(version="auto", timeout=_SECONDS, **options)
        except (DockerException, OSError, ValueError) as error:
            raise UnfitEnvironmentError(
                f"no Docker engine answers at {place.address}",
                cause=f"{_first_line(error)}; {place.chosen_by}",
                hint=_HINT,
            ) from error
        return cls(client)

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        self.client.close()

    @property
    def id(self) -> str:
        """What the engine calls itself: the same after a restart, another one for another store of images."""
        with answering("the engine could not be asked for its name"):
            return str(self.client.info().get("ID") or "")

    @property
    def reads_zstd(self) -> bool:
        """Whether it loads layers that are compressed with Zstandard: Docker does from 23.0 on."""
        return tuple(map(int, self.client.api_version.split("."))) >= _ZSTD_FROM

    def image_id(self, image: StoredImage) -> Sha256 | None:
        """Return what the engine calls an image that it has, if it is the very one; None where it has it not.

        Older engines call an image by its configuration's digest, those that keep images in containerd by its
        manifest's. Either one pins every byte of it.

        Raises:
            IntegrityError: The engine has another image under that name.
        """
        wanted = (image.id, image.image.manifest.digest)
        for name in wanted:
            found = self._inspect(name)
            if found is None:
                continue
            if found not in wanted:
                raise IntegrityError(
                    "Docker has another image than the one that is pinned",
                    cause=f"asked for {name}, it answers with {found}",
                    hint=f"docker image rm {name}",
                )
            return Sha256(found)
        return None

    def remove_image(self, image: str) -> bool:
        """Remove an image by its id, unless a container uses it; tell whether it was there.

        Raises:
            BuildError: It is in use, or the engine refuses.
        """
        from docker.errors import NotFound

        with answering(f"the image {image} could not be removed"):
            try:
                self.client.remove_image(image, force=False, noprune=False)
            except NotFound:
                return False
        return True

    def _inspect(self, name: str) -> str | None:
        from docker.errors import NotFound

        with answering(f"the engine could not be asked for the image {name}"):
            try:
                return str(self.client.inspect_image(name).get("Id"))
            except NotFound:
                return None


@contextmanager
def answering(what: str) -> Iterator[None]:
    """Let failures of the engine become errors of dis while a block runs.

    Raises:
        BuildError: The engine refused.
        UnfitEnvironmentError: It does not answer any more.
    """
    from docker.errors import APIError, DockerException

    try:
        yield
    except DisError:
        raise
    except APIError as error:
        raise BuildError(what, cause=_first_line(error.explanation or error)) from error
    # The errors of the library below, `requests`, are OSErrors.
    except (DockerException, OSError) as error:
        raise UnfitEnvironmentError(what, cause=_first_line(error), hint=_HINT) from error


def _check_socket(address: str) -> None:
    """Try a socket of this machine: the library leaves one open that nobody listens on.

    Raises:
        OSError: Nobody does.
    """
    scheme, _, path = address.partition("://")
    if "unix" in scheme:
        with socket.socket(socket.AF_UNIX) as connection:
            connection.settimeout(_SECONDS)
            connection.connect(path)


def _first_line(error: Any) -> str:
    """Return the beginning of what a library says; it may quote a whole answer."""
    text = str(error).strip() or type(error).__name__
    return text.splitlines()[0][:300]
