"""The block `model`: which files a model is made of, where they are, and their digests."""

from typing import Annotated, Any, Literal, Self

from pydantic import AfterValidator, model_validator

from dis_derivations.manifest.block import Block, Items
from dis_derivations.manifest.scalars import Address, DigestText, FilePath, NonEmpty
from dis_derivations.manifest.text_forms import declared_sha256
from dis_store.digest import Sha256

SourceType = Literal["huggingface", "local", "url", "pypi", "oci", "store"]
_NEEDED = {
    "huggingface": ("repo", "id"),
    "local": ("local_path",),
    "url": ("url",),
    "pypi": ("id", "repo"),
    "oci": ("repo", "id"),
    "store": ("id",),
}


class FileSource(Block):
    """Where files come from.

    Attributes:
        repo: The name of the repository; `id` is the same under an older name.
        revision: A commit of the repository.
        path: Of a dataset, the file in the source. Of a model's `store` source, the directory in the object.
        local_path: A directory that holds the files; for a `local` source, the source itself; for a `store` source, the
            store.
        url: Where the files are: of a directory, ending with `/`, or of one file.
        mirrors: Other places with the same bytes.
    """

    type: SourceType
    repo: NonEmpty | None = None
    id: NonEmpty | None = None
    revision: NonEmpty | None = None
    url: Address | None = None
    path: FilePath | None = None
    local_path: NonEmpty | None = None
    mirrors: Items[Address] = ()

    @property
    def repository(self) -> str | None:
        """`repo`, or `id` under its older name."""
        return self.repo or self.id

    @model_validator(mode="after")
    def _names_something(self) -> Self:
        needed = _NEEDED[self.type]
        if not any(getattr(self, name) for name in needed):
            raise ValueError(
                f"must have {' or '.join(map(repr, needed))} for the source type {self.type!r}"
            )
        if self.repo and self.id and self.repo != self.id:
            raise ValueError("has both 'repo' and 'id', which are one thing, and they differ")
        return self


def _has_no_file(source: FileSource) -> FileSource:
    if source.path is not None and source.type != "store":
        raise ValueError(
            f"has 'path', which a dataset's source has, and of a model one of type 'store', not {source.type!r}"
        )
    return source


# Of a model's files, which are listed beside it.
ModelSource = Annotated[FileSource, AfterValidator(_has_no_file)]


class WeightsSource(FileSource):
    """Where the weights come from, with the pin of the code that a model may bring along."""

    remote_code_commit: NonEmpty | None = None
    remote_code_digest: DigestText | None = None


class FileEntry(Block):
    """One file: its path below the source, and its declared digest."""

    path: FilePath
    digest: DigestText | None = None

    @property
    def sha256(self) -> Sha256 | None:
        """The declared digest; None where it is absent or unset."""
        return declared_sha256(self.digest)


class Weights(Block):
    """The weights. Without `files`, the lock takes every safetensors file of a local source."""

    source: Annotated[WeightsSource, AfterValidator(_has_no_file)]
    files: Items[FileEntry] = ()


class FileGroup(Block):
    """Files that come from `source`, or from the source of the weights where that is absent."""

    source: ModelSource | None = None
    files: Items[FileEntry] = ()


class ChatTemplate(Block):
    """The chat template. Without `file`, a local source's `chat_template.jinja`, if it is there."""

    source: ModelSource | None = None
    file: FileEntry | None = None


class Model(Block):
    """The whole block; docs/reference/manifest.md describes its fields."""

    weights: Weights
    tokenizer: FileGroup = FileGroup()
    config: FileGroup = FileGroup()
    chat_template: ChatTemplate = ChatTemplate()
    adapters: Any = None
