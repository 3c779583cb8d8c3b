"""Bundles of made-up runs, written as directories, and a store of made-up objects that they name."""

import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import numpy as np

from dis_derivations.comparison.report import DiffReport
from dis_derivations.comparison.verify_report import VerifyReport
from dis_derivations.runs.bundle import BUNDLE_KIND, run_id
from dis_derivations.runs.bundle_reader import DirectoryBundle, ObjectFile
from dis_store import canonical_json
from dis_store.digest import Digest, Sha256
from dis_store.tensors.tensor_scan import Tensor as StoredTensor
from dis_store.tensors.tensor_scan import TensorScan

_NUMPY = {"F64": "<f8", "F32": "<f4", "F16": "<f2", "BF16": "<u2", "I32": "<i4"}
FILES = {
    "logits": "logits.safetensors",
    "activations": "activations.safetensors",
    "engine_trace": "engine_trace.jsonl",
}


def digest_of(label: str) -> Digest:
    """Return a digest that stands for an object."""
    return Digest.of(label.encode())


@dataclass(frozen=True)
class Tensor:
    """A tensor by its values; BF16 by its bits."""

    values: Any
    dtype: str = "F32"


@dataclass(frozen=True)
class Answer:
    """One request with its answer."""

    id: str
    output: tuple[int, ...]
    prompt: tuple[int, ...] = (1, 2, 3)
    text: str = ""


@dataclass(frozen=True)
class Run:
    """A run; every field has a default, so that a test names only what it is about."""

    answers: tuple[Answer, ...] = (Answer("first", (5, 6, 7)), Answer("second", (8, 9)))
    name: str = "example"
    engine: Mapping[str, Any] = field(
        default_factory=lambda: {"engine": "reference", "numerics": 1, "settings": {}}
    )
    inputs: Mapping[str, str] = field(default_factory=dict)
    platform_class: str = "any"
    facts: Mapping[str, Any] = field(default_factory=dict)
    conformant: bool = True
    reasons: tuple[str, ...] = ()
    logits: Mapping[str, Tensor] | None = None
    activations: Mapping[str, Tensor] | None = None
    trace: Sequence[Mapping[str, Any]] | None = None
    manifest: Mapping[str, Any] = field(default_factory=dict)
    artifacts: tuple[tuple[str, str, str], ...] = (
        ("model.weight", "model.safetensors", "weights"),
    )
    sources: Mapping[str, Any] = field(default_factory=dict)

    def having(self, **changes: Any) -> "Run":
        """Return this run with some fields changed."""
        return replace(self, **changes)

    def with_manifest(self, **blocks: Any) -> "Run":
        """Return this run with some blocks of its manifest replaced."""
        return replace(self, manifest={**self.manifest, **blocks})

    def with_input(self, name: str, label: str) -> "Run":
        """Return this run made of another object, and so of another closure where it belongs to one."""
        closure = (
            {} if name in ("requests", "closure", "dataset") else {"closure": f"closure of {label}"}
        )
        return replace(self, inputs={**self.inputs, **closure, name: label})

    @property
    def objects(self) -> dict[str, Digest]:
        """The inputs, by name."""
        names = ("weights", "config", "tokenizer", "chat_template", "requests", "closure")
        return {
            name: digest_of(label)
            for name, label in {**{n: n for n in names}, **self.inputs}.items()
        }

    @property
    def used_manifest(self) -> dict[str, Any]:
        """The manifest, with rules that compare everything exactly."""
        exact = {"rule": "exact"}
        return {
            "schema_version": 1,
            "metadata": {"name": self.name, "description": "an example"},
            "determinism": {
                "strict_hardware": False,
                "compare": dict.fromkeys(
                    ("tokens", "logits", "activations", "engine_trace"), exact
                ),
            },
            "capture": {"tokens": True, **{name: {"enabled": True} for name in self.captured}},
            "inference": {"batching": {"max_num_seqs": 1}},
            "vllm": {"engine_args": {"dtype": "float32"}},
            **self.manifest,
        }

    @property
    def used_lock(self) -> dict[str, Any]:
        """The lock with its id."""
        preimage = {
            "artifacts": [
                {
                    "name": name,
                    "path": path,
                    "size": 1,
                    "digest": str(Sha256.of(content.encode())),
                    "executable": False,
                }
                for name, path, content in self.artifacts
            ],
            "sources": dict(self.sources),
        }
        return {**preimage, "lock_id": str(canonical_json.sha256(preimage))}

    @property
    def captured(self) -> list[str]:
        """The observables beside tokens that this run has."""
        present = {
            "logits": self.logits,
            "activations": self.activations,
            "engine_trace": self.trace,
        }
        return [name for name, value in present.items() if value is not None]

    @property
    def results(self) -> Digest:
        """What stands for the results: another digest for other answers and captures."""
        captures = [self.logits, self.activations]
        tensors = [b"" if each is None else safetensors(each) for each in captures]
        documents = [self.tokens_document(), list(self.trace or ())]
        return Digest.of(b"".join([*map(canonical_json.encode, documents), *tensors]))

    def bundle_document(self) -> dict[str, Any]:
        """Return `bundle.json`."""
        platform = {"class": self.platform_class, "facts": dict(self.facts)}
        manifest_id = canonical_json.sha256(self.used_manifest)
        lock_id = self.used_lock["lock_id"]
        requests = self.objects["requests"]
        return {
            "schema_version": 1,
            "kind": BUNDLE_KIND,
            "run_id": str(run_id(manifest_id, lock_id, requests, platform)),
            "manifest_id": str(manifest_id),
            "lock_id": lock_id,
            "name": self.name,
            "engine": dict(self.engine),
            "requests_digest": str(requests),
            "inputs": {name: str(digest) for name, digest in self.objects.items()},
            "results": str(self.results),
            "platform": platform,
            "hardware": {"conformant": self.conformant, "reasons": list(self.reasons)},
            "capture": {
                "tokens": "captured",
                **{
                    name: "captured" if name in self.captured else "not requested" for name in FILES
                },
            },
            "grade": "conformant" if self.conformant else "non_conformant_hardware",
        }

    def tokens_document(self) -> dict[str, Any]:
        """Return `tokens.json`."""
        return {
            "model": "example/model",
            "provider": self.engine["engine"],
            "parameters": [],
            "tokenizer": str(self.objects["tokenizer"]),
            "conversations": None,
            "sequences": [
                {
                    "id": answer.id,
                    "prompt_token_ids": list(answer.prompt),
                    "output_token_ids": list(answer.output),
                }
                for answer in self.answers
            ],
            "decoded_output_text": [answer.text for answer in self.answers],
        }

    def files(self) -> dict[str, bytes]:
        """Return the files of the bundle."""
        documents = {
            "bundle.json": self.bundle_document(),
            "manifest.used.json": self.used_manifest,
            "lock.used.json": self.used_lock,
            "tokens.json": self.tokens_document(),
            "engine.json": {"format": 1, **self.engine},
        }
        files = {name: canonical_json.encode(document) for name, document in documents.items()}
        for name, tensors in (("logits", self.logits), ("activations", self.activations)):
            if tensors is not None:
                files[FILES[name]] = safetensors(tensors)
        if self.trace is not None:
            files[FILES["engine_trace"]] = b"".join(
                canonical_json.encode(step) + b"\n" for step in self.trace
            )
        return files

    def write(self, directory: Path) -> DirectoryBundle:
        """Write the bundle as a directory and open it."""
        directory.mkdir(parents=True, exist_ok=True)
        for name, data in self.files().items():
            (directory / name).write_bytes(data)
        return DirectoryBundle(directory)


# The fixtures `diff` and `verify`: they write two runs and compare them.
Diff = Callable[[Run, Run], DiffReport]
Verify = Callable[[Run, Run], VerifyReport]


def safetensors(tensors: Mapping[str, Tensor]) -> bytes:
    """Return a safetensors file."""
    header: dict[str, Any] = {}
    data = b""
    for name, tensor in tensors.items():
        values = np.asarray(tensor.values).astype(_NUMPY[tensor.dtype])
        raw = values.tobytes()
        header[name] = {
            "dtype": tensor.dtype,
            "shape": list(values.shape),
            "data_offsets": [len(data), len(data) + len(raw)],
        }
        data += raw
    text = json.dumps(header).encode()
    return len(text).to_bytes(8, "little") + text + data


@dataclass(frozen=True)
class FolderFile:
    """A file of a made-up object."""

    path: str
    blake3: Digest
    real: Path

    @property
    def size(self) -> int:
        return self.real.stat().st_size


class FolderStore:
    """Objects as folders of files, by the digests that stand for them."""

    def __init__(self, root: Path) -> None:
        self._root = root

    def add(self, label: str, files: Mapping[str, bytes]) -> None:
        """Add the object that `digest_of(label)` names."""
        for path, data in files.items():
            real = self._root / digest_of(label) / path
            real.parent.mkdir(parents=True, exist_ok=True)
            real.write_bytes(data)

    def is_valid(self, digest: Digest) -> bool:
        return (self._root / digest).is_dir()

    def files(self, digest: Digest) -> list[FolderFile]:
        folder = self._root / digest
        return [
            FolderFile(real.relative_to(folder).as_posix(), Digest.of(real.read_bytes()), real)
            for real in sorted(folder.rglob("*"))
            if real.is_file()
        ]

    def tensors(self, file: ObjectFile) -> tuple[StoredTensor, ...]:
        scan = TensorScan()
        scan.update(file.real.read_bytes())
        return scan.finish()

    def file_path(self, digest: Digest, path: str) -> Path:
        return self._root / digest / path

    def read_bytes(self, digest: Digest, path: str) -> bytes:
        return self.file_path(digest, path).read_bytes()
