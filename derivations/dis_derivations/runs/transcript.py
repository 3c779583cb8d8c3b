"""A run as what was asked and what was answered, in text."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from dis_derivations.runs.bundle import TOKENS_DOCUMENT
from dis_store import strict_json

if TYPE_CHECKING:
    from dis_derivations.runs.bundle_documents import Bundle
    from dis_derivations.runs.bundle_reader import ObjectFiles

REQUESTS_DOCUMENT = "requests.json"


@dataclass(frozen=True)
class Turn:
    """One message of a conversation."""

    role: str
    content: str


@dataclass(frozen=True)
class Exchange:
    """One request and its answer.

    Attributes:
        conversation: The messages that were sent; empty for a plain prompt.
        prompt: The text that was tokenised, a conversation as its chat template wrote it; None where nobody kept it.
        answer: The decoded output.
        prompt_tokens: How many token ids the engine was given.
        output_tokens: How many it chose.
    """

    id: str
    conversation: tuple[Turn, ...]
    prompt: str | None
    answer: str
    prompt_tokens: int
    output_tokens: int


def transcript(bundle: "Bundle", store: "ObjectFiles | None" = None) -> list[Exchange]:
    """Return the exchanges of a run in the order of its requests.

    Args:
        bundle: The run.
        store: Where the run's requests may be; the text of prompts is there and not in the bundle.

    Raises:
        DisError: The bundle's documents are malformed (`Bundle.reader.refusal` says of which class).
    """
    conversations, prompts = _conversations(bundle), _prompts(bundle, store)
    return [
        Exchange(
            id=sequence.id,
            conversation=conversations.get(sequence.index, ()),
            prompt=prompts.get(sequence.id),
            answer=sequence.text,
            prompt_tokens=len(sequence.prompt_token_ids),
            output_tokens=len(sequence.output_token_ids),
        )
        for sequence in bundle.sequences
    ]


def _conversations(bundle: "Bundle") -> dict[int, tuple[Turn, ...]]:
    """Return the conversations by the index of their request."""
    document = strict_json.decode(bundle.reader.read_bytes(TOKENS_DOCUMENT), name=TOKENS_DOCUMENT)
    try:
        return {
            index: tuple(Turn(str(turn["role"]), str(turn["content"])) for turn in conversation)
            for index, conversation in enumerate(document["conversations"] or ())
            if conversation
        }
    except (KeyError, TypeError) as error:
        raise bundle.reader.refusal(
            f"{TOKENS_DOCUMENT} is malformed", "/conversations must hold lists of messages"
        ) from error


def _prompts(bundle: "Bundle", store: "ObjectFiles | None") -> dict[str, str]:
    """Return the prompts by the ids of their requests."""
    digest = bundle.document.requests_digest
    if store is not None and store.is_valid(digest):
        document = strict_json.decode(
            store.read_bytes(digest, REQUESTS_DOCUMENT), name=REQUESTS_DOCUMENT
        )
        return _texts(document.get("requests") if isinstance(document, Mapping) else None)
    inference = bundle.manifest.get("inference")
    return _texts(inference.get("requests") if isinstance(inference, Mapping) else None)


def _texts(requests: Any) -> dict[str, str]:
    listed = requests if isinstance(requests, list) else []
    entries = [entry for entry in listed if isinstance(entry, Mapping)]
    return {
        str(entry.get("id")): entry["prompt"]
        for entry in entries
        if isinstance(entry.get("prompt"), str)
    }
