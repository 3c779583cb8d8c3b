"""Layers of images in files of their own, as a store would have them, read and compared."""

from collections.abc import Sequence
from pathlib import Path
from typing import Any

from dis_derivations.images.contents.image_packages import (
    ImageLayer,
    PackageDifferences,
    package_differences,
)
from dis_derivations.images.contents.layer_packages import (
    LayerPackages,
    read_layer,
)
from dis_derivations.images.contents.layer_stream import Allowance, Limits


def layer(directory: Path, data: bytes, packing: str = "none") -> ImageLayer:
    """Write a layer; it is named by its number among those that are there."""
    path = directory / f"layer-{len(list(directory.glob('layer-*')))}"
    path.write_bytes(data)
    return ImageLayer(path.name, path, packing)


def read(directory: Path, data: bytes, packing: str = "none", **limits: Any) -> LayerPackages:
    """Read a layer, written first."""
    path = layer(directory, data, packing).blob
    assert path is not None
    return read_layer(path, packing, Allowance(Limits(**limits)))


def compared(a: Sequence[ImageLayer], b: Sequence[ImageLayer], **limits: Any) -> PackageDifferences:
    """Compare two images by their layers."""
    return package_differences(a, b, Allowance(Limits(**limits)))


def shown(found: PackageDifferences) -> list[tuple[str, str, tuple[str, ...], tuple[str, ...]]]:
    """Return what differs as plain values."""
    return [(each.system, each.name, each.old, each.new) for each in found.packages]
