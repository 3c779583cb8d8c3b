"""What a hub tells of a model before any of its weights are fetched."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from dis_derivations.manifest.artifact_groups import CHAT_TEMPLATE_FILE
from dis_derivations.sources.hub_repository import Repositories
from dis_derivations.sources.hugging_face import HuggingFaceSource
from dis_store import strict_json
from dis_store.errors import DisError, InvalidInputError

_CONFIG, _TOKENIZER_CONFIG = "config.json", "tokenizer_config.json"


@dataclass(frozen=True)
class PublishedModel:
    """A model on a hub.

    Attributes:
        config: Its configuration; nothing where it has none.
        has_chat_template: Whether it says how conversations are written.
    """

    config: Mapping[str, Any]
    has_chat_template: bool


def published_model(repository: str, revision: str) -> PublishedModel | None:
    """Return what a hub tells of a model; None where it does not tell, or what it tells makes no sense."""
    try:
        source = HuggingFaceSource(Repositories().open(repository, revision), is_weights=False)
        if source.available() is not None:
            return None
        names = source.listing()
        has_template = CHAT_TEMPLATE_FILE in names or bool(
            published_document(source, _TOKENIZER_CONFIG).get("chat_template")
        )
        return PublishedModel(published_document(source, _CONFIG), has_template)
    except DisError:
        return None


def published_document(source: HuggingFaceSource, path: str) -> Mapping[str, Any]:
    """Return a JSON object of a repository; nothing where it has no such file.

    Raises:
        DisError: It cannot be had, or is no JSON object.
    """
    if source.available() is not None or path not in source.listing():
        return {}
    document = strict_json.decode(source.read_small(path), name=path)
    if not isinstance(document, dict):
        raise InvalidInputError(f"{path} is not a JSON object")
    return document
