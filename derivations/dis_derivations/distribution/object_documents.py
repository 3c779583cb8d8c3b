"""One object of the store as a manifest of a registry, and back: pure.

Weights are a ModelPack manifest, which other programs pull; everything else has its tree manifest as its first layer.
Nothing here is believed on the way back: the tree that comes out has the digest that was asked for.
"""

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from types import MappingProxyType

from dis_derivations.distribution import layout
from dis_derivations.distribution.file_parts import LARGEST, FilePart
from dis_derivations.registry.documents import (
    EMPTY,
    EMPTY_CONFIG,
    Descriptor,
    ImageManifest,
    malformed,
)
from dis_store import canonical_json
from dis_store.digest import Digest, Sha256
from dis_store.errors import DisError
from dis_store.tree import FileEntry, Tree

WEIGHTS = "weights"
_WEIGHT_FORMATS = {".safetensors": "safetensors", ".gguf": "gguf"}
_DOCUMENTS = (".md", ".txt", ".rst", "license", "notice")
_NO_PARTS: Mapping[Digest, Sequence[FilePart]] = MappingProxyType({})
_NO_BLOBS: Mapping[Digest, tuple[Descriptor, ...]] = MappingProxyType({})
_LAYER = "application/vnd.cncf.model.{}.v1.raw"


@dataclass(frozen=True)
class ObjectDocuments:
    """What stands for an object in a registry.

    Attributes:
        manifest: The manifest.
        small: The blobs that are made of the tree: config and tree manifest.
    """

    manifest: ImageManifest
    small: tuple[bytes, ...]


def is_model(tree: Tree, kind: str) -> bool:
    """Tell whether an object travels as a ModelPack: weights that consist of files alone."""
    return (
        kind == WEIGHTS
        and tree.portable_names
        and not tree.references
        and 0 < len(tree.files) <= layout.MOST_FILES
    )


def needs_archive(tree: Tree, kind: str) -> bool:
    """Tell whether the files of an object travel as one archive."""
    return not is_model(tree, kind) and len(tree.files) > layout.MOST_FILES


def encode_object(
    tree: Tree,
    kind: str,
    sha256_of: Callable[[Digest], Sha256],
    archive: Descriptor | None,
    parts: Mapping[Digest, Sequence[FilePart]] = _NO_PARTS,
) -> ObjectDocuments:
    """Return the documents of an object: the same for the same tree, kind and parts.

    Args:
        tree: The object.
        kind: `weights`, or anything else.
        sha256_of: Gives the SHA-256 of a content.
        archive: The blob with all files, where `needs_archive` says so.
        parts: Those of contents that travel so. Weights with such are no ModelPack, which knows none.
    """
    if is_model(tree, kind) and not parts:
        return _encode_model(tree, sha256_of)
    data = tree.encode()
    layers = [Descriptor(layout.TREE_LAYER, Sha256.of(data), len(data))]
    if archive is not None:
        layers.append(archive)
    else:
        layers += _file_layers(tree, sha256_of, parts)
    config = Descriptor(EMPTY_CONFIG, Sha256.of(EMPTY), len(EMPTY))
    manifest = ImageManifest(config, tuple(layers), layout.OBJECT, _annotations(tree.digest))
    return ObjectDocuments(manifest, (EMPTY, data))


def _file_layers(
    tree: Tree,
    sha256_of: Callable[[Digest], Sha256],
    parts: Mapping[Digest, Sequence[FilePart]],
) -> Iterator[Descriptor]:
    in_parts: set[Digest] = set()
    for entry in tree.files:
        if entry.blake3 in parts:
            if entry.blake3 not in in_parts:
                for part in parts[entry.blake3]:
                    named = {layout.BLAKE3_NAME: str(entry.blake3)}
                    yield Descriptor(layout.PART_LAYER, part.sha256, part.size, named)
            in_parts.add(entry.blake3)
            continue
        named = {layout.TITLE: entry.path, layout.BLAKE3_NAME: str(entry.blake3)}
        yield Descriptor(layout.FILE_LAYER, sha256_of(entry.blake3), entry.size, named)


def _encode_model(tree: Tree, sha256_of: Callable[[Digest], Sha256]) -> ObjectDocuments:
    layers = tuple(_model_layer(entry, sha256_of(entry.blake3)) for entry in tree.files)
    formats = sorted({found for entry in tree.files if (found := _weight_format(entry.path))})
    config = canonical_json.encode(
        {
            "descriptor": {},
            "config": {"format": formats[0]} if formats else {},
            "modelfs": {"type": "layers", "diffIds": [layer.digest for layer in layers]},
        }
    )
    described = Descriptor(layout.MODEL_CONFIG, Sha256.of(config), len(config))
    manifest = ImageManifest(described, layers, layout.MODEL, _annotations(tree.digest))
    return ObjectDocuments(manifest, (config,))


def _annotations(digest: Digest) -> Mapping[str, str]:
    return {layout.OBJECT_NAME: digest, layout.FORMAT_NAME: layout.FORMAT}


def _model_layer(entry: FileEntry, sha256: Sha256) -> Descriptor:
    annotations = {
        layout.TITLE: entry.path,
        layout.FILE_PATH: entry.path,
        layout.BLAKE3_NAME: str(entry.blake3),
    }
    if entry.executable:
        annotations[layout.EXECUTABLE_NAME] = "true"
    return Descriptor(_LAYER.format(_part(entry.path)), sha256, entry.size, annotations)


def _weight_format(path: str) -> str:
    return next((name for end, name in _WEIGHT_FORMATS.items() if path.lower().endswith(end)), "")


def _part(path: str) -> str:
    if _weight_format(path):
        return "weight"
    name = path.rpartition("/")[2].lower()
    return "doc" if name.endswith(_DOCUMENTS) else "weight.config"


@dataclass(frozen=True)
class RemoteObject:
    """An object as a registry describes it.

    Attributes:
        digest: Its own.
        tree: What it consists of; it has this digest.
        contents: The blobs of files that travel whole, by BLAKE3; empty where `archive` has them.
        archive: The blob with all of its files.
        parts: The blobs that make up files which travel in parts, each in order, by the BLAKE3 of the file.
    """

    digest: Digest
    tree: Tree
    contents: Mapping[Digest, Descriptor]
    archive: Descriptor | None = None
    parts: Mapping[Digest, tuple[Descriptor, ...]] = field(default_factory=lambda: _NO_BLOBS)


def decode_object(
    manifest: ImageManifest, digest: Digest, read_tree: Callable[[Descriptor], bytes]
) -> RemoteObject:
    """Return what a manifest says that an object is.

    Args:
        manifest: The manifest.
        digest: The object that is wanted.
        read_tree: Fetches the tree manifest, and compares it with its descriptor.

    Raises:
        RegistryMismatchError: It is another object, or does not hold what its tree needs.
    """
    if manifest.annotations.get(layout.FORMAT_NAME) != layout.FORMAT:
        raise malformed("it is no object in a format that this version of dis knows")
    if manifest.kind == layout.MODEL:
        files = manifest.layers
        tree = _model_tree(files)
    elif manifest.kind == layout.OBJECT:
        if not manifest.layers or manifest.layers[0].media_type != layout.TREE_LAYER:
            raise malformed("it has no tree manifest")
        files = manifest.layers[1:]
        tree = _decoded(read_tree(manifest.layers[0]))
    else:
        raise malformed("it is no object of dis")
    if tree.digest != digest:
        raise malformed(f"it is the object {tree.digest}, and {digest} is wanted")
    if len(files) == 1 and files[0].media_type == layout.TAR_LAYER:
        return RemoteObject(digest, tree, {}, files[0])
    if manifest.kind == layout.MODEL:
        return RemoteObject(digest, tree, _contents(tree.files, files))
    parts = _parts(tree, files)
    whole = [entry for entry in tree.files if entry.blake3 not in parts]
    blobs = [layer for layer in files if layer.media_type != layout.PART_LAYER]
    return RemoteObject(digest, tree, _contents(whole, blobs), None, parts)


def _decoded(data: bytes) -> Tree:
    try:
        return Tree.decode(data)
    except DisError as error:
        raise malformed(error.cause or error.what) from error


def _model_tree(layers: tuple[Descriptor, ...]) -> Tree:
    try:
        return Tree(
            tuple(
                FileEntry(
                    layer.annotations[layout.FILE_PATH],
                    layer.size,
                    Digest(layer.annotations[layout.BLAKE3_NAME]),
                    layer.annotations.get(layout.EXECUTABLE_NAME) == "true",
                )
                for layer in layers
            )
        )
    except KeyError as error:
        raise malformed(f"a layer has no annotation {error.args[0]}") from error
    except DisError as error:
        raise malformed(error.cause or error.what) from error


def _parts(tree: Tree, layers: Sequence[Descriptor]) -> Mapping[Digest, tuple[Descriptor, ...]]:
    """Return the parts of each file that has some. They follow each other, so that none can overlap or leave a hole."""
    found: dict[str, list[Descriptor]] = {}
    for layer in layers:
        if layer.media_type == layout.PART_LAYER:
            if not 0 < layer.size <= LARGEST:
                raise malformed(f"a part of a file has {layer.size} bytes")
            found.setdefault(layer.annotations.get(layout.BLAKE3_NAME, ""), []).append(layer)
    sizes = {entry.blake3: entry.size for entry in tree.files}
    parts = {}
    for blake3, size in sizes.items():
        if blake3 in found:
            parts[blake3] = tuple(found.pop(blake3))
            if sum(part.size for part in parts[blake3]) != size:
                raise malformed("the parts of a file have more or fewer bytes than it")
    if found:
        raise malformed("it has parts of a file that is not in its tree")
    return parts


def _contents(
    entries: Sequence[FileEntry], layers: Sequence[Descriptor]
) -> Mapping[Digest, Descriptor]:
    """Return the blob of each content; the BLAKE3 that a layer tells is compared once its bytes are there."""
    found: dict[str, Descriptor] = {}
    for layer in layers:
        blake3 = layer.annotations.get(layout.BLAKE3_NAME, "")
        known = found.setdefault(blake3, layer)
        if (known.digest, known.size) != (layer.digest, layer.size):
            raise malformed("two layers contradict each other about one file")
    contents = {}
    for entry in entries:
        content = found.get(entry.blake3)
        if content is None or content.size != entry.size:
            raise malformed("it lacks a file of its tree, or has one of another size")
        contents[entry.blake3] = content
    return contents
