"""The questions that a store answers: one class, thin over the modules that do the work."""

from collections.abc import Callable, Collection, Iterable
from pathlib import Path
from types import TracebackType
from typing import TYPE_CHECKING, Self

from dis_store import lookups
from dis_store.digest import Digest, Sha256
from dis_store.environment import reported
from dis_store.foundation import Foundation
from dis_store.work_progress import uncounted

if TYPE_CHECKING:
    from dis_store.census import Census
    from dis_store.contents import ResolvedFile
    from dis_store.garbage_collection.retention import Kept
    from dis_store.garbage_collection.root_survey import RootSurvey
    from dis_store.garbage_collection.root_weights import RootWeight
    from dis_store.realisations import Realisation
    from dis_store.result_links import ResultLink
    from dis_store.roots import Root
    from dis_store.tensors.tensor_scan import Tensor
    from dis_store.tensors.tensor_table import StoredFile
    from dis_store.tree import Tree


class StoreReader:
    """What can be asked of an open store. Nothing here changes it; what an answer took is kept in the index."""

    def __init__(self, foundation: Foundation) -> None:
        self._foundation = foundation
        self.path: Path = foundation.top

    def close(self) -> None:
        """Close the index, and give up this process's protection of objects."""
        with reported(self.path):
            self._foundation.index.close()
            self._foundation.temp_roots.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        self.close()

    # Objects

    def is_valid(self, digest: Digest) -> bool:
        """Tell whether the object is in the store. A collection may make it untrue: see `protect`."""
        return self._foundation.is_valid(digest)

    def tree(self, digest: Digest) -> "Tree":
        """Return the manifest of an object.

        Raises:
            IntegrityError: The object is not in the store, or its manifest is damaged.
        """
        with reported(self.path):
            return self._foundation.tree(digest)

    def object_path(self, digest: Digest) -> Path:
        """Return the directory of an object, whether or not it is there."""
        return self._foundation.layout.object(digest)

    def file_path(self, digest: Digest, path: str) -> Path:
        """Return the regular file that an object shows at `path`, references followed.

        Raises:
            InvalidInputError: The object shows no file there.
            IntegrityError: An object is not in the store.
        """
        from dis_store.contents import resolve_file

        return resolve_file(digest, path, self.tree, self._foundation.layout).real

    def read_bytes(self, digest: Digest, path: str) -> bytes:
        """Return the content of the file that an object shows at `path`.

        Raises:
            InvalidInputError: The object shows no file there.
            IntegrityError: An object is not in the store, or the file is not what it must be.
        """
        from dis_store.contents import read_verified, resolve_file

        file = resolve_file(digest, path, self.tree, self._foundation.layout)
        with reported(self.path):
            return read_verified(file)

    def files(self, digest: Digest) -> "list[ResolvedFile]":
        """Return every file that an object shows, references followed, sorted by path.

        Raises:
            IntegrityError: An object is not in the store.
        """
        from dis_store.contents import resolve_all

        return resolve_all(digest, self.tree, self._foundation.layout)

    def has_file(self, blake3: Digest) -> bool:
        """Tell whether an object has a file, not executable, of that content; the file is not read."""
        from dis_store import stored_files

        with reported(self.path):
            return stored_files.has_file(self._foundation, blake3)

    def sha256_of(
        self, blake3: Digest, on_bytes: Callable[[int], None] = uncounted
    ) -> Sha256 | None:
        """Return the SHA-256 of a file's content, given its BLAKE3; None if the store has no such file.

        The index has it, except of what `add_path` brought in: that is read once, when somebody asks.

        Args:
            blake3: Which content.
            on_bytes: Called with the number of bytes of each piece that is read.

        Raises:
            IntegrityError: The file had to be read, and is not what it must be.
        """
        from dis_store import stored_files

        with reported(self.path):
            return stored_files.sha256_of(self._foundation, blake3, on_bytes)

    def has_content(
        self, sha256: Sha256, size: int | None, on_bytes: Callable[[int], None] = uncounted
    ) -> bool:
        """Tell whether an object has a file, not executable, of that SHA-256, as far as that is known.

        What `add_path` brought in has none until somebody asks. Of the files of that size that have none, the last
        four are read; where the size is not known, no file is.

        Args:
            sha256: Which content.
            size: Its bytes; None if that is not known.
            on_bytes: Called with the number of bytes of each piece that is read, and taken back at the end.
        """
        from dis_store import stored_files

        with reported(self.path):
            return stored_files.has_stored(self._foundation, sha256, size, on_bytes)

    def unfinished_bytes(self) -> int:
        """Return the bytes that have come of downloads which are not finished."""
        from dis_store.writing.downloads import unfinished_bytes

        with reported(self.path):
            return unfinished_bytes(self._foundation.layout)

    def tensors(self, file: "StoredFile") -> "tuple[Tensor, ...]":
        """Return the tensors of a file of an object in the order of their places; none unless it is a safetensors file.

        The index has them, except of what came in before it kept tensors: that is read once.

        Raises:
            IntegrityError: The file had to be read, and is not what it must be.
        """
        from dis_store.tensors.tensor_table import tensors_of

        with reported(self.path):
            return tensors_of(self._foundation, file)

    def tensor_set(self, digest: Digest) -> Digest | None:
        """Return the digest of the tensors that an object shows, whatever files they lie in.

        It is None where there are none, or where files would have to be read to know it.

        Raises:
            IntegrityError: An object is not in the store.
        """
        from dis_store.tensors.tensor_table import known_set

        with reported(self.path):
            return known_set(self._foundation.index, self.files(digest))

    def closure(self, digests: Iterable[Digest]) -> list[Digest]:
        """Return objects with all that they refer to: each once, references first.

        Raises:
            IntegrityError: One of them is not in the store.
        """
        return lookups.closure(self._foundation, list(digests))

    def references(self, digest: Digest) -> list[Digest]:
        """Return the objects that an object refers to directly."""
        return lookups.references(self._foundation.index, digest)

    def referrers(self, digest: Digest) -> list[Digest]:
        """Return the objects that refer directly to an object."""
        return lookups.referrers(self._foundation.index, digest)

    def objects(self) -> list[Digest]:
        """Return all objects, in the order of their registration."""
        return lookups.objects(self._foundation.index)

    def object_size(self, digest: Digest) -> int:
        """Return the bytes of an object's own files.

        Raises:
            IntegrityError: The object is not in the store.
        """
        return lookups.size(self._foundation.index, digest)

    def closure_size(self, digest: Digest) -> int:
        """Return the bytes of the files of an object and of all that it refers to.

        Raises:
            IntegrityError: The object is not in the store.
        """
        return sum(map(self.object_size, self.closure([digest])))

    def find(self, prefix: str) -> Digest:
        """Return the only object whose digest begins with `prefix`, of 8 to 64 hexadecimal digits.

        Raises:
            InvalidInputError: The prefix is malformed, or it fits no object or several.
        """
        return lookups.find(self._foundation.index, prefix)

    def census(self) -> "Census":
        """Count what is in the store."""
        from dis_store.census import count

        with reported(self.path):
            return count(self._foundation)

    # Derivations and realisations

    def derivation(self, digest: Digest) -> bytes:
        """Return the bytes of a derivation.

        Raises:
            IntegrityError: It is not in the store, or damaged.
        """
        from dis_store import derivations

        with reported(self.path):
            return derivations.read(self._foundation.layout, digest)

    def outputs_of(self, derivations: Collection[Digest]) -> dict[Digest, dict[str, Digest]]:
        """Return which objects derivations evaluated to, by output name, as far as they are still there."""
        from dis_store import derivations as table

        return table.outputs_of(self._foundation, derivations)

    def realisations(self, key: Digest) -> "list[Realisation]":
        """Return the records of all builds of a key, oldest first."""
        from dis_store import realisations

        return realisations.of_key(self._foundation, key)

    def signatures(self, key: Digest) -> dict[Digest, bytes]:
        """Return the signed documents about a key or an object, by digest; nothing in them is believed by that."""
        from dis_store import signatures

        with reported(self.path):
            return signatures.of_key(self._foundation.layout, key)

    def builds_of(self, digest: Digest) -> "list[Realisation]":
        """Return the records of the builds that an object came out of, oldest first; reads all records."""
        from dis_store import realisations

        return realisations.of_output(self._foundation, digest)

    # Roots

    def roots(self) -> "dict[str, Root]":
        """Return all named roots, by name."""
        from dis_store.garbage_collection.root_survey import read_roots

        with reported(self.path):
            return read_roots(self._foundation.layout)

    def survey_roots(self) -> "RootSurvey":
        """Return all named roots, by name, the damaged ones apart."""
        from dis_store.garbage_collection.root_survey import survey_roots

        with reported(self.path):
            return survey_roots(self._foundation.layout)

    def root(self, name: str) -> "Root | None":
        """Return a named root; None if there is none."""
        from dis_store import roots

        roots.check_name(name)
        with reported(self.path):
            return roots.read_root(self._foundation.layout, name)

    def kept_roots(self, digest: Digest | None = None) -> "dict[str, Kept]":
        """Return the roots that must be kept for some time yet, with until when; damaged ones are left out.

        Args:
            digest: The object whose roots are meant; None for all.
        """
        from dis_store.garbage_collection.retention import kept_roots

        good = self.survey_roots().good
        if digest is not None:
            good = {name: root for name, root in good.items() if root.object == digest}
        return kept_roots(self._foundation.layout, good)

    def weigh_roots(self) -> "tuple[RootWeight, ...]":
        """Return what each root that can be read keeps alone, and what it shares: the heaviest first."""
        from dis_store.garbage_collection.marking import load_graph
        from dis_store.garbage_collection.root_weights import weigh_roots

        with reported(self.path):
            return weigh_roots(self._foundation, load_graph(self._foundation))

    def result_links(self) -> "list[ResultLink]":
        """Return all result links that were made, also those that are gone."""
        from dis_store import result_links

        with reported(self.path):
            return result_links.read_all(self._foundation.layout)
