"""Trees for the store's tests: strategies that draw them, and ways to write them."""

from collections.abc import Mapping
from dataclasses import dataclass

from hypothesis import strategies

from dis_store import Digest, InvalidInputError, Store
from dis_store.path_rules import PathSet


@dataclass(frozen=True)
class Blob:
    """The content of a file."""

    data: bytes
    executable: bool = False


Files = Mapping[str, Blob]

# Letters whose case, width or composition makes trouble somewhere, beside plain ones.
_COMPONENTS = strategies.text(
    alphabet=strategies.sampled_from("ab.Z-_0 é中ß\u017fK🜁~"), min_size=1, max_size=6
)
_PATHS = strategies.lists(_COMPONENTS, min_size=1, max_size=3).map("/".join)
_BLOBS = strategies.builds(Blob, strategies.binary(max_size=40), strategies.booleans())


def _without_collisions(files: dict[str, Blob]) -> dict[str, Blob]:
    known = PathSet()
    kept = {}
    for path, blob in files.items():
        try:
            known.add(path)
        except InvalidInputError:
            continue
        kept[path] = blob
    return kept


TREES = strategies.dictionaries(_PATHS, _BLOBS, max_size=8).map(_without_collisions)
"""Any small tree that the rules allow."""


def write_tree(
    store: Store,
    files: Files,
    references: Mapping[str, tuple[Digest, str | None]] | None = None,
) -> Digest:
    """Register a tree of files and references."""
    with store.new_tree() as tree:
        for path, blob in files.items():
            tree.write_bytes(path, blob.data, executable=blob.executable)
        for path, (digest, subpath) in (references or {}).items():
            tree.reference(path, digest, subpath)
        return tree.register()


def write_text(store: Store, text: str) -> Digest:
    """Register an object of one file, `text`."""
    return write_tree(store, {"text": Blob(text.encode())})
