"""Reading prompt datasets: the first prompts of a file, in file order.

Formats:
    conversations: One strict JSON document, `{"conversations": [[{"role", "content"}, …], …]}`.
    jsonl: One strict JSON object a line, with either `prompt` or `messages`.
    text: One prompt a line; lines of white space alone are skipped, no other space is touched.
"""

import re
from collections.abc import Iterator
from dataclasses import dataclass
from itertools import islice

from dis_derivations.tokenization.conversation import Conversation, conversation_of, known_fields
from dis_store import strict_json
from dis_store.errors import InvalidInputError


@dataclass(frozen=True)
class DatasetPrompt:
    """One prompt of a dataset: a text or a conversation, the other is None."""

    text: str | None = None
    conversation: Conversation | None = None


def read_prompts(data: bytes, *, dataset_format: str, count: int) -> list[DatasetPrompt]:
    """Return the first `count` prompts of a dataset; what comes after them is not judged.

    Raises:
        InvalidInputError: The format is unknown, the data is not in it (the message names the line
            or the index), or there are fewer prompts than asked for.
    """
    if dataset_format not in _READERS:
        raise InvalidInputError(
            f"the dataset format {dataset_format!r} is unknown",
            hint=f"inference.dataset.format is one of: {', '.join(_READERS)}",
        )
    prompts = list(islice(_READERS[dataset_format](data), count))
    if len(prompts) < count:
        raise InvalidInputError(
            f"the dataset has {len(prompts)} prompts, and {count} are asked for",
            hint=f"ask for fewer: --set inference.n_prompts={len(prompts)}" if prompts else None,
        )
    return prompts


def _conversations(data: bytes) -> Iterator[DatasetPrompt]:
    document = known_fields(
        strict_json.decode(data, name="the dataset"), ("conversations",), where="the dataset"
    )
    conversations = document.get("conversations")
    if not isinstance(conversations, list):
        raise InvalidInputError("the dataset must have a list of conversations")
    for index, value in enumerate(conversations):
        where = f"conversation {index} of the dataset"
        yield DatasetPrompt(conversation=conversation_of(value, where=where))


def _jsonl(data: bytes) -> Iterator[DatasetPrompt]:
    for number, line in enumerate(data.split(b"\n"), start=1):
        if line.strip():
            yield _json_line(line, f"line {number} of the dataset")


def _json_line(line: bytes, where: str) -> DatasetPrompt:
    document = strict_json.decode(line, name=where, error=_line_error)
    value = known_fields(document, ("prompt", "messages"), where=where)
    if ("prompt" in value) == ("messages" in value):
        raise InvalidInputError(f"{where} must have either 'prompt' or 'messages'")
    if "messages" in value:
        return DatasetPrompt(conversation=conversation_of(value["messages"], where=where))
    if not isinstance(value["prompt"], str) or not value["prompt"]:
        raise InvalidInputError(f"{where} must have a prompt that is a text and not empty")
    return DatasetPrompt(text=value["prompt"])


def _line_error(what: str, *, cause: str, hint: str | None) -> InvalidInputError:
    # Lines are counted in the dataset, and not in the one line that was decoded.
    return InvalidInputError(what, cause=re.sub(r"^line 1[,:] ", "", cause), hint=hint)


def _text(data: bytes) -> Iterator[DatasetPrompt]:
    if data.startswith(b"\xef\xbb\xbf"):
        raise InvalidInputError(
            "the dataset begins with a byte order mark", hint="save it as UTF-8 without one"
        )
    for number, line in enumerate(data.split(b"\n"), start=1):
        try:
            text = line.removesuffix(b"\r").decode("utf-8")
        except UnicodeDecodeError as error:
            raise InvalidInputError(
                f"line {number} of the dataset is not UTF-8",
                cause=f"its byte {error.start} is {line[error.start]:#04x}",
                hint="save the file as UTF-8",
            ) from error
        if text.strip():
            yield DatasetPrompt(text=text)


_READERS = {"conversations": _conversations, "jsonl": _jsonl, "text": _text}
