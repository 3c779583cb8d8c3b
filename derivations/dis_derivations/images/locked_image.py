"""Whether the files that a lock has of an image are those of the image that it says that they are.

Who vouches for an image is asked by the digests beside its files; what runs is what the files hold. A lock may come
from anybody, and files that the store has already are not compared with a registry.
"""

from typing import TYPE_CHECKING

from dis_derivations.images.descriptor import Descriptor
from dis_derivations.images.image_layout import INDEX_FILE, blob_path, index_bytes
from dis_derivations.images.media_types import MANIFESTS
from dis_derivations.manifest.artifact_groups import IMAGE
from dis_store.digest import Sha256
from dis_store.errors import IntegrityError, InvalidInputError

if TYPE_CHECKING:
    from dis_derivations.lock.document import Lock


def check_locked_image(lock: "Lock") -> None:
    """Refuse a lock whose image is another one than it says.

    The `index.json` among the files names one manifest, and whoever reads the image compares all of it with that.

    Raises:
        IntegrityError: It is another one, or the lock does not say which.
    """
    files = {file.path: file for file in lock.files_of(IMAGE)}
    if not files:
        return
    source = lock.sources.get(IMAGE, {})
    try:
        manifest, config = (Sha256(source.get(name, "")) for name in ("manifest", "config"))
    except InvalidInputError as error:
        raise _refused("it does not say which image they are of") from error
    if not all(
        blob_path(each) in files and files[blob_path(each)].digest == each
        for each in (manifest, config)
    ):
        raise _refused(f"they are not those of {manifest}")
    size = files[blob_path(manifest)].size
    named = [index_bytes(Descriptor(kind, manifest, size)) for kind in sorted(MANIFESTS)]
    index = files.get(INDEX_FILE)
    if index is None or index.digest not in map(Sha256.of, named):
        raise _refused(f"their {INDEX_FILE} does not name {manifest}")


def _refused(cause: str) -> IntegrityError:
    return IntegrityError(
        "the lock contradicts itself about the files of its image",
        cause=cause,
        hint="lock the image again: dis lock CONFIG --update runtime.image",
    )
