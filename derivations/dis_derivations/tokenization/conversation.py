"""A conversation: what a chat request says before the model answers."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from dis_store.errors import InvalidInputError


@dataclass(frozen=True)
class Message:
    """One turn. `role` is whatever the chat template understands."""

    role: str
    content: str

    def as_json(self) -> dict[str, str]:
        """Return the turn as templates and documents see it."""
        return {"role": self.role, "content": self.content}


Conversation = tuple[Message, ...]


def conversation_of(value: Any, *, where: str) -> Conversation:
    """Read a JSON list of messages; `where` says in messages which one it is.

    Raises:
        InvalidInputError: It is not a list of at least one `{"role": …, "content": …}`.
    """
    if not isinstance(value, list) or not value:
        raise InvalidInputError(f"{where} must be a list of at least one message")
    return tuple(_message(item, f"message {index} of {where}") for index, item in enumerate(value))


def _message(value: Any, where: str) -> Message:
    known_fields(value, ("role", "content"), where=where)
    role, content = value.get("role"), value.get("content")
    if not isinstance(role, str) or not role:
        raise InvalidInputError(f"{where} must have a role that is not empty")
    if not isinstance(content, str):
        raise InvalidInputError(
            f"{where} must have its content as text",
            cause="images, tool calls and lists of parts are not available in this version",
        )
    return Message(role, content)


def known_fields(value: Any, known: Sequence[str], *, where: str) -> Mapping[str, Any]:
    """Return `value` if it is a JSON object of `known` fields; fields that begin with `x_` are notes.

    Raises:
        InvalidInputError: It is no object, or has another field.
    """
    if not isinstance(value, dict):
        raise InvalidInputError(f"{where} must be an object with {', '.join(known)}")
    for key in value:
        if key not in known and not key.startswith("x_"):
            raise InvalidInputError(
                f"{where} has the unknown field {key!r}", hint=f"known are: {', '.join(known)}"
            )
    return value
