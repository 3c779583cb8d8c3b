"""The identity of a manifest: its document without what only says *where* something is.

Left out: `x_base_manifest`, `artifacts`, `outputs`, `base_url` and `vllm_image_path` of
`runtime.execution`, a dataset's local source, and at any depth `local_path`, `mirrors` and the `url`
of something whose digest is declared. So no path of a machine is in a bundle, and moving a file or
a server changes no id.
"""

from collections.abc import Mapping
from typing import Any

from dis_store import canonical_json
from dis_store.digest import Sha256

_ONLY_WHERE = frozenset({"x_base_manifest", "artifacts", "outputs"})
_ONLY_WHERE_ANYWHERE = frozenset({"local_path", "mirrors"})
# Names in it are environment variables, whatever they look like.
_MAP = "env"


def used_document(document: Mapping[str, Any]) -> dict[str, Any]:
    """Return a copy of a merged, valid manifest with only what makes its identity."""
    used = {
        key: _without_places(value, key)
        for key, value in document.items()
        if key not in _ONLY_WHERE
    }
    for place in ("base_url", "vllm_image_path"):
        used["runtime"]["execution"].pop(place, None)
    _drop_pinned_addresses(used)
    return used


def manifest_id(used: Mapping[str, Any]) -> Sha256:
    """Return the SHA-256 of the canonical JSON of what `used_document` returned."""
    return canonical_json.sha256(used)


def _without_places(value: Any, key: str) -> Any:
    if isinstance(value, list):
        return [_without_places(item, key) for item in value]
    if not isinstance(value, dict):
        return value
    if key == _MAP:
        return dict(value)
    dropped = _ONLY_WHERE_ANYWHERE | ({"url"} if _is_digest(value.get("digest")) else set())
    return {
        name: _without_places(item, name) for name, item in value.items() if name not in dropped
    }


def _drop_pinned_addresses(used: dict[str, Any]) -> None:
    """Drop the addresses of sources whose digests are declared beside them and not in them."""
    model = used["model"]
    inherited = [
        group for group in model.values() if isinstance(group, dict) and "source" not in group
    ]
    for group in model.values():
        source = group.get("source") if isinstance(group, dict) else None
        if isinstance(source, dict) and "url" in source:
            fetched = [group, *inherited] if group is model["weights"] else [group]
            if all(_is_pinned(member) for member in fetched):
                del source["url"]
    dataset = used["inference"].get("dataset")
    if isinstance(dataset, dict):
        source = dataset["source"]
        if isinstance(source, str) or source["type"] == "local":
            del dataset["source"]
        elif _is_digest(dataset.get("digest")):
            source.pop("url", None)


def _is_pinned(group: Mapping[str, Any]) -> bool:
    """Return whether every file of a group of the model has a digest."""
    files = group.get("files") or ([group["file"]] if group.get("file") else [])
    return bool(files) and all(_is_digest(file.get("digest")) for file in files)


def _is_digest(value: Any) -> bool:
    return isinstance(value, str) and not value.endswith("unset")
