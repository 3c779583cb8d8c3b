"""When a sequence ends, and what text it leaves."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

from dis_derivations.artifacts.regular_file import read_whole
from dis_derivations.engines.protocol import Request
from dis_store.errors import IntegrityError, InvalidInputError

Decode = Callable[[Sequence[int]], str]
"""Turns token ids into text, without special tokens."""

_INCOMPLETE = "\ufffd"


def open_decoder(tokenizer_file: Path) -> Decode:
    """Return the decoding of a tokenizer.json.

    Raises:
        InvalidInputError: The file is no tokenizer that the tokenizers library reads.
        IntegrityError: The disk does not give what is in it.
    """
    from tokenizers import Tokenizer

    try:
        tokenizer = Tokenizer.from_buffer(read_whole(tokenizer_file))
    except IntegrityError:
        raise
    except Exception as error:  # the library raises plain Exception for malformed files
        raise InvalidInputError("tokenizer.json cannot be read", cause=str(error)) from error

    def decode(ids: Sequence[int]) -> str:
        text: str = tokenizer.decode(list(ids), skip_special_tokens=True)
        return text

    return decode


@dataclass(frozen=True)
class Finish:
    """How a sequence ended.

    Attributes:
        text: The decoded output. A token that ended it leaves no text; a stop string cuts the text
            at its beginning.
    """

    finish_reason: Literal["stop", "length"]
    stop_reason: int | str | None
    text: str


class StopRule:
    """What ends the sequence of one request."""

    def __init__(
        self, request: Request, end_token_ids: frozenset[int], context: int, decode: Decode
    ) -> None:
        """Join the request's own settings with the model's end tokens and longest context."""
        self._end_token_ids = end_token_ids
        self._stop_token_ids = frozenset(request.stop.token_ids)
        self._strings = request.stop.sequences
        self._most = min(request.sampling.max_tokens, context - len(request.prompt_token_ids))
        self._decode = decode

    def finish(self, output: Sequence[int]) -> Finish | None:
        """Return how the sequence ends with its newest token, or None when it goes on.

        The model's own end of sequence comes first, then stop tokens, stop strings, the length.
        """
        last = output[-1]
        if last in self._end_token_ids:
            return Finish("stop", None, self._decode(output[:-1]))
        if last in self._stop_token_ids:
            return Finish("stop", last, self._decode(output[:-1]))
        if self._strings:
            text = self._decode(output)
            found = find_stop_string(text, self._strings)
            if found is not None:
                return Finish("stop", found[1], text[: found[0]])
        if len(output) >= self._most:
            return Finish("length", None, self._decode(output))
        return None


def find_stop_string(text: str, strings: Sequence[str]) -> tuple[int, str] | None:
    """Return where the first stop string begins and which it is; of two in one place, the first.

    A character whose bytes are not complete yet decodes to U+FFFD at the end; it is not looked at,
    for the next token may make another character of it.
    """
    settled = text.rstrip(_INCOMPLETE)
    places = [(settled.find(string), order) for order, string in enumerate(strings) if string]
    found = [place for place in places if place[0] >= 0]
    if not found:
        return None
    at, order = min(found)
    return at, strings[order]
