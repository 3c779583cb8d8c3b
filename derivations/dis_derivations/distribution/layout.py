"""How a closure lies in a repository: media types, annotations and tags (docs/internals/formats/registry.md)."""

import re
from collections.abc import Collection, Iterable, Mapping
from types import MappingProxyType

from dis_store.digest import Digest, Sha256

FORMAT = "1"

CLOSURE = "application/vnd.dis.closure.v1"
OBJECT = "application/vnd.dis.object.v1"
RECORDS = "application/vnd.dis.records.v1"
CLAIMS = "application/vnd.dis.claims.v1"
MODEL = "application/vnd.cncf.model.manifest.v1+json"
MODEL_CONFIG = "application/vnd.cncf.model.config.v1+json"

TREE_LAYER = "application/vnd.dis.tree.v1+json"
FILE_LAYER = "application/vnd.dis.file.v1"
PART_LAYER = "application/vnd.dis.part.v1"
TAR_LAYER = "application/vnd.dis.files.v1.tar"
RECORDS_LAYER = "application/vnd.dis.records.v1+json"
CLAIMS_LAYER = "application/vnd.dis.claims.v1+json"

OBJECT_NAME = "dev.dis.object"
"""The digest of an object."""
FORMAT_NAME = "dev.dis.format"
ROOT_NAME = "dev.dis.root"
CHILD_NAME = "dev.dis.name"
KIND_NAME = "dev.dis.kind"
BLAKE3_NAME = "dev.dis.blake3"
EXECUTABLE_NAME = "dev.dis.executable"
TITLE = "org.opencontainers.image.title"
FILE_PATH = "org.cncf.model.filepath"

RECORDS_CHILD = "records"
IMAGE_CHILD = "image"
"""A container image of the closure, under its own digest."""
IMAGE_FILES_CHILD = "image-layout"
"""The object that such an image is: the files of its layout."""
IMAGE_KIND = "oci-image"
NO_PLATFORM: Mapping[str, str] = MappingProxyType({"os": "unknown", "architecture": "unknown"})

MOST_FILES = 1000
"""An object of more files travels as one archive: a manifest holds about 15,900 layers, and each costs a request."""
UNSIGNED = "unsigned"
_LONGEST_NAME = 40
_CLAIMS_TAG = re.compile(r"drv-([0-9a-f]{64})\.[a-z0-9]{1,62}")
_NOT_IN_NAMES = re.compile(r"[^a-z0-9_-]+")
_FINGERPRINT_DIGITS = 32


def object_tag(digest: Digest) -> str:
    """Return the tag that names an object whatever closure it came with."""
    return f"obj-{digest}"


def claims_tag(platform_free_key: Digest, signer: Sha256 | None) -> str:
    """Return the tag under which one signer's claims about a build are; None for claims that nobody signed."""
    who = UNSIGNED if signer is None else signer.hex[:_FINGERPRINT_DIGITS]
    return f"drv-{platform_free_key}.{who}"


def claimed_key(tag: str) -> Digest | None:
    """Return the platform-free key of the build that the claims under a tag are about; None for any other tag."""
    match = _CLAIMS_TAG.fullmatch(tag)
    return Digest(match[1]) if match else None


def child_tag(tag: str, name: str) -> str:
    """Return the tag of a part of a closure."""
    return f"{tag}.{name}"


def closure_tags(tags: Collection[str]) -> list[str]:
    """Return those of the tags of a repository that name closures: each has a part with records."""
    known = frozenset(tags)
    return sorted(tag for tag in known if child_tag(tag, RECORDS_CHILD) in known)


def unique_names(wanted: Iterable[str], taken: Iterable[str] = ()) -> list[str]:
    """Return names that are fit for tags, each once, as near to the wanted ones as can be."""
    used = set(taken)
    found = []
    for each in wanted:
        base = _NOT_IN_NAMES.sub("-", each.lower()).strip("-_")[:_LONGEST_NAME] or "object"
        name, number = base, 2
        while name in used:
            name, number = f"{base}-{number}", number + 1
        used.add(name)
        found.append(name)
    return found
