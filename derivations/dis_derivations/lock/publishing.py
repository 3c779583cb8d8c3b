"""Locking an artifact by what its hub publishes, without its bytes; they are compared when they arrive."""

from dis_derivations.images.source import ImageSource
from dis_derivations.lock.document import DigestSource, LockedFile
from dis_derivations.lock.ingestion import GroupPlan, Mismatch
from dis_derivations.lock.staleness import retrieval_of
from dis_derivations.sources.hugging_face import HuggingFaceSource
from dis_derivations.sources.oci_artifact import OciArtifact
from dis_store.digest import Sha256


def is_published(plan: GroupPlan) -> bool:
    """Return whether somebody publishes digests of the files."""
    return isinstance(plan.source, HuggingFaceSource | ImageSource | OciArtifact)


def published_group(plan: GroupPlan) -> tuple[list[LockedFile], list[Mismatch]]:
    """Return the files of an artifact with the digests that are published, and those that were declared otherwise.

    A small file that has none, because it is not in LFS, is read.

    Raises:
        DisError: The hub does not tell, or a small file cannot be had.
    """
    locked: list[LockedFile] = []
    mismatches: list[Mismatch] = []
    assert isinstance(plan.source, HuggingFaceSource | ImageSource | OciArtifact)  # noqa: S101 - `is_published` was asked
    for file in plan.files:
        digest, origin = _digest(plan.source, file.path)
        if file.sha256 is not None and file.sha256 != digest:
            mismatches.append(
                Mismatch(plan.group.name, file.path, file.sha256, digest, plan.source.describe())
            )
        locked.append(
            LockedFile(
                name=plan.group.name,
                path=file.path,
                size=plan.source.published(file.path).size,
                digest=digest,
                executable=False,
                digest_source=origin,
                retrieval=retrieval_of(plan.group),
            )
        )
    return ([], mismatches) if mismatches else (locked, [])


def _digest(
    source: HuggingFaceSource | ImageSource | OciArtifact, path: str
) -> tuple[Sha256, DigestSource]:
    published = source.published(path).sha256
    if published is not None:
        return published, "published"
    assert not isinstance(source, OciArtifact)  # noqa: S101 - a manifest has the digest of every layer
    return Sha256.of(source.read_small(path)), "computed"
