"""The objects of a closure in a registry, looked into without fetching them whole.

Documents say what there is; a file comes when somebody opens it, through the same checks as those of a pull, and stays
in the store as an object of one file, which no root keeps. What the store has, under whatever name, is not fetched.
"""

from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING

from dis_derivations.distribution.arrival import receive
from dis_derivations.distribution.object_documents import WEIGHTS, RemoteObject
from dis_derivations.distribution.remote_closure import RemoteClosure, fetch_closure, fetch_object
from dis_derivations.distribution.workers import Stop
from dis_derivations.registry.client import RegistryClient
from dis_derivations.registry.errors import RegistryMismatchError
from dis_derivations.registry.reference import RegistryReference
from dis_store import Store
from dis_store.contents import ResolvedFile, read_verified, resolve_all, resolve_file
from dis_store.digest import Digest
from dis_store.layout import Layout
from dis_store.tree import FileEntry, Tree
from dis_store.work_progress import Progress

if TYPE_CHECKING:
    from dis_derivations.runs.bundle_reader import ObjectFile, ObjectFiles
    from dis_store.tensors.tensor_scan import Tensor

Fetching = Callable[[RegistryReference], AbstractContextManager[Progress]]
"""Gives, for the time of a block, what is told of the bytes that come from a registry."""


@dataclass(frozen=True)
class Registries:
    """What is needed to look into registries.

    Attributes:
        client: Who asks.
        fetching: Shows what comes.
        stop: Set when the user asks to stop.
    """

    client: RegistryClient
    fetching: Fetching
    stop: Stop = field(default_factory=Stop)


@dataclass(frozen=True)
class RemoteFile:
    """A file that an object of a registry shows; it comes when its place is asked for.

    Attributes:
        file: What its object says of it.
        bring: Returns the regular file that holds its content.
        near: Tells whether the store has it, so that nothing comes.
    """

    file: ResolvedFile
    bring: Callable[[ResolvedFile], Path]
    near: Callable[[ResolvedFile], bool]

    @property
    def path(self) -> str:
        """Its path in the object."""
        return self.file.path

    @property
    def size(self) -> int:
        """How many bytes it has."""
        return self.file.size

    @property
    def blake3(self) -> Digest:
        """The digest of its content."""
        return self.file.blake3

    @property
    def at_hand(self) -> bool:
        """Whether nothing is fetched for it."""
        return self.near(self.file)

    @property
    def real(self) -> Path:
        """The regular file that holds it, fetched where the store lacks it."""
        return self.bring(self.file)


class RemoteObjects:
    """The objects of a closure in a registry, beside those of a store.

    Args:
        store: The store; what is brought is protected until it is closed.
        registries: Who asks.
        reference: The closure.

    Raises:
        RegistryMismatchError: It is no closure, or a malformed one.
        RegistryRefusedError, TransferError: It cannot be had.
    """

    def __init__(self, store: Store, registries: Registries, reference: RegistryReference) -> None:
        self.closure: RemoteClosure = fetch_closure(registries.client, reference)
        self._store = store
        self._registries = registries
        self._layout = Layout(store.path)
        self._described: dict[Digest, RemoteObject] = {}

    @property
    def root(self) -> Digest:
        """The object that was sent."""
        return self.closure.root

    def kind(self, digest: Digest) -> str:
        """Return what the closure says that an object is; empty for one that is not in it."""
        child = self.closure.objects.get(digest)
        return "" if child is None else child.kind

    def is_valid(self, digest: Digest) -> bool:
        """Tell whether the object is in the store or in the closure."""
        return self._store.protect(digest) or digest in self.closure.objects

    def tree(self, digest: Digest) -> Tree:
        """Return the manifest of an object.

        Raises:
            RegistryMismatchError: The closure lacks it, or what it has is another object.
        """
        if self._store.protect(digest):
            return self._store.tree(digest)
        return self._description(digest).tree

    def files(self, digest: Digest) -> Sequence[RemoteFile]:
        """Return every file of an object; none of them is fetched."""
        found = resolve_all(digest, self.tree, self._layout)
        return [RemoteFile(each, self._bring, self._is_near) for each in found]

    def file_path(self, digest: Digest, path: str) -> Path:
        """Return the regular file behind an entry, fetched where the store lacks it."""
        return self._bring(resolve_file(digest, path, self.tree, self._layout))

    def read_bytes(self, digest: Digest, path: str) -> bytes:
        """Return a file's content."""
        file = resolve_file(digest, path, self.tree, self._layout)
        return read_verified(replace(file, real=self._bring(file)))

    def tensors(self, file: "ObjectFile") -> "tuple[Tensor, ...]":
        """Return the tensors of a file, which is fetched for that; none unless it is a safetensors file by its name."""
        if not file.path.endswith(".safetensors") and not self.is_at_hand(file.blake3):
            return ()
        return self._store.tensors(file)

    def is_at_hand(self, blake3: Digest) -> bool:
        """Tell whether the store has a content under whatever name, so that nothing would be fetched."""
        return self._store.has_file(blake3)

    def _description(self, digest: Digest) -> RemoteObject:
        if digest not in self._described:
            reference = self.closure.reference
            child = self.closure.objects.get(digest)
            if child is None:
                cause = f"it lacks the object {digest}"
                raise RegistryMismatchError(f"{reference} is not whole", cause=cause)
            place = reference.base.with_digest(child.descriptor.digest)
            check = self._registries.stop.check
            self._described[digest] = fetch_object(self._registries.client, place, digest, check)
        return self._described[digest]

    def _is_near(self, file: ResolvedFile) -> bool:
        return self._store.protect(file.owner) or self.is_at_hand(file.blake3)

    def _bring(self, file: ResolvedFile) -> Path:
        if self._store.protect(file.owner):
            return file.real
        wanted = _alone(self._description(file.owner), file)
        if not self._store.protect(wanted.digest):
            reference = self.closure.reference
            with self._registries.fetching(reference) as progress:
                receive(
                    self._store,
                    self._registries.client,
                    reference,
                    {wanted.digest: wanted},
                    progress=progress,
                    stop=self._registries.stop,
                )
        entry = next(each for each in wanted.tree.files if each.blake3 == file.blake3)
        return self._store.object_path(wanted.digest) / entry.path


class ObjectsAtHand:
    """What a comparison of runs may look at: the objects of a store, and small ones of the closures of both runs.

    Weights are not among these: runs are told apart without them, and they are what takes long to come.

    Args:
        store: The store.
        remotes: The closures.
    """

    def __init__(self, store: Store, remotes: Sequence[RemoteObjects]) -> None:
        self._store = store
        self._remotes = tuple(remotes)

    def is_valid(self, digest: Digest) -> bool:
        """Return whether an object may be looked at."""
        return self._store.protect(digest) or any(self._may_look(digest))

    def files(self, digest: Digest) -> "Sequence[ObjectFile]":
        """Return every file of an object."""
        return self._place(digest).files(digest)

    def tensors(self, file: "ObjectFile") -> "tuple[Tensor, ...]":
        """Return the tensors of a file; none unless it is a safetensors file."""
        return self._store.tensors(file)

    def file_path(self, digest: Digest, path: str) -> Path:
        """Return the regular file behind an entry."""
        return self._place(digest).file_path(digest, path)

    def read_bytes(self, digest: Digest, path: str) -> bytes:
        """Return a file's content."""
        return self._place(digest).read_bytes(digest, path)

    def _may_look(self, digest: Digest) -> Iterator[RemoteObjects]:
        for each in self._remotes:
            if digest in each.closure.objects and each.kind(digest) != WEIGHTS:
                yield each

    def _place(self, digest: Digest) -> "ObjectFiles":
        if self._store.protect(digest):
            return self._store
        return next(self._may_look(digest), self._store)


def _alone(remote: RemoteObject, file: ResolvedFile) -> RemoteObject:
    """Return a file of an object as an object of its own; of an object that travels as one archive, all its files."""
    if remote.archive is not None:
        tree = Tree(remote.tree.files, portable_names=remote.tree.portable_names)
        return replace(remote, digest=tree.digest, tree=tree)
    name = file.own_path.rpartition("/")[2]
    entry = FileEntry(name, file.size, file.blake3)
    tree = Tree((entry,), portable_names=remote.tree.portable_names)
    if file.blake3 in remote.contents:
        return RemoteObject(tree.digest, tree, {file.blake3: remote.contents[file.blake3]})
    return RemoteObject(tree.digest, tree, {}, None, {file.blake3: remote.parts[file.blake3]})
