"""A manifest of a tiny random model that the reference engine runs in a fraction of a second."""

import json
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from checkpoints import CheckpointShape, write_checkpoint
from dis_derivations.realisation.events import Event
from dis_derivations.realisation.manifest_target import realise_target
from dis_derivations.realisation.target import RealisedTarget, TargetRequest
from dis_store import Root, Store

PROMPTS = ("abba", "a cab", "babe bead")


def write_manifest(directory: Path, *, prompts: tuple[str, ...] = PROMPTS, **blocks: Any) -> Path:
    """Write a model, its prompts and a manifest into `directory`, and return the manifest.

    Args:
        directory: Made where it is not there.
        prompts: The dataset, a line each.
        blocks: Members that replace those of the manifest, by the name of the block.
    """
    write_checkpoint(directory / "model", CheckpointShape())
    (directory / "prompts.txt").write_text("".join(f"{prompt}\n" for prompt in prompts), "utf-8")
    document: dict[str, Any] = {
        "schema_version": 1,
        "kind": "vllm.deterministic_inference_manifest",
        "metadata": {
            "name": "tiny",
            "description": "A tiny random model.",
            "created_at": "2026-01-01T00:00:00Z",
            "owners": ["tests"],
        },
        "determinism": {"compare": {"tokens": {"rule": "exact"}}},
        "hardware": {},
        "artifacts": {"store": {"type": "cas"}},
        "software_stack": {"python": {"version": "3.11", "packages": []}},
        "cuda_stack": {},
        "runtime": {
            "env": {"PYTHONHASHSEED": "0"},
            "network_policy": "online_allowed",
            "execution": {"backend": "reference"},
        },
        "vllm": {"mode": "offline", "engine_args": {"model": "tiny"}},
        "model": {
            "weights": {"source": {"type": "local", "local_path": "model"}, "files": []},
            "tokenizer": {"files": []},
            "config": {"files": []},
        },
        "inference": {
            "dataset": {"source": "prompts.txt", "format": "text"},
            "n_prompts": len(prompts),
            "request_template": {
                "kind": "completion",
                "sampling": {"temperature": 0.0, "top_p": 1.0, "max_tokens": 6},
            },
            "batching": {"policy": "fixed", "max_num_seqs": 2},
        },
        "capture": {"tokens": True},
        "outputs": {"directory": "runs/${run_id}"},
        **blocks,
    }
    path = directory / "tiny.json"
    path.write_text(json.dumps(document, indent=2), "utf-8")
    return path


@dataclass(frozen=True)
class Built:
    """A run that was realised in a store.

    Attributes:
        store: The store.
        root: What keeps the run.
        config: Its manifest.
    """

    store: Store
    root: Root
    config: Path


def build(directory: Path, store: Store) -> Built:
    """Realise a run of a tiny model, whose manifest is written below a directory."""
    config = write_manifest(directory / "work")
    root = store.root(realise(store, config).roots[0])
    assert root is not None
    return Built(store, root, config)


def realise(store: Store, config: Path, *overrides: str, **options: Any) -> RealisedTarget:
    """Realise a target of a manifest, silently."""
    return realise_target(store, TargetRequest(config, overrides=overrides, **options))


def told(store: Store, config: Path, *overrides: str, **options: Any) -> list[str]:
    """Realise, and return the notes."""
    events: list[Event] = []
    realise_target(store, TargetRequest(config, overrides=overrides, **options), events.append)
    return [event.text for event in events if event.kind == "note"]


def lock_of(config: Path) -> Path:
    """Return where the lock of a manifest is that names no place for it."""
    return config.with_name(f"{config.stem}.lock.json")
