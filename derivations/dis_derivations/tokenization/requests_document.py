"""The document `requests.json`: everything an engine is asked, as token ids."""

from collections.abc import Mapping
from dataclasses import asdict
from typing import Any

from dis_derivations.engines.protocol import Request
from dis_derivations.tokenization.conversation import known_fields
from dis_derivations.tokenization.prompts import Prompt, PromptEncoder
from dis_derivations.tokenization.requests_spec import (
    AskedRequest,
    asked_requests,
    sampling_of,
    stop_of,
    token_ids_of,
)
from dis_store import canonical_json, strict_json
from dis_store.errors import InvalidInputError

FORMAT = 1

_REQUEST = ("id", "prompt_token_ids", "prompt", "conversation", "sampling", "stop")


def build_requests(
    spec: Mapping[str, Any],
    *,
    dataset: bytes | None,
    dataset_format: str | None,
    tokenizer_files: Mapping[str, bytes],
    chat_template: bytes | None,
    pinned_date: str | None,
) -> bytes:
    """Return the canonical `requests.json` of what a manifest asks; a pure function of its arguments.

    Args:
        spec: `{"requests": […]}` or `{"n_prompts": N, "request_template": {…}}`, with the fields of
            the manifest's `inference` block.
        dataset: The prompt dataset; needed with `n_prompts`.
        dataset_format: `conversations` (also when None), `jsonl` or `text`.
        tokenizer_files: The tokenizer's files by name: `tokenizer.json`, `tokenizer_config.json`, ….
        chat_template: The template that the manifest names.
        pinned_date: What templates take for today, `YYYY-MM-DD`.

    Raises:
        InvalidInputError: Any of it is malformed or missing, or a prompt is empty.
    """
    asked = asked_requests(spec, dataset=dataset, dataset_format=dataset_format)
    encoder = PromptEncoder.load(
        tokenizer_files, chat_template=chat_template, pinned_date=pinned_date
    )
    requests = [_as_json(request, encoder.encode(request)) for request in asked]
    return canonical_json.encode({"format": FORMAT, "requests": requests})


def _as_json(request: AskedRequest, prompt: Prompt) -> dict[str, Any]:
    conversation = prompt.conversation
    return {
        "id": request.id,
        "prompt_token_ids": list(prompt.token_ids),
        "prompt": prompt.text,
        "conversation": conversation and [message.as_json() for message in conversation],
        "sampling": asdict(request.sampling),
        "stop": {
            "sequences": list(request.stop.sequences),
            "token_ids": list(request.stop.token_ids),
        },
    }


def parse_requests(data: bytes) -> list[Request]:
    """Return the requests of a `requests.json`, in its order.

    Raises:
        InvalidInputError: It is malformed, or of a format that this version does not know.
    """
    name = "requests.json"
    document = known_fields(strict_json.decode(data, name=name), ("format", "requests"), where=name)
    if document.get("format") != FORMAT:
        raise InvalidInputError(
            f"{name} has the format {document.get('format')!r}", cause=f"only {FORMAT} is known"
        )
    values = document.get("requests")
    if not isinstance(values, list):
        raise InvalidInputError(f"{name} must have a list of requests")
    return [_parsed(value, f"request {index} of {name}") for index, value in enumerate(values)]


def _parsed(value: Any, where: str) -> Request:
    known_fields(value, _REQUEST, where=where)
    if not isinstance(value.get("id"), str):
        raise InvalidInputError(f"{where} must have an id")
    return Request(
        id=value["id"],
        prompt_token_ids=token_ids_of(value.get("prompt_token_ids"), where=where),
        sampling=sampling_of(value.get("sampling"), where=where),
        stop=stop_of(value.get("stop"), where=where),
    )
