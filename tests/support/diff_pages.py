"""Runs to make pages of, and what a browser would find in a page."""

from html.parser import HTMLParser

import numpy as np

from bundles import Answer, Run, Tensor

HOSTILE = "</script><script>alert(1)</script><img src=x onerror=alert(2)>\"'&\x1b[31m\u202e\u2028"
ROWS = np.zeros((4, 5), np.float32)


def moved(row: int, amount: float) -> dict[str, Tensor]:
    rows = ROWS.copy()
    rows[row, 1] += amount
    return {"00000.decode": Tensor(rows)}


LEFT = Run(
    answers=(Answer("first", (1, 1, 1, 1), text="the cat"),), logits={"00000.decode": Tensor(ROWS)}
)
RIGHT = LEFT.having(
    answers=(Answer("first", (1, 1, 1, 2), text="the dog"),), logits=moved(2, 0.5)
).with_input("weights", "other")


class Page(HTMLParser):
    """What a browser would find in a page."""

    def __init__(self, source: str) -> None:
        super().__init__()
        self.tags: list[tuple[str, dict[str, str | None]]] = []
        self.open: list[str] = []
        self.texts: list[str] = []
        self.data = ""
        self.feed(source)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append((tag, dict(attrs)))
        if tag not in {"meta", "link"}:
            self.open.append(tag)

    def handle_endtag(self, tag: str) -> None:
        assert self.open.pop() == tag

    def handle_data(self, data: str) -> None:
        if self.open[-1:] == ["script"] and not self.data:
            self.data = data
        self.texts.append(data)

    def attributes(self, name: str) -> list[str]:
        return [
            value or ""
            for _, attributes in self.tags
            for key, value in attributes.items()
            if key == name
        ]


def hostile() -> tuple[Run, Run]:
    one = Run(
        name=HOSTILE,
        answers=(Answer(HOSTILE, (1,), text=f"A{HOSTILE}"),),
        logits={"00000.decode": Tensor([[0.0, 1.0]])},
        artifacts=(("model.weight", HOSTILE, "weights"),),
    ).with_manifest(metadata={"name": HOSTILE, HOSTILE: HOSTILE})
    two = one.having(
        answers=(Answer(HOSTILE, (0,), text=f"B{HOSTILE}"),),
        artifacts=(("model.weight", HOSTILE, "other"),),
        sources={HOSTILE: {"commit": HOSTILE}},
    ).with_input("weights", "other")
    return one, two
