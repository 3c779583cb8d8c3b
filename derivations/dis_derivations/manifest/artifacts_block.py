"""The block `artifacts`: where the lockfile is. It has no part in manifest_id."""

from typing import Annotated, Any, Literal

from pydantic import AfterValidator, Field

from dis_derivations.manifest.block import Block
from dis_derivations.manifest.scalars import NonEmpty


def _path_or_document(value: Any) -> Any:
    if isinstance(value, dict) or (isinstance(value, str) and value.strip()):
        return value
    raise ValueError("must be the path of a lockfile, or a lock as an object")


class ArtifactStore(Block):
    """Where earlier tools kept artifacts; dis has a store of its own and only notes this."""

    type: Literal["nix-store", "cas", "oci"]
    path: NonEmpty | None = None
    registry: NonEmpty | None = None


class Artifacts(Block):
    """The whole block; docs/reference/manifest.md describes its fields."""

    store: ArtifactStore | None = None
    lockfile: Annotated[
        Any,
        AfterValidator(_path_or_document),
        Field(
            json_schema_extra={"anyOf": [{"type": "string", "minLength": 1}, {"type": "object"}]}
        ),
    ] = None
