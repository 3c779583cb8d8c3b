"""Where the parts of an image lie in its object: an OCI image layout with one image in it.

The names of blobs are made of digests that were checked, and of nothing else.
"""

from collections.abc import Mapping

from dis_derivations.images.descriptor import Descriptor
from dis_derivations.images.image_documents import ImageManifest
from dis_derivations.images.media_types import OCI_INDEX
from dis_store import canonical_json
from dis_store.digest import Sha256

LAYOUT_FILE = "oci-layout"
INDEX_FILE = "index.json"
BLOBS = "blobs/sha256"
# As `skopeo` and `docker` write it; the layout has no other version.
LAYOUT_BYTES = b'{"imageLayoutVersion":"1.0.0"}'


def blob_path(digest: Sha256) -> str:
    """Return where a blob lies."""
    return f"{BLOBS}/{digest.hex}"


def index_bytes(manifest: Descriptor) -> bytes:
    """Return `index.json` of a layout with this one image: canonical JSON, with nothing of where it comes from."""
    return canonical_json.encode(
        {"schemaVersion": 2, "mediaType": OCI_INDEX, "manifests": [manifest.to_json()]}
    )


def layout_files(manifest: Descriptor, content: ImageManifest) -> Mapping[str, tuple[int, Sha256]]:
    """Return every file of an image's layout: its size in bytes and its SHA-256, by path.

    Args:
        manifest: What the manifest is.
        content: What is in it.
    """
    index = index_bytes(manifest)
    files = {
        LAYOUT_FILE: (len(LAYOUT_BYTES), Sha256.of(LAYOUT_BYTES)),
        INDEX_FILE: (len(index), Sha256.of(index)),
    }
    for blob in (manifest, *content.blobs):
        files[blob_path(blob.digest)] = (blob.size, blob.digest)
    return files
