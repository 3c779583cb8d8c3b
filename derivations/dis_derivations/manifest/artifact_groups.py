"""The artifacts of a manifest: groups of files with one name, one source and one object.

The weights' source holds for tokenizer, config and chat template too, unless they name their own.
`local_path` is the directory that a source's relative file paths are found in, whatever the type of
the source; for the dataset it is the file itself.
"""

from collections.abc import Collection, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from dis_derivations.artifacts.gguf_types import GGUF_SUFFIX
from dis_derivations.manifest.text_forms import declared_sha256, is_unset
from dis_store.digest import Sha256

if TYPE_CHECKING:
    from dis_derivations.manifest.loading import LoadedManifest
    from dis_derivations.manifest.model_block import FileEntry, FileSource

WEIGHTS = "model.weight"
TOKENIZER = "model.tokenizer"
CONFIG = "model.config"
CHAT_TEMPLATE = "model.chat_template"
DATASET = "inference.prompt_dataset"
IMAGE = "runtime.image"

# A dataset's name in its object says nothing about where it was found, so that moving it changes no
# id.
DATASET_NAMES = {"conversations": "dataset.json", "jsonl": "dataset.jsonl", "text": "dataset.txt"}

CHAT_TEMPLATE_FILE = "chat_template.jinja"
# What is looked for in a local directory where the manifest lists no files, by block of the manifest.
FOUND_FILES: Mapping[str, tuple[str, ...]] = {
    "weights": ("*.safetensors", "model.safetensors.index.json"),
    "tokenizer": (
        "tokenizer.json",
        "tokenizer_config.json",
        "special_tokens_map.json",
        "added_tokens.json",
        "tokenizer.model",
        "spiece.model",
        "vocab.json",
        "vocab.txt",
        "merges.txt",
    ),
    "config": ("config.json", "generation_config.json"),
}


@dataclass(frozen=True)
class DeclaredFile:
    """A file that a manifest names.

    Attributes:
        path: Its path in the group's object.
        sha256: Its declared digest; None where none is declared.
        unset: Whether the digest is written as `sha256:unset`.
        field: The JSON Pointer of the field that holds the digest, or would.
    """

    path: str
    sha256: Sha256 | None
    unset: bool
    field: str


@dataclass(frozen=True)
class DeclaredSource:
    """A source as a manifest names it.

    Attributes:
        local_path: As written.
        location: `local_path` made absolute; None where there is none.
        field: The JSON Pointer of the source.
        path: Of a file or a directory in it, where it has more.
        request: The digest of what was asked for together, where it was resolved from more than itself.
    """

    type: str
    repository: str | None
    revision: str | None
    url: str | None
    mirrors: tuple[str, ...]
    local_path: str | None
    location: Path | None
    field: str
    path: str | None = None
    request: str | None = None


@dataclass(frozen=True)
class ArtifactGroup:
    """One artifact.

    Attributes:
        name: Its name in the lock.
        label: Its name as a target of the graph.
        files: The files that the manifest names; empty where they are to be found.
        found: Patterns of the files that are looked for in a local source when `files` is empty.
        needed: The pattern among `found` that must match something; None where nothing need be
            there.
        pinned_by_source: Whether the source names the same bytes for ever.
    """

    name: str
    label: str
    source: DeclaredSource
    files: tuple[DeclaredFile, ...]
    found: tuple[str, ...] = ()
    needed: str | None = None
    pinned_by_source: bool = False

    @property
    def is_pinned(self) -> bool:
        """Whether every file has its digest, so that where it comes from cannot matter."""
        if self.pinned_by_source:
            return True
        return bool(self.files) and all(file.sha256 is not None for file in self.files)


def is_gguf(paths: Collection[str]) -> bool:
    """Tell whether weights are one GGUF file, from the paths of their files; it brings the rest of the model along."""
    return len(paths) == 1 and all(path.lower().endswith(GGUF_SUFFIX) for path in paths)


def artifact_groups(loaded: "LoadedManifest") -> list[ArtifactGroup]:
    """Return the artifacts whose files dis can pin, in the order of the graph."""
    model = loaded.manifest.model
    weights = _source(loaded, "/model/weights/source", model.weights.source)

    def own(block: str, source: "FileSource | None") -> DeclaredSource:
        return weights if source is None else _source(loaded, f"/model/{block}/source", source)

    template = model.chat_template
    converted = is_gguf([entry.path for entry in model.weights.files])

    def looked_for(source: "FileSource | None", *names: str) -> tuple[str, ...]:
        # What lies beside a GGUF file is not the model in it; it is taken where the manifest names it.
        return () if converted and source is None else names

    groups = [
        ArtifactGroup(
            name=WEIGHTS,
            label="weights",
            source=weights,
            files=_files("/model/weights/files", model.weights.files),
            found=FOUND_FILES["weights"],
            needed="*.safetensors",
        ),
        ArtifactGroup(
            name=TOKENIZER,
            label="tokenizer",
            source=own("tokenizer", model.tokenizer.source),
            files=_files("/model/tokenizer/files", model.tokenizer.files),
            found=looked_for(model.tokenizer.source, *FOUND_FILES["tokenizer"]),
            needed=None if converted else "*",
        ),
        ArtifactGroup(
            name=CONFIG,
            label="config",
            source=own("config", model.config.source),
            files=_files("/model/config/files", model.config.files),
            found=looked_for(model.config.source, *FOUND_FILES["config"]),
            needed=None if converted else "config.json",
        ),
        ArtifactGroup(
            name=CHAT_TEMPLATE,
            label="chat_template",
            source=own("chat_template", template.source),
            files=_files_of_template(template.file),
            found=looked_for(template.source, CHAT_TEMPLATE_FILE),
        ),
    ]
    others = (_dataset(loaded), _image(loaded))
    return [*groups, *(group for group in others if group is not None)]


def _image(loaded: "LoadedManifest") -> ArtifactGroup | None:
    execution = loaded.manifest.runtime.execution
    if execution.vllm_image is None:
        return None
    from dis_derivations.images.image_reference import image_reference

    reference = image_reference(execution.vllm_image)
    path = execution.vllm_image_path
    field = "/runtime/execution/vllm_image"
    source = DeclaredSource(
        type="image",
        repository=f"{reference.host}/{reference.repository}",
        revision=reference.target,
        url=None,
        mirrors=(),
        local_path=path,
        location=None if path is None else loaded.locate(f"{field}_path", path),
        field=field,
    )
    return ArtifactGroup(
        name=IMAGE,
        label="image",
        source=source,
        files=(),
        found=("*",),
        needed="index.json",
        pinned_by_source=reference.digest is not None,
    )


def _dataset(loaded: "LoadedManifest") -> ArtifactGroup | None:
    dataset = loaded.manifest.inference.dataset
    if dataset is None:
        return None
    written = loaded.document["inference"]["dataset"]["source"]
    pointer = "/inference/dataset/source"
    path_field = pointer if isinstance(written, str) else f"{pointer}/local_path"
    file = DeclaredFile(
        path=DATASET_NAMES[dataset.format],
        sha256=dataset.sha256,
        unset=is_unset(dataset.digest),
        field="/inference/dataset/digest",
    )
    source = _source(loaded, pointer, dataset.source, path_field=path_field)
    return ArtifactGroup(name=DATASET, label="dataset", source=source, files=(file,))


def _source(
    loaded: "LoadedManifest", pointer: str, source: "FileSource", *, path_field: str | None = None
) -> DeclaredSource:
    path = source.local_path
    located = path_field or f"{pointer}/local_path"
    return DeclaredSource(
        type=source.type,
        repository=source.repository,
        revision=source.revision,
        url=source.url,
        mirrors=tuple(source.mirrors),
        local_path=path,
        location=None if path is None else loaded.locate(located, path),
        field=pointer,
        path=source.path,
    )


def _files_of_template(entry: "FileEntry | None") -> tuple[DeclaredFile, ...]:
    return () if entry is None else (_file("/model/chat_template/file", entry),)


def _files(pointer: str, entries: "tuple[FileEntry, ...]") -> tuple[DeclaredFile, ...]:
    return tuple(_file(f"{pointer}/{index}", entry) for index, entry in enumerate(entries))


def _file(pointer: str, entry: "FileEntry") -> DeclaredFile:
    return DeclaredFile(
        path=entry.path,
        sha256=declared_sha256(entry.digest),
        unset=is_unset(entry.digest),
        field=f"{pointer}/digest",
    )
