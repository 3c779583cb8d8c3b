"""Train the byte-level BPE tokenizer of the quickstart model, which turns documents into ids."""

from collections.abc import Iterable, Mapping
from typing import Any

from tokenizers import Tokenizer, decoders, models, pre_tokenizers, processors, trainers

END, SYSTEM, USER, ASSISTANT = "<|end|>", "<|system|>", "<|user|>", "<|assistant|>"
SPECIAL_TOKENS = (END, SYSTEM, USER, ASSISTANT)
CHAT_TEMPLATE = (
    "{%- for message in messages -%}"
    "{%- if message['role'] not in ('system', 'user', 'assistant') -%}"
    "{{- raise_exception('unknown role: ' + message['role']) -}}"
    "{%- endif -%}"
    "{{- '<|' + message['role'] + '|>' + message['content'] + '<|end|>' -}}"
    "{%- endfor -%}"
    "{%- if add_generation_prompt -%}{{- '<|assistant|>' -}}{%- endif -%}"
)


def render(document: Mapping[str, Any]) -> str:
    """Return a document as the text the model sees, which ends with the end token."""
    if "text" in document:
        return f"{document['text']}{END}"
    return "".join(f"<|{m['role']}|>{m['content']}{END}" for m in document["conversation"])


def train_tokenizer(texts: Iterable[str], size: int) -> Tokenizer:
    """Return a tokenizer with every byte, the special tokens first and ``size`` entries in all."""
    tokenizer = Tokenizer(models.BPE())
    tokenizer.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    tokenizer.decoder = decoders.ByteLevel()
    tokenizer.post_processor = processors.ByteLevel(trim_offsets=False)
    trainer = trainers.BpeTrainer(
        vocab_size=size,
        special_tokens=list(SPECIAL_TOKENS),
        initial_alphabet=sorted(pre_tokenizers.ByteLevel.alphabet()),
        show_progress=False,
    )
    tokenizer.train_from_iterator(texts, trainer)
    return tokenizer
