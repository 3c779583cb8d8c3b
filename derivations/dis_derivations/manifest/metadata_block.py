"""The block `metadata`: who made the manifest, for people. Changes manifest_id, never a result."""

from dis_derivations.manifest.block import Block, Items
from dis_derivations.manifest.scalars import Name, Timestamp


class Metadata(Block):
    """The whole block; docs/reference/manifest.md describes its fields."""

    name: Name
    description: str
    created_at: Timestamp
    owners: Items[str]
