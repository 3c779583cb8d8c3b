"""Prompts become token ids: what a request says, as the model will read it.

- A completion is encoded as the tokenizer does it with special tokens added. A conversation in a
  completion is the contents of its messages, joined by a line feed.
- A chat is rendered by the chat template, up to where the model is to answer, and encoded without
  special tokens, since the template writes them. A single text in a chat is one message of the user.
- Token ids are taken as they are.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING

from dis_derivations.tokenization.conversation import Conversation, Message
from dis_derivations.tokenization.requests_spec import AskedRequest
from dis_derivations.tokenization.tokenizer_files import (
    load_tokenizer,
    special_tokens,
    template_source,
)
from dis_store.errors import InvalidInputError

if TYPE_CHECKING:
    from tokenizers import Tokenizer

    from dis_derivations.tokenization.chat_template import ChatTemplate


@dataclass(frozen=True)
class Prompt:
    """What came of a request: its token ids, and the text and the conversation they were made from.

    `text` of a chat is the rendered template. Both are None for a request given as token ids.
    """

    token_ids: tuple[int, ...]
    text: str | None
    conversation: Conversation | None


@dataclass(frozen=True)
class PromptEncoder:
    """A tokenizer with all that belongs to it.

    Attributes:
        tokenizer: Encodes text.
        vocabulary_size: One above the highest token id.
        files: The tokenizer's files by name, for the template and the special tokens.
        chat_template: The manifest's own template.
        pinned_date: What templates take for today.
    """

    tokenizer: "Tokenizer"
    vocabulary_size: int
    files: Mapping[str, bytes]
    chat_template: bytes | None
    pinned_date: str | None

    @classmethod
    def load(
        cls, files: Mapping[str, bytes], *, chat_template: bytes | None, pinned_date: str | None
    ) -> "PromptEncoder":
        """Load the tokenizer.

        Raises:
            InvalidInputError: It cannot be loaded.
        """
        tokenizer = load_tokenizer(files)
        ids: dict[str, int] = tokenizer.get_vocab(with_added_tokens=True)
        size = max(ids.values(), default=-1) + 1
        return cls(tokenizer, size, files, chat_template, pinned_date)

    def encode(self, request: AskedRequest) -> Prompt:
        """Return the prompt of a request.

        Raises:
            InvalidInputError: It has no tokens, or ids that the vocabulary does not have, or the
                chat template cannot be used or writes something that is no text.
        """
        if request.token_ids is not None:
            return Prompt(self._known(request.token_ids, request.id), None, None)
        if request.kind == "chat":
            return self._chat(request)
        text = request.text
        if text is None:
            text = "\n".join(message.content for message in request.conversation or ())
        return Prompt(self._ids(text, request.id, special=True), text, request.conversation)

    def _chat(self, request: AskedRequest) -> Prompt:
        conversation = request.conversation or (Message("user", request.text or ""),)
        text = self._template.render(conversation)
        return Prompt(self._ids(text, request.id, special=False), text, conversation)

    @cached_property
    def _template(self) -> "ChatTemplate":
        # Only chats need a template, and jinja2.
        from dis_derivations.tokenization.chat_template import ChatTemplate

        return ChatTemplate.compile(
            template_source(self.files, self.chat_template),
            special_tokens=special_tokens(self.files),
            pinned_date=self.pinned_date,
        )

    def _ids(self, text: str, request: str, *, special: bool) -> tuple[int, ...]:
        if not text:
            raise InvalidInputError(f"the prompt of request {request} is empty")
        try:
            text.encode("utf-8")
        except UnicodeEncodeError as error:
            # Strict JSON lets none in, but a chat template can write one.
            raise InvalidInputError(
                f"the prompt of request {request} is no text",
                cause="it holds half of a surrogate pair, which is no character",
                hint="correct the chat template, or give another as model.chat_template.file",
            ) from error
        ids = tuple(self.tokenizer.encode(text, add_special_tokens=special).ids)
        if not ids:
            raise InvalidInputError(
                f"the prompt of request {request} has no tokens",
                cause=f"the tokenizer makes none of its {len(text)} characters",
            )
        return ids

    def _known(self, ids: tuple[int, ...], request: str) -> tuple[int, ...]:
        for token in ids:
            if token >= self.vocabulary_size:
                raise InvalidInputError(
                    f"the prompt of request {request} has the token id {token}",
                    cause=f"the tokenizer's ids go up to {self.vocabulary_size - 1}",
                )
        return ids
