"""What the files of a tokenizer say: the tokenizer itself, its special tokens, its chat template."""

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from dis_store import strict_json
from dis_store.errors import InvalidInputError

if TYPE_CHECKING:
    from tokenizers import Tokenizer

TOKENIZER = "tokenizer.json"
TOKENIZER_CONFIG = "tokenizer_config.json"
SPECIAL_TOKENS_MAP = "special_tokens_map.json"
CHAT_TEMPLATE = "chat_template.jinja"

_SPECIAL_TOKENS = (
    "bos_token",
    "eos_token",
    "unk_token",
    "sep_token",
    "pad_token",
    "cls_token",
    "mask_token",
)
_MORE_SPECIAL_TOKENS = "additional_special_tokens"
_HOW_TO_GIVE_ONE = (
    "name a template file in the manifest: model.chat_template.file, "
    "or use requests of kind 'completion'"
)


def load_tokenizer(files: Mapping[str, bytes]) -> "Tokenizer":
    """Return the tokenizer in `tokenizer.json`, without the truncation and padding it may bring.

    Raises:
        InvalidInputError: There is none, or the tokenizers library cannot load it.
    """
    from tokenizers import Tokenizer

    if TOKENIZER not in files:
        raise InvalidInputError(
            f"the tokenizer has no {TOKENIZER}",
            cause=f"its files are: {', '.join(sorted(files)) or 'none'}",
            hint=f"add {TOKENIZER} to model.tokenizer.files",
        )
    try:
        tokenizer = Tokenizer.from_str(files[TOKENIZER].decode("utf-8"))
    except (KeyboardInterrupt, SystemExit):
        raise
    # The library is Rust: its panics arrive as a BaseException that has no public name.
    except BaseException as error:
        raise InvalidInputError(
            f"{TOKENIZER} does not load",
            cause=str(error)[:400],
            hint="get the file again; if it is right, it may need a newer tokenizers library",
        ) from error
    # Both are for training batches; a prompt that lost tokens or gained some is another prompt.
    tokenizer.no_truncation()
    tokenizer.no_padding()
    return tokenizer


def special_tokens(files: Mapping[str, bytes]) -> dict[str, Any]:
    """Return the special tokens by the names that chat templates use: `bos_token`, `eos_token`, ….

    Those of `tokenizer_config.json` come before those of `special_tokens_map.json`.

    Raises:
        InvalidInputError: One of these files is not a strict JSON object.
    """
    found: dict[str, Any] = {}
    for name in (SPECIAL_TOKENS_MAP, TOKENIZER_CONFIG):
        document = _document(files, name)
        for token in _SPECIAL_TOKENS:
            if text := _token_text(document.get(token)):
                found[token] = text
        more = document.get(_MORE_SPECIAL_TOKENS)
        if isinstance(more, list):
            found[_MORE_SPECIAL_TOKENS] = [text for item in more if (text := _token_text(item))]
    return found


def template_source(files: Mapping[str, bytes], chat_template: bytes | None) -> str:
    """Return the chat template to use.

    In this order: `chat_template` (the manifest's), `chat_template.jinja` among the tokenizer's
    files, and the `chat_template` of `tokenizer_config.json`: a text, or the one named `default` of
    several.

    Raises:
        InvalidInputError: There is none, or it is not text.
    """
    for given in (chat_template, files.get(CHAT_TEMPLATE)):
        if given is not None:
            return _decoded(given)
    template = _document(files, TOKENIZER_CONFIG).get("chat_template")
    if isinstance(template, list):
        template = _default_template(template)
    if isinstance(template, str):
        return template
    raise InvalidInputError(
        "there is no chat template for requests of kind 'chat'",
        cause=f"neither the manifest nor {TOKENIZER_CONFIG} has one",
        hint=_HOW_TO_GIVE_ONE,
    )


def _default_template(templates: list[Any]) -> str:
    named = {
        name: item.get("template")
        for item in templates
        if isinstance(item, dict) and isinstance(name := item.get("name"), str)
    }
    default = named.get("default")
    if isinstance(default, str):
        return default
    raise InvalidInputError(
        f"{TOKENIZER_CONFIG} has several chat templates, and none is named 'default'",
        cause=f"their names are: {', '.join(named) or 'none'}",
        hint=_HOW_TO_GIVE_ONE,
    )


def _decoded(data: bytes) -> str:
    try:
        return data.decode("utf-8")
    except UnicodeDecodeError as error:
        raise InvalidInputError(
            "the chat template is not UTF-8", cause=str(error), hint="save the file as UTF-8"
        ) from error


def _token_text(value: Any) -> str | None:
    # Either the token itself, or an object that says how to split around it.
    if isinstance(value, dict):
        value = value.get("content")
    return value if isinstance(value, str) and value else None


def _document(files: Mapping[str, bytes], name: str) -> dict[str, Any]:
    if name not in files:
        return {}
    document = strict_json.decode(files[name], name=name)
    if not isinstance(document, dict):
        raise InvalidInputError(f"{name} is not a JSON object")
    return document
