"""One repository of a hub at one revision: its commit, and what it says of its files."""

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import cached_property
from urllib.parse import quote

from dis_derivations.manifest.text_forms import is_commit
from dis_derivations.sources.hub_settings import HubSettings, hub_settings
from dis_store.digest import Sha256
from dis_store.errors import InvalidInputError, UnfitEnvironmentError

_MAX_FILES = 100_000
_NAME = re.compile(r"[A-Za-z0-9_.-]{1,96}(/[A-Za-z0-9_.-]{1,96})?")


@dataclass(frozen=True)
class HubFile:
    """What a hub says of a file.

    Attributes:
        blob_id: The name that git gives to the bytes; None for one in LFS, where it names a pointer.
        sha256: The digest of one in LFS; None for any other.
    """

    path: str
    size: int
    blob_id: str | None
    sha256: Sha256 | None


def check_repository_name(name: str) -> None:
    """Refuse what no repository of a hub can be called.

    Raises:
        InvalidInputError: It is such a thing.
    """
    if not _NAME.fullmatch(name) or {".", ".."} & set(name.split("/")):
        raise InvalidInputError(
            f"{name[:100]!r} is not the name of a repository",
            cause="it is ORGANISATION/MODEL, of letters, digits, '.', '-' and '_'",
        )


class HubRepository:
    """A repository at a revision. Each thing is asked once, when it is needed.

    Args:
        settings: The hub.
        name: `organisation/model`.
        revision: A branch, a tag or a commit; empty where none is named.

    Raises:
        InvalidInputError: The name is none.

    Every property raises `HubError` when the hub does not tell, and `UnfitEnvironmentError` when it may not be asked.
    """

    def __init__(self, settings: HubSettings, name: str, revision: str) -> None:
        check_repository_name(name)
        self._settings = settings
        self.name = name
        self.revision = revision

    def __str__(self) -> str:
        """Return what messages call it."""
        return f"{self.name} on {self._settings.endpoint}"

    @property
    def settings(self) -> HubSettings:
        """The hub."""
        return self._settings

    @cached_property
    def authorised(self) -> HubSettings:
        """The hub, with the token for it."""
        from dis_derivations.sources.hub_client import with_token

        return with_token(self._settings)

    @cached_property
    def commit(self) -> str:
        """The commit that the revision names; a commit names itself, and nobody is asked."""
        if is_commit(self.revision):
            return self.revision
        from dis_derivations.sources.hub_client import HubError, hub_api, understanding

        self._check_online()
        with understanding(self.name):
            commit = hub_api(self.authorised).model_info(self.name, revision=self.revision).sha
        if not isinstance(commit, str) or not is_commit(commit):
            raise HubError(
                f"the hub does not say which commit {self.revision!r} of {self.name} is",
                hint="check that HF_ENDPOINT is the address of a hub of models",
            )
        return commit

    @cached_property
    def files(self) -> Mapping[str, HubFile]:
        """Its files at the commit, by path."""
        from dis_derivations.sources.hub_client import understanding

        self._check_online()
        with understanding(self.name):
            return {file.path: file for file in self._listed()}

    @property
    def known_files(self) -> Mapping[str, HubFile]:
        """Its files, if they were asked for already; nothing otherwise."""
        known: Mapping[str, HubFile] = self.__dict__.get("files", {})
        return known

    def url(self, path: str) -> str:
        """Return the address of a file at the commit."""
        return f"{self._settings.endpoint}/{self.name}/resolve/{self.commit}/{quote(path)}"

    def _check_online(self) -> None:
        if not self.revision:
            raise InvalidInputError(
                f"no revision of {self.name} is named",
                hint="name a branch, a tag or a commit: --set model.weights.source.revision=main",
            )
        if self._settings.offline:
            raise UnfitEnvironmentError(
                f"nothing can be asked about {self.name}",
                cause="HF_HUB_OFFLINE forbids it",
                hint="unset HF_HUB_OFFLINE, or say where the files are: "
                "--set model.weights.source.local_path=DIR",
            )

    def _listed(self) -> Iterator[HubFile]:
        from huggingface_hub.hf_api import RepoFile

        from dis_derivations.sources.hub_client import HubError, hub_api

        entries = hub_api(self.authorised).list_repo_tree(
            self.name, recursive=True, revision=self.commit
        )
        for number, entry in enumerate(entries):
            if number >= _MAX_FILES:
                raise HubError(f"{self.name} has more than {_MAX_FILES} files")
            if isinstance(entry, RepoFile):
                yield _checked(
                    entry.path, entry.size, entry.blob_id, entry.lfs and entry.lfs.sha256
                )


class Repositories:
    """The repositories that one command has to do with, so that artifacts of one agree on its commit."""

    def __init__(self) -> None:
        self._opened: dict[tuple[str, str], HubRepository] = {}

    def open(self, name: str, revision: str) -> HubRepository:
        """Return a repository at a revision, the same one for the same names."""
        key = name, revision
        if key not in self._opened:
            self._opened[key] = HubRepository(hub_settings(), name, revision)
        return self._opened[key]


def _checked(path: object, size: object, blob_id: object, sha256: object) -> HubFile:
    """Return a file of the hub's list when the list has the right kinds of values."""
    if not isinstance(path, str) or type(size) is not int or size < 0:
        raise TypeError("an entry has no path or no size")
    if sha256 is not None:
        return HubFile(path, size, None, Sha256(f"sha256:{sha256}"))
    if not isinstance(blob_id, str) or not is_commit(blob_id):
        raise TypeError("an entry has no blob id")
    return HubFile(path, size, blob_id, None)
