"""Files of an artifact in a registry as a source: ModelPack's, our own, or any whose layers are named files."""

from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import TYPE_CHECKING

from dis_derivations.images.source import PublishedBlob
from dis_derivations.sources.source import (
    Check,
    CheckAll,
    Problem,
    Unavailable,
    WantedFile,
    accept,
    accept_all,
)
from dis_store.errors import BuildError, DisError, InvalidInputError, MismatchError
from dis_store.work_progress import uncounted

if TYPE_CHECKING:
    from dis_derivations.registry.client import RegistryClient
    from dis_derivations.registry.documents import Descriptor, FetchedManifest
    from dis_derivations.registry.reference import RegistryReference
    from dis_derivations.transport.fetching import RemoteFile
    from dis_store import TreeWriter, WrittenFile

# The path of a layer's file, by who wrote the manifest; the first that is there counts.
_PATHS = ("org.cncf.model.filepath", "org.opencontainers.image.title")
_UNPACKED = "io.deis.oras.content.unpack"
_PACKED = ("+gzip", "+zstd", ".v1.tar.gzip", ".v1.tar.zstd")
_PACKED_MODEL = "application/vnd.cncf.model."
# A closure has a manifest for each of its objects; nobody has this many.
_MOST_MANIFESTS = 100


class OciArtifact:
    """The files that the layers of a manifest are, or of all manifests of an index together.

    Args:
        repository: `HOST/REPOSITORY`, with or without `oci://`.
        revision: A tag, or the digest of the manifest.
        locked: The digest of the manifest that a lock pins; the tag is not asked then.
        check: Looks at each file before it is taken.
        check_all: Looks at all files together.
        client: Who asks; None for one of this process.
    """

    def __init__(
        self,
        repository: str,
        revision: str | None,
        *,
        locked: str | None = None,
        check: Check = accept,
        check_all: CheckAll = accept_all,
        client: "RegistryClient | None" = None,
    ) -> None:
        self._repository = repository.removeprefix("oci://")
        self._revision = locked or revision
        self._check = check
        self._check_all = check_all
        self._given_client = client
        self._seen: tuple[str, dict[str, Descriptor]] | DisError | None = None

    def describe(self) -> str:
        """Return the reference."""
        joint = "@" if (self._revision or "").startswith("sha256:") else ":"
        named = "" if self._revision is None else f"{joint}{self._revision}"
        return f"oci://{self._repository}{named}"

    def available(self) -> Unavailable | None:
        """Return why its manifest cannot be had."""
        found = self._look()
        if not isinstance(found, DisError):
            return None
        return Unavailable(
            str(found), found.hint or "look at it: dis image inspect, oras manifest fetch"
        )

    def listing(self) -> list[str]:
        """Return its files, without those in subdirectories."""
        found = self._look()
        return [] if isinstance(found, DisError) else sorted(p for p in found[1] if "/" not in p)

    def problem(self, path: str) -> Problem | None:
        """Return why a file cannot be had, as far as its name and the manifest tell."""
        from dis_derivations.artifacts.weights_check import check_name

        try:
            check_name(path)
        except InvalidInputError as error:
            return Problem("unsafe_file", str(error), error.hint)
        found = self._look()
        if isinstance(found, DisError):
            return Problem("source_unavailable", str(found), found.hint)
        if path not in found[1]:
            return Problem("not_found", f"{self.describe()} has no file {path}")
        if _is_packed(found[1][path]):
            kind = found[1][path].media_type
            return Problem(
                "format_unavailable",
                f"{path} is packed as {kind}, and only files as they are are taken",
            )
        return None

    def disagreement(self, paths: Sequence[str]) -> Problem | None:  # noqa: ARG002 - not known before
        """Return None: what the files hold is not known before they are fetched."""
        return None

    def size(self, path: str) -> int | None:
        """Return the bytes of a file."""
        found = self._look()
        if isinstance(found, DisError) or path not in found[1]:
            return None
        return found[1][path].size

    def commit(self) -> str:
        """Return the digest of the manifest that is named now.

        Raises:
            DisError: It cannot be had.
        """
        return self._found()[0]

    def published(self, path: str) -> PublishedBlob:
        """Return what the manifest says of a file.

        Raises:
            DisError: The manifest cannot be had, or names no such file.
        """
        layer = self._layer(path)
        return PublishedBlob(layer.size, layer.digest)

    def fetch(
        self,
        files: Sequence[WantedFile],
        writer: "TreeWriter",
        check_interrupted: Callable[[], None],
        on_bytes: Callable[[int], None] = uncounted,
    ) -> "list[WrittenFile]":
        """Fetch layers into the tree, or go on with what an earlier fetch left.

        Raises:
            MismatchError: A layer is not what the manifest says, or that is not what was wanted.
            BuildError: A file cannot be had.
            InvalidInputError: A file could run code, or does not parse.
        """
        from dis_derivations.transport.fetching import Fetcher
        from dis_derivations.transport.transfer import Listener

        remote = [self._remote(file) for file in files]
        listener = Listener(on_bytes, check_interrupted)
        client = self._client().exchange(self._reference())
        written = Fetcher(client, writer, listener, self._check, lambda _: None).fetch(remote)
        self._check_all({file.path: writer.finished_file(file.path) for file in written})
        return written

    def _remote(self, wanted: WantedFile) -> "RemoteFile":
        if (problem := self.problem(wanted.path)) is not None:
            raise BuildError(f"{wanted.path} cannot be fetched", cause=problem.message)
        layer = self._layer(wanted.path)
        if wanted.sha256 not in (None, layer.digest):
            raise MismatchError(
                f"{wanted.path} is not the file that is wanted",
                cause=f"wanted {wanted.sha256}, {self.describe()} has {layer.digest}",
                hint="name another place that has it, or accept the new one: "
                "dis lock CONFIG --update NAME",
            )
        return self._client().remote_file(self._reference(), layer.digest, layer.size, wanted.path)

    def _layer(self, path: str) -> "Descriptor":
        layers = self._found()[1]
        if path not in layers:
            raise BuildError(f"{self.describe()} has no file {path}")
        return layers[path]

    def _found(self) -> "tuple[str, dict[str, Descriptor]]":
        found = self._look()
        if isinstance(found, DisError):
            raise found
        return found

    def _look(self) -> "tuple[str, dict[str, Descriptor]] | DisError":
        """Return the digest of the manifest and its files by path, or why they are not known."""
        if self._seen is None:
            try:
                top = self._client().manifest(self._reference())
                self._seen = (top.digest, _files(self._manifests(top)))
            except DisError as error:
                self._seen = error
        return self._seen

    def _manifests(self, top: "FetchedManifest") -> "Iterator[FetchedManifest]":
        if not top.is_index:
            yield top
            return
        children = top.index().manifests
        if len(children) > _MOST_MANIFESTS:
            raise BuildError(f"{self.describe()} lists {len(children)} manifests")
        for child in children:
            yield self._client().manifest(self._reference().with_digest(child.digest))

    def _reference(self) -> "RegistryReference":
        from dis_derivations.registry.reference import parse_reference

        return parse_reference(self.describe())

    def _client(self) -> "RegistryClient":
        if self._given_client is None:
            from dis_derivations.registry.client import RegistryClient

            self._given_client = RegistryClient()
        return self._given_client


def _files(manifests: "Iterable[FetchedManifest]") -> "dict[str, Descriptor]":
    """Return the layers that are files, by their paths; what two layers claim to be is neither's."""
    found: dict[str, Descriptor] = {}
    disputed: set[str] = set()
    for manifest in manifests:
        if manifest.is_index:
            continue
        for layer in manifest.manifest().layers:
            path = _path_of(layer)
            if path is None:
                continue
            if path in found and found[path].digest != layer.digest:
                disputed.add(path)
            found[path] = layer
    return {path: layer for path, layer in found.items() if path not in disputed}


def _path_of(layer: "Descriptor") -> str | None:
    """Return the path of a layer's file; None where it has none that the store could hold."""
    from dis_store.path_rules import check_path

    path = next((layer.annotations[name] for name in _PATHS if name in layer.annotations), None)
    if path is not None:
        try:
            check_path(path)
        except InvalidInputError:
            return None
    return path


def _is_packed(layer: "Descriptor") -> bool:
    kind = layer.media_type
    return (
        layer.annotations.get(_UNPACKED) == "true"
        or kind.endswith(_PACKED)
        or (kind.startswith(_PACKED_MODEL) and not kind.endswith(".raw"))
    )
