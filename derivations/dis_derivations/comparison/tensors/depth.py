"""Where in a model a tensor is computed, told from its name.

Captures are named as engines name the places of a model: `prefill.layer.003`, `decode.model.layers.10.mlp.down_proj`.
What is computed first comes first: the embeddings, the layers by number, the last norm, the head. Within a layer the
parts follow each other as they do in decoders: norm, attention, norm, MLP, and what leaves the layer.
"""

import re

PHASES = ("prefill", "decode")
Depth = tuple[int, int, int, int, tuple[tuple[int, int, str], ...]]

_WORD = re.compile(r"[0-9]+|[a-z]+", re.ASCII)
_LAYER = re.compile(r"(?:layers?|blocks?|h)[._/-]?([0-9]+)", re.ASCII)
_BEFORE, _LAYERS, _AFTER, _LAST_NORM, _HEAD = range(5)
# The first pattern that a name has says what it is of; those outside layers, then those within one.
_OUTSIDE = (
    (re.compile(r"embed|wte|wpe|tokens?_emb"), _BEFORE),
    (re.compile(r"head|logits"), _HEAD),
    (re.compile(r"norm|ln_f"), _LAST_NORM),
)
_WITHIN = tuple(
    re.compile(pattern)
    for pattern in (
        r"input_?(layer)?norm|ln_1|attn_norm|attention_norm|pre_?attn",
        r"\bq(_proj|_norm)?\b|query|qkv|c_attn",
        r"\bk(_proj|_norm)?\b|key",
        r"\bv(_proj)?\b|value",
        r"rot(ary|emb)|rope",
        r"\bo(_proj|ut_proj)?\b|attn\.c_proj",
        r"post_?attention_?(layer)?norm|ln_2|ffn_norm|mlp_norm|pre_?feedforward",
        r"attn|attention",
        r"router|gate(_proj)?\b",
        r"up(_proj)?\b|c_fc",
        r"act(_fn)?\b",
        r"down(_proj)?\b|mlp\.c_proj",
        r"mlp|ffn|feed_?forward|experts?",
        r"norm",
    )
)
_PLACES = {
    6: 7,
    7: 6,
}  # A norm after the attention is named for it, and so is looked for before it.


def depth(name: str) -> Depth:
    """Return what sorts names in the order in which a model computes what they name.

    Names of one place sort by their words, numbers as numbers.
    """
    phase, _, rest = name.partition(".")
    if phase not in PHASES:
        phase, rest = "", name
    order = PHASES.index(phase) if phase else len(PHASES)
    text = rest.lower()
    words = tuple(
        (0, int(word), "") if word.isdigit() else (1, 0, word) for word in _WORD.findall(text)
    )
    found = _LAYER.search(text)
    if found is not None:
        within = text[found.end() :]
        return order, _LAYERS, int(found[1]), _within(within), words
    stage = next((place for pattern, place in _OUTSIDE if pattern.search(text)), _AFTER)
    return order, stage, 0, 0, words


def _within(text: str) -> int:
    for place, pattern in enumerate(_WITHIN):
        if pattern.search(text):
            return _PLACES.get(place, place)
    return len(_WITHIN)
