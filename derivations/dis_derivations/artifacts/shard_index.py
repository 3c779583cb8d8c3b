"""The index of a model that is split over several safetensors files: `*.safetensors.index.json`."""

from collections.abc import Mapping
from types import MappingProxyType
from typing import Any

from dis_store import strict_json
from dis_store.errors import InvalidInputError

INDEX_SUFFIX = ".index.json"
SHARD_SUFFIX = ".safetensors"

_FORBIDDEN = frozenset('/\\:*?"<>|')


class InvalidIndexError(InvalidInputError):
    """The index of a checkpoint is malformed, or does not agree with the files beside it."""

    code = "E0222"


def decode_index(data: bytes, *, name: str) -> Mapping[str, str]:
    """Return which file holds which tensor, from the bytes of the index called `name`.

    Raises:
        InvalidIndexError: It is no index, or it names anything but safetensors files beside it.
    """
    document = strict_json.decode(data, name=name, error=InvalidIndexError)
    weight_map: Any = document.get("weight_map") if isinstance(document, dict) else None
    if not isinstance(weight_map, dict):
        raise InvalidIndexError(f"{name} is not an index of weights", cause="it has no weight_map")
    for tensor, shard in weight_map.items():
        if not isinstance(shard, str) or not _is_plain(shard):
            raise InvalidIndexError(
                f"{name} puts tensor {tensor!r} into {str(shard)[:80]!r}",
                cause="an index names plain files beside it, so that it cannot reach other places",
                hint="get the model from a source that you trust",
            )
        if not shard.endswith(SHARD_SUFFIX):
            raise InvalidIndexError(
                f"{name} puts tensor {tensor!r} into {shard}",
                cause="only *.safetensors files may hold weights",
                hint="use the publisher's safetensors version of this model",
            )
    return MappingProxyType(weight_map)


def _is_plain(name: str) -> bool:
    return (
        bool(name)
        and not name.startswith(".")
        and name.isprintable()
        and _FORBIDDEN.isdisjoint(name)
    )
