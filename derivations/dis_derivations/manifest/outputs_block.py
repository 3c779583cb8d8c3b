"""The block `outputs`: where a run is laid out, and what is done with it. It has no part in manifest_id."""

from typing import Annotated, Literal, Self

from pydantic import Field, model_validator

from dis_derivations.manifest.block import Block, Items
from dis_derivations.manifest.scalars import DirectoryTemplate, NonEmpty


class Golden(Block):
    """A run to compare with."""

    enabled: bool = False
    path: NonEmpty | None = None

    @model_validator(mode="after")
    def _enabled_has_path(self) -> Self:
        if self.enabled and self.path is None:
            raise ValueError("must have 'path' when it is enabled")
        return self


# As `include_words` has them; a type needs them written out.
IncludeWord = Literal[
    "bundle",
    "manifest",
    "lock",
    "tokens",
    "engine",
    "logits",
    "activations",
    "engine_trace",
    "run_log",
]


class BundlePolicy(Block):
    """What archives and directories of a run are to hold, and for how long it is kept."""

    include: Items[IncludeWord] = ()
    retention_days: Annotated[int, Field(ge=0, le=999_999)] | None = None


class Outputs(Block):
    """The whole block; docs/reference/manifest.md describes its fields."""

    directory: DirectoryTemplate | None = None
    golden: Golden = Golden()
    bundle_policy: BundlePolicy = BundlePolicy()
