"""A manifest to begin with, made from a model's directory or from its name on a hub."""

import json
import os
import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from fnmatch import fnmatchcase
from pathlib import Path
from typing import Any

from dis_derivations.manifest.artifact_groups import CHAT_TEMPLATE_FILE, FOUND_FILES
from dis_store import strict_json
from dis_store.errors import InvalidInputError

KIND = "vllm.deterministic_inference_manifest"
QUICKSTART_MODEL = Path("configs", "quickstart", "model")
QUESTIONS = ("Tell me about foxes.", "What is seven plus five?")
# Enough to see that it works; the first run of a new model should not take an hour.
MAX_TOKENS, MAX_MODEL_LENGTH = 32, 2048
# The branch that a repository of a hub has; the lock pins the commit.
DEFAULT_REVISION = "main"

_CONFIG_BYTES = 1 << 20
_NOT_IN_NAMES = re.compile(r"[^A-Za-z0-9._-]+")
_LONGEST_NAME = 100


@dataclass(frozen=True)
class ChosenModel:
    """The model that a manifest is made for.

    Attributes:
        directory: Where its files are on this machine; None where they are not.
        repository: Its name on the Hugging Face Hub; None for a model that is only a directory.
        revision: The branch, tag or commit there.
        config: Its configuration as the hub has it; empty where that is not known.
        has_chat_template: Whether the hub says that it has one.
    """

    directory: Path | None
    repository: str | None = None
    revision: str | None = None
    config: Mapping[str, Any] = field(default_factory=dict)
    has_chat_template: bool = False

    @property
    def name(self) -> str:
        """What people call it."""
        if self.repository is not None:
            return self.repository
        assert self.directory is not None  # noqa: S101 - `choose_model` makes no other
        parts = self.directory.resolve().parts[-2:]
        return "-".join(parts) if parts[-1] == "model" else parts[-1]

    @property
    def manifest_name(self) -> str:
        """A name for its manifest."""
        last = self.name.rpartition("/")[2]
        return _NOT_IN_NAMES.sub("-", last).strip("-.")[:_LONGEST_NAME].lower() or "model"


def choose_model(
    directory: Path | None,
    repository: str | None = None,
    revision: str | None = None,
    *,
    working_directory: Path,
) -> ChosenModel:
    """Return the model that was named: a directory, or the quickstart model of the checkout one stands in.

    Raises:
        InvalidInputError: The directory is none of a model, or no model was named and there is none to take.
    """
    if directory is None and repository is None:
        directory = _quickstart_model(working_directory)
        if directory is None:
            raise InvalidInputError(
                "no model is named, and there is no quickstart model here",
                hint="name one: --model-dir DIR, or --model-id ORG/NAME",
            )
    if directory is not None and not (directory / "config.json").is_file():
        raise InvalidInputError(
            f"{directory} is not the directory of a model",
            cause="it has no config.json" if directory.is_dir() else "there is no such directory",
            hint="name a directory in Hugging Face's form: --model-dir DIR",
        )
    if repository is not None and directory is None:
        return ChosenModel(None, repository, revision or DEFAULT_REVISION)
    return ChosenModel(directory, repository, revision)


def initial_manifest(model: ChosenModel, output: Path, *, created_at: str) -> dict[str, Any]:
    """Return a manifest that asks a model two questions on the reference engine.

    Args:
        model: The model.
        output: Where the manifest goes; paths in it begin there.
        created_at: The time to state, as in RFC 3339.

    Raises:
        InvalidInputError: The model's config.json is not strict JSON.
    """
    config = model.config
    if model.directory is not None:
        config = _document(model.directory / "config.json")
    context = config.get("max_position_embeddings")
    length = min(context, MAX_MODEL_LENGTH) if type(context) is int and context > 0 else None
    return {
        "schema_version": 1,
        "kind": KIND,
        "metadata": {
            "name": model.manifest_name,
            "description": f"{model.name} on the reference engine",
            "created_at": created_at,
            "owners": [],
        },
        "determinism": {
            "strict_hardware": False,
            "compare": {"tokens": {"rule": "exact"}, "logits": {"rule": "exact"}},
        },
        "hardware": {"constraints": {}, "record": {}},
        "artifacts": {"store": {"type": "cas"}},
        "software_stack": {
            "python": {"version": "3.11", "packages": []},
            "compiled_extensions": [],
        },
        "cuda_stack": {"userspace": {}, "env": {}},
        "runtime": {
            "env": {"PYTHONHASHSEED": "0"},
            "locale": {"lang": "C.UTF-8", "tz": "UTC"},
            "network_policy": "online_allowed" if model.directory is None else "offline_required",
            "execution": {"backend": "reference"},
        },
        "vllm": {
            "mode": "offline",
            "engine_args": {
                "model": model.name,
                **({} if length is None else {"max_model_len": length}),
            },
        },
        "model": _model(model, output),
        "inference": {
            "requests": _requests(model, length),
            "batching": {"policy": "fixed", "max_num_seqs": len(QUESTIONS)},
        },
        "capture": {
            "tokens": True,
            "logits": {
                "enabled": True,
                "scope": "full",
                "dtype": "float32",
                "capture_prefill": False,
                "capture_decode": True,
            },
            "activations": {"enabled": False},
            "engine_trace": {"enabled": False},
        },
        "outputs": {"directory": "runs/${manifest_name}/${run_id}"},
    }


def encode(document: Mapping[str, Any]) -> bytes:
    """Return a manifest as a file that people go on to edit."""
    return (json.dumps(document, indent=2, ensure_ascii=False) + "\n").encode()


def _model(model: ChosenModel, output: Path) -> dict[str, Any]:
    """Return the block `model`; the files of a repository are listed where they are at hand, and found otherwise."""
    if model.repository is None or model.directory is None:
        files: dict[str, list[str]] = {block: [] for block in FOUND_FILES}
    else:
        names = sorted(entry.name for entry in model.directory.iterdir() if entry.is_file())
        files = {
            block: [name for name in names if any(fnmatchcase(name, shape) for shape in shapes)]
            for block, shapes in FOUND_FILES.items()
        }
    blocks: dict[str, Any] = {
        block: {"files": [{"path": name} for name in names]} for block, names in files.items()
    }
    blocks["weights"] = {"source": _source(model, output), **blocks["weights"]}
    directory = None if model.repository is None else model.directory
    if directory is not None and (directory / CHAT_TEMPLATE_FILE).is_file():
        blocks["chat_template"] = {"file": {"path": CHAT_TEMPLATE_FILE}}
    return blocks


def _source(model: ChosenModel, output: Path) -> dict[str, Any]:
    local = {} if model.directory is None else {"local_path": _path(model.directory, output)}
    if model.repository is None:
        return {"type": "local", **local}
    revision = {} if model.revision is None else {"revision": model.revision}
    return {"type": "huggingface", "repo": model.repository, **revision, **local}


def _path(directory: Path, output: Path) -> str:
    """Return the path to write: relative where the manifest and the model move together."""
    real, home = Path(os.path.realpath(directory)), Path(os.path.realpath(output)).parent
    return str(real.relative_to(home) if real != home and real.is_relative_to(home) else real)


def _requests(model: ChosenModel, length: int | None) -> list[dict[str, Any]]:
    most = MAX_TOKENS if length is None else max(1, min(MAX_TOKENS, length // 4))
    sampling = {"temperature": 0.0, "max_tokens": most}
    chat = model.has_chat_template
    if model.directory is not None:
        chat = _has_chat_template(model.directory)
    return [
        {
            "id": f"prompt-{index}",
            "kind": "chat" if chat else "completion",
            **({"messages": [{"role": "user", "content": text}]} if chat else {"prompt": text}),
            "sampling": sampling,
        }
        for index, text in enumerate(QUESTIONS)
    ]


def _has_chat_template(directory: Path) -> bool:
    if (directory / CHAT_TEMPLATE_FILE).is_file():
        return True
    path = directory / "tokenizer_config.json"
    return path.is_file() and bool(_document(path).get("chat_template"))


def _document(path: Path) -> dict[str, Any]:
    try:
        with path.open("rb") as stream:
            data = stream.read(_CONFIG_BYTES + 1)
    except OSError as error:
        raise InvalidInputError(f"{path} cannot be read", cause=error.strerror) from error
    if len(data) > _CONFIG_BYTES:
        raise InvalidInputError(f"{path} is larger than {_CONFIG_BYTES // 2**20} MiB")
    document = strict_json.decode(data, name=str(path))
    return document if isinstance(document, dict) else {}


def _quickstart_model(start: Path) -> Path | None:
    """Return the model that ships with dis, where `start` lies in a checkout."""
    for directory in (start, *start.parents):
        if (found := directory / QUICKSTART_MODEL / "config.json").is_file():
            return found.parent
    return None
