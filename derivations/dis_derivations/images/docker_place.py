"""Which Docker engine is meant: as the docker command decides it, by variables, contexts, and its configuration.

`DOCKER_HOST` comes first, then the context that `DOCKER_CONTEXT` names, then the one that `docker context use` chose
(`currentContext` in `config.json`), then the socket of this machine. A context is two places below the directory of
Docker's configuration, named by the SHA-256 of its name: `contexts/meta/ID/meta.json` and `contexts/tls/ID/docker`.

Docker's own library reads contexts too, but takes a context that there is not for the socket of this machine, and one
whose certificates are incomplete for one without encryption.
"""

import hashlib
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from dis_derivations.registry.credentials import CredentialStore
from dis_store import strict_json
from dis_store.errors import InvalidInputError, UnfitEnvironmentError

if TYPE_CHECKING:
    from docker.tls import TLSConfig

DEFAULT_ADDRESS = "unix:///var/run/docker.sock"
_DEFAULT_CONTEXT = "default"
_ENDPOINT = "docker"
_ENCRYPTED_SCHEMES = ("tcp://", "https://")
_MAX_DOCUMENT_BYTES = 1 << 20


@dataclass(frozen=True)
class TlsFiles:
    """How an engine is spoken to in encrypted form.

    Attributes:
        authority: The certificate of who signed the engine's; None for the authorities of this machine.
        certificate: Ours, with its key; None where the engine asks for none.
        is_verified: Whether the engine must prove who it is.
    """

    authority: Path | None
    certificate: tuple[Path, Path] | None
    is_verified: bool

    def config(self) -> "TLSConfig":
        """Return it as Docker's library has it.

        Raises:
            docker.errors.TLSParameterError: A file is not there.
        """
        from docker.tls import TLSConfig

        return TLSConfig(
            client_cert=None if self.certificate is None else tuple(map(str, self.certificate)),
            ca_cert=None if self.authority is None else str(self.authority),
            verify=self.is_verified,
        )


@dataclass(frozen=True)
class DockerPlace:
    """Where an engine is.

    Attributes:
        address: As `DOCKER_HOST` has it.
        chosen_by: What named it, for messages.
        tls: How it is encrypted; None where it is not, or where `DOCKER_TLS_VERIFY` and `DOCKER_CERT_PATH` say it.
        is_of_context: Whether a context named it.
    """

    address: str
    chosen_by: str
    tls: TlsFiles | None = None
    is_of_context: bool = False


def docker_place(environment: Mapping[str, str]) -> DockerPlace:
    """Return which engine is meant.

    Args:
        environment: Names it, and Docker's configuration (`DOCKER_CONFIG`, `HOME`).

    Raises:
        UnfitEnvironmentError: The context that is named is not there, or its files cannot be read.
    """
    if host := environment.get("DOCKER_HOST"):
        return DockerPlace(host, "DOCKER_HOST names it")
    config = CredentialStore(environment).path
    if name := environment.get("DOCKER_CONTEXT"):
        chosen_by = f"DOCKER_CONTEXT names the context {name!r:.100}"
    else:
        document = _document(config) or {}
        name = str(document.get("currentContext") or _DEFAULT_CONTEXT)
        chosen_by = f"{config} names the context {name!r:.100}"
    if name == _DEFAULT_CONTEXT:
        return DockerPlace(DEFAULT_ADDRESS, "neither DOCKER_HOST nor a context names another")
    return _of_context(config.parent / "contexts", name, chosen_by)


def _of_context(contexts: Path, name: str, chosen_by: str) -> DockerPlace:
    # A variable may hold any bytes.
    identity = hashlib.sha256(name.encode("utf-8", "surrogateescape")).hexdigest()
    path = contexts / "meta" / identity / "meta.json"
    document = _document(path)
    if document is None:
        raise UnfitEnvironmentError(
            f"there is no Docker context {name!r:.100}",
            cause=chosen_by,
            hint="docker context ls lists those that there are; DOCKER_CONTEXT=default is this machine",
        )
    endpoints = document.get("Endpoints")
    endpoint = endpoints.get(_ENDPOINT) if isinstance(endpoints, dict) else None
    if document.get("Name") != name or not isinstance(endpoint, dict):
        raise _malformed(path, "it describes no Docker engine under that name")
    address = str(endpoint.get("Host") or DEFAULT_ADDRESS)
    tls = None
    if address.startswith(_ENCRYPTED_SCHEMES):
        tls = _tls(contexts / "tls" / identity / _ENDPOINT, endpoint.get("SkipTLSVerify") is True)
    return DockerPlace(address, chosen_by, tls, is_of_context=True)


def _tls(directory: Path, skips: bool) -> TlsFiles | None:
    """Return how a context encrypts: not at all where it has no files and does not speak of verification."""
    authority, certificate, key = (directory / f"{name}.pem" for name in ("ca", "cert", "key"))
    if certificate.is_file() != key.is_file():
        raise _malformed(directory, "it has a certificate or its key, and not both")
    pair = (certificate, key) if certificate.is_file() else None
    known = authority if authority.is_file() else None
    if pair is None and known is None and not skips:
        return None
    return TlsFiles(known, pair, is_verified=not skips)


def _document(path: Path) -> Mapping[str, Any] | None:
    """Return a JSON object; None where there is no file."""
    try:
        with path.open("rb") as file:
            document = strict_json.decode(file.read(_MAX_DOCUMENT_BYTES), name=str(path))
    except FileNotFoundError:
        return None
    except OSError as error:
        raise _malformed(path, error.strerror or type(error).__name__) from error
    except InvalidInputError as error:
        raise _malformed(path, error.cause or error.what) from error
    if not isinstance(document, dict):
        raise _malformed(path, "it is no JSON object")
    return document


def _malformed(path: Path, cause: str) -> UnfitEnvironmentError:
    return UnfitEnvironmentError(
        "it is not known which Docker engine is meant",
        cause=f"{path} cannot be used: {cause}",
        hint="repair it, or name an engine: DOCKER_HOST=unix:///var/run/docker.sock",
    )
