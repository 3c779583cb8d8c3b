"""Loading a manifest: from a path to a validated document with its identity."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from dis_derivations.manifest.reading import RawManifest, SourceFile, read_manifest_files
from dis_store.digest import Sha256

if TYPE_CHECKING:
    from dis_derivations.manifest.schema import Manifest

__all__ = ["LoadedManifest", "SourceFile", "load_manifest", "validate"]


@dataclass(frozen=True)
class LoadedManifest:
    """A valid manifest.

    Attributes:
        raw: The files it was read from, and what they come to.
        manifest: The validated model, with every default filled in.
        used: What makes its identity (docs/reference/manifest.md); the preimage of `manifest_id`.
        manifest_id: The SHA-256 of the canonical JSON of `used`.
    """

    raw: RawManifest
    manifest: "Manifest"
    used: Mapping[str, Any]
    manifest_id: Sha256

    @property
    def path(self) -> Path:
        """The manifest's file, as it was named."""
        return self.raw.path

    @property
    def files(self) -> tuple[SourceFile, ...]:
        """The manifest first, then its bases, nearest first."""
        return self.raw.files

    @property
    def document(self) -> Mapping[str, Any]:
        """The merged document with overrides applied, as written: no defaults are filled in."""
        return self.raw.document

    def locate(self, pointer: str, value: str) -> Path:
        """Return the input path `value` of the member `pointer`, from the file that wrote it.

        The path returned is absolute. An override's path begins at the working directory.
        """
        return self.raw.locate(pointer, value)


def load_manifest(path: Path, overrides: Sequence[str] = ()) -> LoadedManifest:
    """Return the manifest at `path`, its bases merged and overrides (`a.b=value`) applied.

    Raises:
        InvalidInputError: A file cannot be read, or is not strict JSON, or an override is
            malformed.
        InvalidManifestError: The document does not follow the schema; every fault is told at once.
    """
    return validate(read_manifest_files(path, overrides))


def validate(raw: RawManifest) -> LoadedManifest:
    """Return a manifest whose files are read already.

    Raises:
        InvalidManifestError: The document does not follow the schema; every fault is told at once.
    """
    # Pydantic and the schema cost more to import than a cached realisation takes; only here they
    # are needed.
    from pydantic import ValidationError

    from dis_derivations.manifest.agreement import disagreements
    from dis_derivations.manifest.fault_messages import faults_of
    from dis_derivations.manifest.faults import InvalidManifestError
    from dis_derivations.manifest.identity import manifest_id, used_document
    from dis_derivations.manifest.schema import Manifest

    between = list(disagreements(raw.document))
    try:
        manifest = Manifest.model_validate(raw.document)
    except ValidationError as error:
        raise InvalidManifestError(raw, [*faults_of(error, Manifest), *between]) from error
    if between:
        raise InvalidManifestError(raw, between)
    used = used_document(raw.document)
    return LoadedManifest(raw=raw, manifest=manifest, used=used, manifest_id=manifest_id(used))
