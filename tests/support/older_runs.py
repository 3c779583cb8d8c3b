"""Run directories as deterministic_inference.cli wrote them, made up for tests."""

import hashlib
import json
import tarfile
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

_ARTIFACTS = (
    ("model.weight", "model.safetensors", "weights"),
    ("model.tokenizer", "tokenizer.json", "tokenizer"),
    ("model.config", "config.json", "config"),
    ("python.package.vllm", "", "vllm"),
)


def _hex(text: str) -> str:
    return hashlib.sha256(text.encode()).hexdigest()


def token_hash(tokens: tuple[int, ...]) -> str:
    """Return the hash of token ids that the tool wrote into its log."""
    return _hex(json.dumps(list(tokens), separators=(",", ":")))


@dataclass(frozen=True)
class OlderAnswer:
    """One request with its answer; the text is the ids once more unless it is given."""

    output: tuple[int, ...]
    prompt: tuple[int, ...] = (1, 2, 3)
    text: str | None = None
    question: str = "hello"
    id: str = "req-0001"


@dataclass(frozen=True)
class Older:
    """A run directory; every field has a default, so that a test names only what it is about.

    Attributes:
        time: When it was made, which is in its ids.
        bundle: Members of `bundle.json` that replace those of the run.
    """

    answers: tuple[OlderAnswer, ...] = (OlderAnswer((5, 6, 7)),)
    time: str = "2026-02-21T15:37:51Z"
    name: str = "older"
    model: str = "example/model"
    weights: str = "weights"
    sampling: Mapping[str, Any] = field(
        default_factory=lambda: {
            "max_tokens": 3, "seed": 1, "temperature": 0.0, "top_k": 50, "top_p": 1.0,
        }
    )  # fmt: skip
    gpu: str = "NVIDIA B200"
    bundle: Mapping[str, Any] = field(default_factory=dict)
    backend: str = "openai_compatible"

    def having(self, **changes: Any) -> "Older":
        """Return this run with some fields changed."""
        return replace(self, **changes)

    def documents(self) -> dict[str, Any]:
        """Return its documents by file name."""
        sequences = [
            {"prompt_token_ids": list(each.prompt), "output_token_ids": list(each.output)}
            for each in self.answers
        ]
        parameters = {"n_prompts": len(self.answers), **self.sampling}
        lock_id = _hex(f"lock {self.time} {self.weights}")
        steps = [{"step_index": 0, "request_ids": [each.id for each in self.answers]}]
        batches = {"policy": "fixed", "schedule": "batch_invariant", "steps": steps}
        return {
            "bundle.json": {
                "schema_version": 1,
                "kind": "vllm.deterministic_run_bundle",
                "created_at": self.time,
                "run_id": _hex(f"run {self.time}"),
                "manifest_id": _hex("manifest"),
                "lock_id": lock_id,
                "requests_digest": _hex("requests"),
                "hardware_fingerprint": {"captured_at": self.time, "gpu_models": [self.gpu]},
                "hardware_conformant": True,
                "runtime_closure_digest": _hex("closure"),
                "determinism_grade": "conformant",
                "runtime_environment": {"PYTHONHASHSEED": "0", "VLLM_BATCH_INVARIANT": "1"},
                "determinism_controls": {"seed": 1},
                "software_metadata": {"python": {"version": "3.10.12", "executable": "/x/python"}},
                "batch_trace": batches,
                **self.bundle,
            },
            "tokens.json": {
                "model": self.model,
                "provider": self.name,
                "parameters": parameters,
                "tokenizer": {"digest": _hex("tokenizer"), "files": []},
                "conversations": [
                    [{"role": "user", "content": each.question}] for each in self.answers
                ],
                "sequences": sequences,
                "decoded_output_text": [
                    " ".join(f"token_id:{token}" for token in each.output)
                    if each.text is None
                    else each.text
                    for each in self.answers
                ],
            },
            "run_log.json": {
                "schema_version": 1,
                "model": self.model,
                "parameters": parameters,
                "records": [
                    {
                        "prompt_index": index,
                        "prompt_token_ids": list(each.prompt),
                        "prompt_token_sha256": token_hash(each.prompt),
                        "output_token_ids": list(each.output),
                        "output_token_sha256": token_hash(each.output),
                    }
                    for index, each in enumerate(self.answers)
                ],
            },
            "manifest.used.json": {
                "schema_version": 1,
                "kind": "vllm.deterministic_inference_manifest",
                "metadata": {"name": self.name},
                "runtime": {"execution": {"backend": self.backend}},
                "artifacts": {"lockfile": "x.lock.json"},
            },
            "lock.used.json": {
                "schema_version": 1,
                "kind": "vllm.deterministic_inference_lock",
                "generated_at": self.time,
                "artifacts": [
                    {
                        "name": name,
                        "path": path,
                        "digest": _hex(self.weights if name == "model.weight" else content),
                        "retrieval": {},
                    }
                    for name, path, content in _ARTIFACTS
                ],
                "lock_id": lock_id,
            },
        }

    def write(self, directory: Path, *, without: tuple[str, ...] = ()) -> Path:
        """Write the directory and return it."""
        directory.mkdir(parents=True, exist_ok=True)
        for name, document in self.documents().items():
            if name not in without:
                (directory / name).write_text(json.dumps(document, indent=2) + "\n", "utf-8")
        return directory


def archived(directory: Path) -> Path:
    """Return a directory as the archive that the tool made of it."""
    path = directory.with_name(f"{directory.name}.tar.gz")
    with tarfile.open(path, "w:gz") as archive:
        archive.add(directory, arcname=directory.name)
    return path
