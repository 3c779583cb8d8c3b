"""The block `hardware`: which machines conform, and what to note about the one that ran."""

from dis_derivations.manifest.block import Block, Items
from dis_derivations.manifest.scalars import ComputeCapability, NonEmpty


class Constraints(Block):
    """What a conforming machine has. What is absent, or an empty list, constrains nothing."""

    accelerator_vendor: NonEmpty | None = None
    gpu_arch_min_cc: ComputeCapability | None = None
    gpu_arch_max_cc: ComputeCapability | None = None
    allowed_gpu_models: Items[NonEmpty] = ()
    cpu_arch: NonEmpty | None = None


class Record(Block):
    """What goes to the log of a run about its machine."""

    capture_collect_env: bool = False
    capture_nvidia_smi: bool = False
    capture_driver_versions: bool = False
    capture_pcie_topology: bool = False


class Hardware(Block):
    """The whole block; docs/reference/manifest.md describes its fields."""

    constraints: Constraints = Constraints()
    record: Record = Record()
