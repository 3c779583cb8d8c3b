"""Under which name an image in the store is known: objects have none, but the runs that used them do."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from dis_derivations.images.image_reference import image_reference
from dis_derivations.images.stored_image import StoredImage
from dis_derivations.manifest.artifact_groups import IMAGE
from dis_derivations.runs.bundle import LOCK_DOCUMENT, MANIFEST_DOCUMENT
from dis_store import strict_json
from dis_store.digest import Digest
from dis_store.errors import DisError

if TYPE_CHECKING:
    from dis_store import Store


@dataclass(frozen=True)
class NamedImage:
    """An image, and where others know it.

    Attributes:
        name: As a manifest names it; None where no run in the store does.
        pinned: What a lock has of it: `manifest`, and `digest`, which may be that of an index.
    """

    name: str | None
    pinned: Mapping[str, str]


def named_image(name: str, stored: StoredImage) -> NamedImage:
    """Return an image under the name that somebody gives it.

    Raises:
        RegistryReferenceError: It is no name of an image.
    """
    reference = image_reference(name)
    digest = str(stored.image.manifest.digest)
    return NamedImage(name, {"manifest": digest, "digest": str(reference.digest or digest)})


def known_as(store: "Store", stored: StoredImage) -> NamedImage:
    """Return an image under the name that a run in the store has for it, if there is such a run."""
    digest = str(stored.image.manifest.digest)
    for bundle in _bundles(store):
        try:
            manifest = _document(store, bundle, MANIFEST_DOCUMENT)
            pinned = _document(store, bundle, LOCK_DOCUMENT)["sources"][IMAGE]
            name = manifest["runtime"]["execution"]["vllm_image"]
            if isinstance(name, str) and pinned["manifest"] == digest:
                return NamedImage(name, {"manifest": digest, "digest": str(pinned["digest"])})
        except (DisError, OSError, KeyError, TypeError):
            continue  # no bundle of a form that this version knows
    return NamedImage(None, {"manifest": digest, "digest": digest})


def _bundles(store: "Store") -> Iterator[Digest]:
    """Yield the bundles that roots keep, each once."""
    for digest in sorted({root.object for root in store.roots().values() if root.object}):
        if not store.is_valid(digest):
            continue
        if {MANIFEST_DOCUMENT, LOCK_DOCUMENT} <= {each.path for each in store.tree(digest).files}:
            yield digest


def _document(store: "Store", bundle: Digest, path: str) -> Any:
    return strict_json.decode(store.read_bytes(bundle, path), name=path)
