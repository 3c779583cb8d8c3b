"""A small tokenizer: one token a word, `<s>` before a prompt, and a chat template beside it."""

import json

from tokenizers import Tokenizer
from tokenizers.models import WordLevel
from tokenizers.pre_tokenizers import WhitespaceSplit
from tokenizers.processors import TemplateProcessing

WORDS = ("<unk>", "<s>", "</s>", "<|user|>", "<|assistant|>", "hello", "world", "again", "system")
TEMPLATE = (
    "{{ bos_token }}{% for message in messages %} <|{{ message.role }}|> {{ message['content'] }}"
    "{% endfor %}{% if add_generation_prompt %} <|assistant|>{% endif %}"
)


def token_ids(text: str) -> list[int]:
    """Return what the tokenizer makes of words, without special tokens around them."""
    return [WORDS.index(word) if word in WORDS else 0 for word in text.split()]


def tokenizer_bytes() -> bytes:
    """Return its `tokenizer.json`."""
    vocabulary = {word: index for index, word in enumerate(WORDS)}
    tokenizer = Tokenizer(WordLevel(vocabulary, unk_token=WORDS[0]))
    tokenizer.pre_tokenizer = WhitespaceSplit()
    tokenizer.add_special_tokens(["<unk>", "<s>", "</s>", "<|user|>", "<|assistant|>"])
    tokenizer.post_processor = TemplateProcessing(single="<s> $A", special_tokens=[("<s>", 1)])
    tokenizer.enable_truncation(3)
    tokenizer.enable_padding(length=8)
    return tokenizer.to_str().encode()


def tokenizer_files(template: object = TEMPLATE) -> dict[str, bytes]:
    """Return its files by name."""
    config = {"bos_token": {"content": "<s>"}, "eos_token": "</s>", "chat_template": template}
    return {
        "tokenizer.json": tokenizer_bytes(),
        "tokenizer_config.json": json.dumps(config).encode(),
    }
