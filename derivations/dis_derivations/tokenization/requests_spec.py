"""What a manifest asks of an engine: its requests, checked, with every default filled in.

Defaults: `temperature` 0.0 (greedy), `top_p` 1.0, `top_k` -1, `seed` null, no stops. As in vLLM, a
`top_k` of -1 or 0 is no limit, and null means the same here; all three are written as -1, so that
they make the same document. `max_tokens` has no default, since it decides what a run costs.
Requests without an id, and all those made from a dataset, are called by `id_prefix` (`request-`)
and their index, from 0, in at least five digits: `request-00000`.
"""

import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from dis_derivations.engines.protocol import Sampling, Stop
from dis_derivations.tokenization.conversation import Conversation, conversation_of, known_fields
from dis_derivations.tokenization.dataset import read_prompts
from dis_store.errors import InvalidInputError

DEFAULT_ID_PREFIX = "request-"
KINDS = ("completion", "chat")
NO_TOP_K = -1

_REQUEST = ("id", "kind", "prompt", "messages", "prompt_token_ids", "sampling", "stop")
_PROMPTS = ("prompt", "messages", "prompt_token_ids")
_TEMPLATE = ("kind", "sampling", "stop", "id_prefix")
_SAMPLING = ("temperature", "top_p", "top_k", "max_tokens", "seed")
_STOP = ("sequences", "token_ids")


@dataclass(frozen=True)
class AskedRequest:
    """A request before tokenisation. Exactly one of the three prompts is not None."""

    id: str
    kind: str
    text: str | None
    conversation: Conversation | None
    token_ids: tuple[int, ...] | None
    sampling: Sampling
    stop: Stop


def asked_requests(
    spec: Mapping[str, Any], *, dataset: bytes | None, dataset_format: str | None
) -> list[AskedRequest]:
    """Return the requests of a spec: `{"requests": […]}`, or `{"n_prompts", "request_template"}`.

    Raises:
        InvalidInputError: The spec or the dataset is malformed, two requests have the same id, or
            the dataset is missing or too short.
    """
    known_fields(spec, ("requests", "n_prompts", "request_template"), where="inference")
    if ("requests" in spec) == ("n_prompts" in spec):
        raise InvalidInputError("inference must have either 'requests' or 'n_prompts'")
    if "requests" in spec:
        requests = _explicit(spec["requests"])
    else:
        requests = _from_dataset(spec, dataset, dataset_format or "conversations")
    _check_ids(requests)
    return requests


def _explicit(values: Any) -> list[AskedRequest]:
    if not isinstance(values, list) or not values:
        raise InvalidInputError("inference.requests must be a list of at least one request")
    return [_request(value, index) for index, value in enumerate(values)]


def _request(value: Any, index: int) -> AskedRequest:
    where = f"inference.requests[{index}]"
    known_fields(value, _REQUEST, where=where)
    given = [name for name in _PROMPTS if value.get(name) is not None]
    if len(given) != 1:
        raise InvalidInputError(
            f"{where} must have exactly one of {', '.join(_PROMPTS)}",
            cause=f"it has {', '.join(given) or 'none'}",
        )
    kind, text, messages = _kind(value, where), value.get("prompt"), value.get("messages")
    if text is not None and (not isinstance(text, str) or not text):
        raise InvalidInputError(f"{where} must have a prompt that is a text and not empty")
    if text is not None and kind == "chat":
        raise InvalidInputError(f"{where} is of kind 'chat', which has messages and no prompt")
    return AskedRequest(
        id=_id(value.get("id", f"{DEFAULT_ID_PREFIX}{index:05d}"), where),
        kind=kind,
        text=text,
        conversation=None if messages is None else conversation_of(messages, where=where),
        token_ids=None if "prompt_token_ids" not in given else _given_ids(value, where),
        sampling=sampling_of(value.get("sampling"), where=where),
        stop=stop_of(value.get("stop", {}), where=where),
    )


def _from_dataset(
    spec: Mapping[str, Any], dataset: bytes | None, dataset_format: str
) -> list[AskedRequest]:
    where = "inference.request_template"
    template = known_fields(spec.get("request_template"), _TEMPLATE, where=where)
    count = spec["n_prompts"]
    if type(count) is not int or count < 1:
        raise InvalidInputError("inference.n_prompts must be an integer of at least 1")
    if dataset is None:
        raise InvalidInputError(
            f"{count} prompts are asked for, and the manifest names no dataset",
            hint="name one: --set inference.dataset.source=FILE",
        )
    kind, prefix = _kind(template, where), template.get("id_prefix") or DEFAULT_ID_PREFIX
    sampling = sampling_of(template.get("sampling"), where=where)
    stop = stop_of(template.get("stop", {}), where=where)
    return [
        AskedRequest(
            f"{_id(prefix, where)}{index:05d}",
            kind,
            prompt.text,
            prompt.conversation,
            None,
            sampling,
            stop,
        )
        for index, prompt in enumerate(
            read_prompts(dataset, dataset_format=dataset_format, count=count)
        )
    ]


def sampling_of(value: Any, *, where: str) -> Sampling:
    """Read a `sampling` block with its defaults; `where` names what it belongs to.

    Raises:
        InvalidInputError: A field is unknown, missing or out of its range.
    """
    where = f"the sampling of {where}"
    known_fields(value, _SAMPLING, where=where)
    temperature, top_p = value.get("temperature", 0.0), value.get("top_p", 1.0)
    top_k, seed = value.get("top_k"), value.get("seed")
    # From 2^53 on, canonical JSON writes a double as an integer that strict JSON does not read.
    if not _is_number(temperature) or not 0 <= temperature < 2**53:
        raise InvalidInputError(f"{where} must have a temperature of at least 0 and below 2^53")
    if not _is_number(top_p) or not 0 < top_p <= 1:
        raise InvalidInputError(f"{where} must have a top_p above 0 and at most 1")
    if top_k is not None and (type(top_k) is not int or top_k < NO_TOP_K):
        raise InvalidInputError(f"{where} must have a top_k of at least 1, or -1 for no limit")
    if type(value.get("max_tokens")) is not int or value["max_tokens"] < 1:
        raise InvalidInputError(f"{where} must have max_tokens of at least 1")
    if seed is not None and type(seed) is not int:
        raise InvalidInputError(f"{where} must have a seed that is an integer or null")
    return Sampling(float(temperature), float(top_p), top_k or NO_TOP_K, value["max_tokens"], seed)


def stop_of(value: Any, *, where: str) -> Stop:
    """Read a `stop` block; `where` names what it belongs to.

    Raises:
        InvalidInputError: A field is unknown, a stop string is empty, or a stop id is negative.
    """
    where = f"the stop of {where}"
    known_fields(value, _STOP, where=where)
    sequences = value.get("sequences", [])
    if not isinstance(sequences, list) or not all(
        isinstance(item, str) and item for item in sequences
    ):
        raise InvalidInputError(f"{where} must have sequences that are texts and not empty")
    return Stop(tuple(sequences), token_ids_of(value.get("token_ids", []), where=where))


def token_ids_of(value: Any, *, where: str) -> tuple[int, ...]:
    """Read a list of token ids.

    Raises:
        InvalidInputError: It is no list of integers of at least 0.
    """
    if not isinstance(value, list) or not all(type(item) is int and item >= 0 for item in value):
        raise InvalidInputError(f"{where} must have token ids that are integers of at least 0")
    return tuple(value)


def _given_ids(value: Mapping[str, Any], where: str) -> tuple[int, ...]:
    ids = token_ids_of(value["prompt_token_ids"], where=where)
    if not ids:
        raise InvalidInputError(f"{where} must have at least one token id in its prompt")
    return ids


def _kind(value: Mapping[str, Any], where: str) -> str:
    kind = value.get("kind")
    if not isinstance(kind, str) or kind not in KINDS:
        raise InvalidInputError(f"{where} must have a kind: {' or '.join(KINDS)}")
    return kind


def _id(value: Any, where: str) -> str:
    if not isinstance(value, str) or not value:
        raise InvalidInputError(f"{where} must have an id that is a text and not empty")
    return value


def _is_number(value: Any) -> bool:
    return type(value) in {int, float} and math.isfinite(value)


def _check_ids(requests: list[AskedRequest]) -> None:
    seen: set[str] = set()
    for request in requests:
        if request.id in seen:
            raise InvalidInputError(
                f"two requests have the id {request.id!r}", hint="give each its own id"
            )
        seen.add(request.id)
