"""Manifests for tests: the smallest valid document, and ways to change and write it."""

import json
from pathlib import Path
from typing import Any

from dis_derivations.manifest import json_pointer

SAMPLES = Path(__file__).parents[3] / "shared" / "samples" / "manifests"


def smallest_manifest(**members: Any) -> dict[str, Any]:
    """Return a valid manifest with as few members as can be; `members` maps dotted paths (`a__b`) to values."""
    document: dict[str, Any] = {
        "schema_version": 1,
        "kind": "vllm.deterministic_inference_manifest",
        "metadata": {
            "name": "smallest",
            "description": "",
            "created_at": "2026-11-29T00:00:00Z",
            "owners": [],
        },
        "determinism": {},
        "hardware": {},
        "artifacts": {},
        "software_stack": {},
        "cuda_stack": {},
        "runtime": {"env": {"PYTHONHASHSEED": "0"}, "execution": {"backend": "reference"}},
        "vllm": {},
        "model": {"weights": {"source": {"type": "local", "local_path": "model"}}},
        "inference": {"requests": [a_request()]},
        "capture": {"tokens": True},
        "outputs": {},
    }
    for name, value in members.items():
        put(document, "/" + name.replace("__", "/"), value)
    return document


def a_request(name: str = "one", **members: Any) -> dict[str, Any]:
    """Return a request for four greedy tokens."""
    sampling = {"temperature": 0, "max_tokens": 4}
    return {"id": name, "kind": "completion", "prompt": "Hi", "sampling": sampling, **members}


def put(document: dict[str, Any], pointer: str, value: Any) -> None:
    """Set one member; objects on the way are made."""
    *way, last = json_pointer.tokens(pointer)
    container: Any = document
    for token in way:
        is_list = isinstance(container, list)
        container = container[int(token)] if is_list else container.setdefault(token, {})
    container[int(last) if isinstance(container, list) else last] = value


def write_json(path: Path, document: Any) -> Path:
    """Write a document as people do, with two spaces a level, and return the path."""
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(json.dumps(document, indent=2, ensure_ascii=False) + "\n", "utf-8")
    return path
