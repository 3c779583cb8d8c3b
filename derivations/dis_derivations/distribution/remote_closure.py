"""A closure as a repository describes it: small documents only, each compared with its digest."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

from dis_derivations.distribution import layout
from dis_derivations.distribution.build_records import BuildRecords
from dis_derivations.distribution.object_documents import RemoteObject, decode_object
from dis_derivations.registry.client import RegistryClient
from dis_derivations.registry.documents import Descriptor, malformed
from dis_derivations.registry.errors import RegistryMismatchError
from dis_derivations.registry.reference import RegistryReference
from dis_store.digest import Digest, Sha256
from dis_store.errors import DisError, InvalidInputError

_MOST_CHILDREN = 10_000


@dataclass(frozen=True)
class RemoteChild:
    """A part of a closure as its index names it.

    Attributes:
        name: What it is called there; safe to print.
        kind: What kind of object it is said to be.
        descriptor: Of its manifest.
        object: The object that it is, or whose image it is; None for what is none.
    """

    name: str
    kind: str
    descriptor: Descriptor
    object: Digest | None

    @property
    def is_image(self) -> bool:
        """Whether it is the image in an object, which others run, and not the object itself."""
        return self.kind == layout.IMAGE_KIND


@dataclass(frozen=True)
class RemoteClosure:
    """The index of a closure.

    Attributes:
        reference: Where it is.
        digest: Of the index.
        root: The object that was sent.
        children: Its parts, in the order of the index.
    """

    reference: RegistryReference
    digest: Sha256
    root: Digest
    children: tuple[RemoteChild, ...]

    @property
    def objects(self) -> Mapping[Digest, RemoteChild]:
        """The parts that are objects."""
        return {
            each.object: each
            for each in self.children
            if each.object is not None and not each.is_image
        }

    @property
    def images(self) -> Sequence[tuple[Digest, Descriptor]]:
        """The images that it offers to those who run them: the object of each, and its manifest."""
        return [
            (each.object, each.descriptor)
            for each in self.children
            if each.object is not None and each.is_image
        ]

    def named(self, name: str) -> RemoteChild:
        """Return the part of a name.

        Raises:
            InvalidInputError: There is none, or it is no object.
        """
        for each in self.children:
            if each.name == name and each.object is not None:
                return each
        names = ", ".join(each.name for each in self.children if each.object is not None)
        raise InvalidInputError(
            f"{self.reference} has no part {name!r}", cause=f"its parts are {names}"
        )


def fetch_closure(client: RegistryClient, reference: RegistryReference) -> RemoteClosure:
    """Return the index of a closure.

    Raises:
        RegistryMismatchError: It is none, or malformed.
        RegistryRefusedError, TransferError: It cannot be had.
    """
    found = client.manifest(reference)
    index = found.index() if found.is_index else None
    if index is None or index.artifact_type != layout.CLOSURE:
        raise RegistryMismatchError(
            f"{reference} is no closure of dis", cause="it is an artefact of another kind"
        )
    if index.annotations.get(layout.FORMAT_NAME) != layout.FORMAT:
        raise malformed("the closure has a format that this version of dis does not know")
    if len(index.manifests) > _MOST_CHILDREN:
        raise malformed("the closure has too many parts")
    try:
        root = Digest(index.annotations.get(layout.ROOT_NAME, ""))
        children = tuple(map(_child, index.manifests))
    except InvalidInputError as error:
        raise malformed(error.cause or error.what) from error
    return RemoteClosure(reference, found.digest, root, children)


def _child(descriptor: Descriptor) -> RemoteChild:
    annotations = descriptor.annotations
    digest = annotations.get(layout.OBJECT_NAME)
    return RemoteChild(
        annotations.get(layout.CHILD_NAME, ""),
        annotations.get(layout.KIND_NAME, ""),
        descriptor,
        None if digest is None else Digest(digest),
    )


def fetch_object(
    client: RegistryClient,
    reference: RegistryReference,
    digest: Digest,
    check_interrupted: Callable[[], None],
) -> RemoteObject:
    """Return what a manifest says that an object is.

    Args:
        client: Who asks.
        reference: The manifest, by tag or by digest.
        digest: The object that it must be.
        check_interrupted: Raises when the user asked to stop.

    Raises:
        RegistryMismatchError: It is another one, or malformed.
        RegistryRefusedError, TransferError: It cannot be had.
    """
    found = client.manifest(reference, check_interrupted)

    def read_tree(layer: Descriptor) -> bytes:
        return client.read_blob(reference, layer.digest, layer.size, check_interrupted)

    return decode_object(found.manifest(), digest, read_tree)


def fetch_records(
    client: RegistryClient, closure: RemoteClosure, check_interrupted: Callable[[], None]
) -> BuildRecords | None:
    """Return what a closure knows of its builds; None where it tells nothing.

    Raises:
        IntegrityError: It is malformed.
        RegistryRefusedError, TransferError: It cannot be had.
    """
    base = closure.reference.base
    child = next((each for each in closure.children if each.name == layout.RECORDS_CHILD), None)
    if child is None:
        return None
    found = client.manifest(base.with_digest(child.descriptor.digest), check_interrupted)
    manifest = found.manifest()
    if manifest.kind != layout.RECORDS or len(manifest.layers) != 1:
        raise malformed("its part 'records' holds no records of builds")
    (layer,) = manifest.layers
    data = client.read_blob(base, layer.digest, layer.size, check_interrupted)
    try:
        return BuildRecords.decode(data)
    except DisError as error:
        raise RegistryMismatchError(error.what, cause=error.cause) from error
