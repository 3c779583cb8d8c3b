"""A repository of the Hugging Face Hub, or of another hub that speaks its language, as a source of files.

Where a file is at hand in the cache of `huggingface_hub`, it is taken from there. Wherever its bytes come from, they
are compared with what the lock or the hub's own list says before they are part of anything.
"""

from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING

from dis_derivations.sources.expected_file import ExpectedFile, blob_id
from dis_derivations.sources.hub_cache import cached_files
from dis_derivations.sources.hub_repository import HubFile, HubRepository
from dis_derivations.sources.source import Problem, Unavailable, WantedFile
from dis_store.errors import BuildError, DisError, IntegrityError, InvalidInputError, MismatchError
from dis_store.work_progress import uncounted

if TYPE_CHECKING:
    from dis_store import TreeWriter, WrittenFile

_WEIGHTS = ".safetensors"
INDEX = "model.safetensors.index.json"
_USUAL_WEIGHTS = "model.safetensors"
_MAX_SMALL_BYTES = 64 << 20


class HuggingFaceSource:
    """The files of one repository at one revision.

    Args:
        repository: The repository.
        is_weights: Whether its files are the weights of a model, which must be of one checkpoint.
    """

    def __init__(self, repository: HubRepository, *, is_weights: bool) -> None:
        self._repository = repository
        self._is_weights = is_weights

    def describe(self) -> str:
        """Return the repository with its revision, and where it is."""
        repository = self._repository
        return f"{repository.name} at {repository.revision}, on {repository.settings.endpoint}"

    def commit(self) -> str:
        """Return the commit that the revision names now.

        Raises:
            DisError: The hub does not tell.
        """
        return self._repository.commit

    def available(self) -> Unavailable | None:
        """Return why the hub does not list the files; None when it does."""
        try:
            _ = self._repository.files
        except DisError as error:
            return Unavailable(str(error), error.hint or "try again later")
        return None

    def listing(self) -> list[str]:
        """Return its files; of the weights those of one checkpoint, the one that an index names.

        Where there is no index and more than one file of weights, `model.safetensors` is the model.
        """
        if self.available() is not None:
            return []
        names = sorted(path for path in self._repository.files if "/" not in path)
        if not self._is_weights:
            return names
        weights = [name for name in names if name.endswith(_WEIGHTS)]
        if INDEX in names:
            chosen = self._shards
        elif _USUAL_WEIGHTS in names:
            chosen = frozenset({_USUAL_WEIGHTS})
        else:
            chosen = frozenset(weights)
        return sorted({*(name for name in names if name not in weights), *chosen})

    def problem(self, path: str) -> Problem | None:
        """Return why the file cannot be taken, as far as its name and the hub's list tell."""
        from dis_derivations.artifacts.weights_check import check_name

        if path not in self._repository.files:
            return Problem("not_found", f"{self._repository.name} has no such file at {self._at}")
        try:
            check_name(path)
        except InvalidInputError as error:
            return Problem("unsafe_file", str(error), error.hint)
        return None

    def disagreement(self, paths: Sequence[str]) -> Problem | None:
        """Return why the files do not make one checkpoint, as far as the hub's list tells."""
        if self._is_weights and INDEX in paths:
            try:
                missing = sorted(self._shards - set(paths))
            except DisError as error:
                return Problem("unsafe_file", str(error), error.hint)
            if missing:
                names = ", ".join(missing[:5]) + ("…" if len(missing) > 5 else "")  # noqa: PLR2004 - as above
                return Problem("not_found", f"{INDEX} names files that are missing: {names}")
        return None

    def size(self, path: str) -> int | None:
        """Return the bytes of the file as the hub's list has it; None for a file that it has not."""
        if self.available() is not None or path not in self._repository.files:
            return None
        return self._repository.files[path].size

    def published(self, path: str) -> HubFile:
        """Return what the hub says of a file that it has.

        Raises:
            DisError: The hub does not tell.
        """
        return self._repository.files[path]

    def read_small(self, path: str) -> bytes:
        """Return the bytes of a small file, compared with what the hub's list says of them.

        Raises:
            DisError: It is too long, cannot be had, or is another one.
        """
        from dis_derivations.sources.hub_download import read_bytes

        file = self._repository.files[path]
        if file.size > _MAX_SMALL_BYTES:
            raise InvalidInputError(
                f"{path} is too long", cause=f"it has more than {_MAX_SMALL_BYTES >> 20} MiB"
            )
        return read_bytes(self._repository, _expected_of(file), _MAX_SMALL_BYTES)

    def fetch(
        self,
        files: Sequence[WantedFile],
        writer: "TreeWriter",
        check_interrupted: Callable[[], None],
        on_bytes: Callable[[int], None] = uncounted,
    ) -> "list[WrittenFile]":
        """Write the files into a tree, from the cache where they are there, else from the hub.

        Raises:
            MismatchError: A file is not what it must be.
            InvalidInputError: A file could run code, or does not parse.
            BuildError: A file cannot be had.
        """
        written: list[WrittenFile] = []
        places: dict[str, Path] = {}
        for wanted in files:
            check_interrupted()
            written.append(self._take(wanted, writer, check_interrupted, on_bytes))
            places[wanted.path] = writer.finished_file(wanted.path)
        self._check_content(places, writer)
        return written

    @property
    def _at(self) -> str:
        repository = self._repository
        return (
            repository.revision
            if repository.revision == repository.commit
            else (f"{repository.revision} ({repository.commit})")
        )

    @cached_property
    def _shards(self) -> frozenset[str]:
        """The files that the index of the weights names."""
        from dis_derivations.artifacts.shard_index import decode_index

        return frozenset(decode_index(self.read_small(INDEX), name=INDEX).values())

    def _take(
        self,
        wanted: WantedFile,
        writer: "TreeWriter",
        check_interrupted: Callable[[], None],
        on_bytes: Callable[[int], None],
    ) -> "WrittenFile":
        from dis_store.writing.arrivals import take_stored

        expected = self._expected(wanted)
        if expected.sha256 is not None:
            stored = take_stored(writer, expected.path, expected.sha256, expected.size, on_bytes)
            if stored is not None:
                return stored
        refused: list[str] = []
        for cached in self._cached(expected):
            try:
                written = _ingest(expected, cached, writer, on_bytes)
            except (IntegrityError, InvalidInputError, BuildError) as error:
                refused.append(str(error))
            else:
                # What was hashed before may have been replaced before it was copied.
                expected.check(written, writer.finished_file(expected.path), str(cached))
                return written
        if self._repository.settings.offline:
            raise self._not_at_hand(expected, refused)
        return self._download(expected, writer, check_interrupted, on_bytes)

    def _expected(self, wanted: WantedFile) -> ExpectedFile:
        if wanted.sha256 is not None:
            known = self._repository.known_files.get(wanted.path)
            if known is not None and known.sha256 not in (None, wanted.sha256):
                # Before gigabytes are fetched that must be thrown away.
                raise MismatchError(
                    f"{wanted.path} of {self._repository} is not the file that is declared",
                    cause=f"wanted {wanted.sha256}, the hub has {known.sha256}",
                    hint="name the revision that has it, or leave the digest out",
                )
            return ExpectedFile(wanted.path, wanted.size, wanted.sha256)
        file = self._repository.files.get(wanted.path)
        if file is None:
            raise BuildError(
                f"{wanted.path} cannot be fetched",
                cause=f"{self._repository.name} has no such file at {self._at}",
            )
        return _expected_of(file)

    def _cached(self, expected: ExpectedFile) -> list[Path]:
        """Return the files of the cache that may be it, by their sizes."""
        found = cached_files(
            self._repository.settings.cache,
            self._repository.name,
            self._repository.commit,
            expected.path,
            expected.sha256,
        )
        return [path for path in found if expected.size in (None, path.stat().st_size)]

    def _download(
        self,
        expected: ExpectedFile,
        writer: "TreeWriter",
        check_interrupted: Callable[[], None],
        on_bytes: Callable[[int], None],
    ) -> "WrittenFile":
        from dis_derivations.artifacts.weights_check import check_weight_file
        from dis_derivations.sources.hub_download import download
        from dis_derivations.transport.transfer import Listener

        listener = Listener(on_bytes, check_interrupted)
        return download(self._repository, expected, writer, listener, check_weight_file)

    def _not_at_hand(self, expected: ExpectedFile, refused: list[str]) -> DisError:
        cache = self._repository.settings.cache
        hint = "unset HF_HUB_OFFLINE, or say where the files are: --set model.weights.source.local_path=DIR"
        if refused:
            return MismatchError(
                f"{expected.path} in the cache is not the file that was locked",
                cause="\n".join(refused),
                hint=hint,
            )
        return BuildError(
            f"{expected.path} of {self._repository.name} is not in the cache",
            cause=f"HF_HUB_OFFLINE forbids to ask the hub, and {cache} does not have it at "
            f"{self._repository.commit}",
            hint=hint,
        )

    def _check_content(self, places: Mapping[str, Path], writer: "TreeWriter") -> None:
        from dis_derivations.artifacts.weights_check import check_checkpoint, check_weight_file

        for path, place in places.items():
            check_weight_file(path, place)
        if self._is_weights:
            check_checkpoint({**_shards_present(places, writer), **places})


def _shards_present(places: Mapping[str, Path], writer: "TreeWriter") -> dict[str, Path]:
    """Return the shards of an index that are in the tree already, because the store had them."""
    from dis_derivations.artifacts.shard_index import decode_index

    found: dict[str, Path] = {}
    if INDEX in places:
        for shard in set(decode_index(places[INDEX].read_bytes(), name=INDEX).values()):
            with suppress(InvalidInputError):
                found[shard] = writer.finished_file(shard)
    return found


def _expected_of(file: HubFile) -> ExpectedFile:
    return ExpectedFile(file.path, file.size, file.sha256, file.blob_id)


def _ingest(
    expected: ExpectedFile,
    cached: Path,
    writer: "TreeWriter",
    on_bytes: Callable[[int], None],
) -> "WrittenFile":
    if expected.blob_id is not None and blob_id(cached) != expected.blob_id:
        raise IntegrityError(f"{cached} is not git blob {expected.blob_id}")
    counted: list[int] = []

    def count(amount: int) -> None:
        counted.append(amount)
        on_bytes(amount)

    try:
        return writer.ingest(
            expected.path,
            cached,
            size=expected.size,
            sha256=expected.sha256,
            executable=False,
            on_bytes=count,
        )
    except IntegrityError:
        # They are going to come once more, from elsewhere.
        on_bytes(-sum(counted))
        raise
