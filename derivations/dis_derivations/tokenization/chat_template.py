"""Rendering chat templates as Hugging Face does, but within bounds and without a clock.

What a template sees: `messages`, `add_generation_prompt` (true), `tools` and `documents` (none), the
special tokens, `raise_exception`, and `strftime_now` only where a date is pinned, since a prompt
that holds today's date is another prompt tomorrow.
"""

import re
from collections.abc import Callable, Mapping
from datetime import datetime
from typing import Any, Self, TypeVar

from jinja2 import Template, TemplateError, UndefinedError

from dis_derivations.tokenization.conversation import Conversation
from dis_derivations.tokenization.template_cost import Budget
from dis_derivations.tokenization.template_errors import (
    GIVE_ANOTHER,
    ChatTemplateError,
    RunawayTemplateError,
)
from dis_derivations.tokenization.template_guards import MAX_TEXT, too_large
from dis_derivations.tokenization.template_sandbox import TemplateSandbox
from dis_store.errors import DisError

__all__ = ["DATE_FIELD", "ChatTemplate", "ChatTemplateError", "RunawayTemplateError"]

DATE_FIELD = "inference.pinned_date"
"""The field of a manifest that pins the date which templates see."""

MAX_SOURCE = 1 << 20
"""The longest template, in characters."""

_T = TypeVar("_T")
# What depends on the date alone. Others, like %s, would ask for the time zone of the machine.
_DATE_DIRECTIVE = re.compile(r"%-?[aAbBdHIjmMpSUwWyYGuV]|%%")


class ChatTemplate:
    """A compiled template, ready to render any number of conversations."""

    def __init__(
        self, sandbox: TemplateSandbox, template: Template, variables: Mapping[str, Any]
    ) -> None:
        self._sandbox = sandbox
        self._template = template
        self._variables = variables

    @classmethod
    def compile(
        cls, source: str, *, special_tokens: Mapping[str, Any], pinned_date: str | None
    ) -> Self:
        """Compile a template.

        Args:
            source: The template, in Jinja.
            special_tokens: `bos_token`, `eos_token`, … by name.
            pinned_date: What `strftime_now` takes for now, `YYYY-MM-DD` or a full ISO 8601 time.

        Raises:
            ChatTemplateError: The template is malformed or too long, or the date is none.
        """
        if len(source) > MAX_SOURCE:
            raise too_large(f"it has {len(source)} characters itself; {MAX_SOURCE} are the most")
        variables = dict(special_tokens)
        if pinned_date is not None:
            variables["strftime_now"] = _clock(pinned_date)
        sandbox = TemplateSandbox()
        return cls(sandbox, _guarded(lambda: sandbox.compiled(source)), variables)

    def render(self, conversation: Conversation) -> str:
        """Return the prompt of a conversation, ending where the model is to answer.

        Raises:
            ChatTemplateError: The template fails, touches what it must not, does not accept the
                conversation, or asks for a date where none is pinned.
            RunawayTemplateError: It does, or makes, more than any prompt needs.
        """
        self._sandbox.budget = Budget()
        variables = {
            **self._variables,
            "messages": [message.as_json() for message in conversation],
            "tools": None,
            "documents": None,
            "add_generation_prompt": True,
        }
        return _guarded(lambda: self._joined(variables))

    def _joined(self, variables: dict[str, Any]) -> str:
        pieces: list[str] = []
        length = 0
        for piece in self._template.generate(variables):
            length += len(piece)
            if length > MAX_TEXT:
                raise too_large(f"its output has more than {MAX_TEXT} characters")
            pieces.append(piece)
        return "".join(pieces)


def _guarded(work: Callable[[], _T]) -> _T:
    try:
        return work()
    except DisError:
        raise
    except RecursionError as error:
        raise too_large("it is nested, or calls itself, too deeply") from error
    # Templates are programs: what they raise is as open as what Python raises.
    except Exception as error:
        raise _failure(error) from error


def _failure(error: Exception) -> ChatTemplateError:
    if isinstance(error, UndefinedError) and "'strftime_now'" in str(error):
        return ChatTemplateError(
            "the chat template asks for today's date, and the manifest pins none",
            cause="a prompt that holds the date of its run could never be made again",
            hint=f"pin a date: --set {DATE_FIELD}=YYYY-MM-DD",
        )
    line = getattr(error, "lineno", None) if isinstance(error, TemplateError) else None
    cause = f"{type(error).__name__}: {str(error)[:400]}"
    return ChatTemplateError(
        "the chat template cannot be rendered",
        cause=cause if line is None else f"line {line}: {cause}",
        hint=f"correct the template, or {GIVE_ANOTHER}",
    )


def _clock(pinned_date: str) -> Callable[[str], str]:
    try:
        now = datetime.fromisoformat(pinned_date)
    except ValueError as error:
        raise ChatTemplateError(
            f"{DATE_FIELD} is not a date: {pinned_date!r}", hint="write it as YYYY-MM-DD"
        ) from error

    def strftime_now(format_: str) -> str:
        if "%" in _DATE_DIRECTIVE.sub("", format_):
            raise ChatTemplateError(
                f"the chat template asks for the date as {format_!r}",
                cause="it may use %a %A %b %B %d %H %I %j %m %M %p %S %U %w %W %y %Y %G %u %V only",
                hint=GIVE_ANOTHER,
            )
        return now.strftime(format_)

    return strftime_now
