"""The block `cuda_stack`: which CUDA userspace the engine runs on."""

from collections.abc import Mapping

from dis_derivations.manifest.block import Block
from dis_derivations.manifest.scalars import DigestText, NonEmpty
from dis_derivations.manifest.text_forms import declared_sha256
from dis_store.digest import Sha256


class CudaLibrary(Block):
    """One library."""

    version: NonEmpty | None = None
    digest: DigestText | None = None

    @property
    def sha256(self) -> Sha256 | None:
        """The declared digest; None where it is absent or unset."""
        return declared_sha256(self.digest)


class CudaUserspace(Block):
    """The libraries by name."""

    cuda_toolkit: CudaLibrary | None = None
    cublas: CudaLibrary | None = None
    cudnn: CudaLibrary | None = None
    nccl: CudaLibrary | None = None

    def declared(self) -> dict[str, CudaLibrary]:
        """Return the libraries that the manifest names, in the order of the fields."""
        found = {name: getattr(self, name) for name in type(self).model_fields}
        return {name: library for name, library in found.items() if library is not None}


class CudaStack(Block):
    """The whole block; docs/reference/manifest.md describes its fields."""

    userspace: CudaUserspace = CudaUserspace()
    env: Mapping[str, str] = {}
    driver_policy: NonEmpty | None = None
