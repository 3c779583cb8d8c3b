"""Showing token ids as text."""

from collections.abc import Callable
from functools import lru_cache
from typing import TYPE_CHECKING

from dis_derivations.runs.bundle_documents import Bundle
from dis_derivations.runs.bundle_reader import ObjectFiles

if TYPE_CHECKING:
    from tokenizers import Tokenizer

TOKENIZER_FILE = "tokenizer.json"
_REPLACEMENT = "\ufffd"

TokenText = Callable[[int], str | None]


def token_text(bundle: Bundle, store: ObjectFiles | None) -> TokenText:
    """Return what shows a token id of a bundle as text, or as None where that is not known.

    The tokenizer is an object of the store that the bundle names; without it ids are all there is. It is loaded when
    the first token is asked for.
    """

    @lru_cache(maxsize=1)
    def tokenizer() -> "Tokenizer | None":
        return _load(bundle, store)

    def text(token: int) -> str | None:
        loaded = tokenizer()
        return None if loaded is None else _text(loaded, token)

    return text


def _load(bundle: Bundle, store: ObjectFiles | None) -> "Tokenizer | None":
    digest = bundle.document.inputs.get("tokenizer")
    if store is None or digest is None or not store.is_valid(digest):
        return None
    from tokenizers import Tokenizer

    try:
        return Tokenizer.from_str(store.read_bytes(digest, TOKENIZER_FILE).decode())
    except (KeyboardInterrupt, SystemExit):
        raise
    # Its panics arrive as a BaseException that has no public name. A report without texts is still a report.
    except BaseException:  # noqa: BLE001
        return None


def _text(tokenizer: "Tokenizer", token: int) -> str | None:
    """Return a token's text; its raw name where it is a part of a character."""
    name: str | None = tokenizer.id_to_token(token)
    if name is None:
        return None
    text: str = tokenizer.decode([token], skip_special_tokens=False)
    return name if _REPLACEMENT in text or not text else text
