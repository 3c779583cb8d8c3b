"""Locking an artifact by what its hub or index publishes, without its bytes; they are compared when they arrive."""

from dis_derivations.environments.wheel_source import WheelSource
from dis_derivations.images.source import ImageSource
from dis_derivations.lock.document import DigestSource, LockedFile
from dis_derivations.lock.ingestion import GroupPlan, Mismatch
from dis_derivations.lock.staleness import retrieval_of
from dis_derivations.sources.hugging_face import HuggingFaceSource
from dis_derivations.sources.oci_artifact import OciArtifact
from dis_derivations.sources.source import Source
from dis_store.digest import Sha256


def is_published(plan: GroupPlan) -> bool:
    """Return whether somebody publishes digests of the files.

    Of a wheel that can be wanting: an index need not say digests, and a server no sizes. A file on this machine is
    read rather than believed.
    """
    if isinstance(plan.source, WheelSource):
        return all(plan.source.published(file.path) is not None for file in plan.files)
    return isinstance(plan.source, HuggingFaceSource | ImageSource | OciArtifact)


def published_group(plan: GroupPlan) -> tuple[list[LockedFile], list[Mismatch]]:
    """Return the files of an artifact with the digests that are published, and those that were declared otherwise.

    A small file that has none, because it is not in LFS, is read.

    Raises:
        DisError: The hub does not tell, or a small file cannot be had.
    """
    locked: list[LockedFile] = []
    mismatches: list[Mismatch] = []
    for file in plan.files:
        size, digest, origin = _published(plan.source, file.path)
        if file.sha256 is not None and file.sha256 != digest:
            mismatches.append(
                Mismatch(plan.group.name, file.path, file.sha256, digest, plan.source.describe())
            )
        locked.append(
            LockedFile(
                name=plan.group.name,
                path=file.path,
                size=size,
                digest=digest,
                executable=False,
                digest_source=origin,
                retrieval=retrieval_of(plan.group),
            )
        )
    return ([], mismatches) if mismatches else (locked, [])


def _published(source: Source, path: str) -> tuple[int, Sha256, DigestSource]:
    """Return size and digest of a file of a source that `is_published` has said yes to."""
    if isinstance(source, WheelSource):
        wheel = source.published(path)
        assert wheel is not None  # noqa: S101 - as above
        return wheel.size, wheel.sha256, "published"
    assert isinstance(source, HuggingFaceSource | ImageSource | OciArtifact)  # noqa: S101 - as above
    found = source.published(path)
    if found.sha256 is not None:
        return found.size, found.sha256, "published"
    assert not isinstance(source, OciArtifact)  # noqa: S101 - a manifest has the digest of every layer
    return found.size, Sha256.of(source.read_small(path)), "computed"
