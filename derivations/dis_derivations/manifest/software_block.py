"""The block `software_stack`: what Python environment the engine runs in."""

from typing import Any, Literal

from dis_derivations.manifest.block import Block, Items
from dis_derivations.manifest.scalars import DigestText, NonEmpty
from dis_derivations.manifest.text_forms import declared_sha256
from dis_store.digest import Sha256


class PackageSource(Block):
    """Where a package comes from."""

    type: Literal["wheel", "git", "url"]
    digest: DigestText | None = None
    rev: NonEmpty | None = None
    url: NonEmpty | None = None

    @property
    def sha256(self) -> Sha256 | None:
        """The declared digest; None where it is absent or unset."""
        return declared_sha256(self.digest)


class Package(Block):
    """One Python package of the engine's environment."""

    name: NonEmpty
    version: NonEmpty | None = None
    source: PackageSource


class Python(Block):
    """The interpreter and its packages."""

    version: NonEmpty
    distribution: NonEmpty | None = None
    packages: Items[Package] = ()
    exclude: Items[NonEmpty] = ()


class SoftwareStack(Block):
    """The whole block; docs/reference/manifest.md describes its fields."""

    python: Python | None = None
    nix: Any = None
    compiled_extensions: Items[dict[str, Any]] = ()
