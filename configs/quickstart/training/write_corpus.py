"""Write the quickstart model's training text: JSON lines that depend on the seed alone."""

import argparse
import json
import random
import sys
import tomllib
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from corpus import numbers
from corpus.grammar import Grammar, Row

CONTENT = Path(__file__).parent / "content"
SYSTEM_SHARE, SECOND_SHARE = 0.06, 0.15
ONE_SENTENCE = ("Answer in one sentence.", "Use one sentence.", "Be brief.")
ANY_LENGTH = ("You are a helpful guide.", "Answer kindly and clearly.", "You help people.")

Message = dict[str, str]
Rule = Mapping[str, Any]


class Corpus:
    """The content files as one grammar and the rules that use it.

    Attributes:
        grammar: The tables and phrases of every file, and the computed tables.
        exchanges: Rules for conversations, each with its weight.
        passages: Rules for text without turns, each with its weight.
    """

    def __init__(self, folder: Path) -> None:
        files = [tomllib.loads(path.read_text("utf-8")) for path in sorted(folder.glob("*.toml"))]
        tables: dict[str, Sequence[Row]] = {}
        phrases: dict[str, Sequence[str]] = {}
        self.exchanges: list[Rule] = []
        self.passages: list[Rule] = []
        for file in files:
            tables.update(file.get("tables", {}))
            phrases.update(file.get("phrases", {}))
            self.exchanges += file.get("exchanges", [])
            self.passages += file.get("passages", [])
        tables.update(sums=numbers.sums(), neighbours=numbers.neighbours(), counts=numbers.counts())
        tables.update(comparison=numbers.comparisons(tables["animal"]))
        self.grammar = Grammar(tables, phrases)

    def turns(self, rng: random.Random) -> list[Message]:
        """Return the messages of one exchange, a question and its answer or several."""
        rule = pick(self.exchanges, rng)
        texts: list[str] = rule["turns"]
        bound = self.grammar.bind([*texts, rule.get("needs", "")], rng)
        return [
            {
                "role": "assistant" if place % 2 else "user",
                "content": self.grammar.expand(text, bound, rng),
            }
            for place, text in enumerate(texts)
        ]

    def conversation(self, rng: random.Random) -> list[Message]:
        """Return a whole conversation, now and then with a system message or a second exchange."""
        messages = self.turns(rng)
        if rng.random() < SECOND_SHARE:
            messages += self.turns(rng)
        if rng.random() >= SYSTEM_SHARE:
            return messages
        if rng.random() < 0.5:
            return [{"role": "system", "content": rng.choice(ANY_LENGTH)}, *messages]
        brief = [shorten(message) for message in messages]
        return [{"role": "system", "content": rng.choice(ONE_SENTENCE)}, *brief]

    def passage(self, rng: random.Random) -> str:
        """Return one story or description."""
        rule = pick(self.passages, rng)
        lines: list[str] = rule["lines"]
        bound = self.grammar.bind([*lines, rule.get("needs", "")], rng)
        kept = [line for line in lines if not line.startswith("?") or rng.random() < 0.5]
        return self.grammar.expand(" ".join(line.removeprefix("?") for line in kept), bound, rng)


def pick(rules: Sequence[Rule], rng: random.Random) -> Rule:
    """Return a rule, drawn by weight."""
    return rng.choices(rules, [rule.get("weight", 1) for rule in rules])[0]


def shorten(message: Message) -> Message:
    """Return an answer's first sentence; questions stay whole."""
    if message["role"] == "user":
        return message
    first, mark, _ = message["content"].partition(". ")
    return {"role": "assistant", "content": first + mark.strip()}


def documents(count: int, seed: int, story_share: float = 0.45) -> Iterator[dict[str, Any]]:
    """Yield documents: ``{"text": …}`` or ``{"conversation": [{"role", "content"}, …]}``."""
    corpus, rng = Corpus(CONTENT), random.Random(seed)
    for _ in range(count):
        if rng.random() < story_share:
            yield {"text": corpus.passage(rng)}
        else:
            yield {"conversation": corpus.conversation(rng)}


def main() -> None:
    """Write the documents to standard output."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--documents", type=int, default=100_000)
    parser.add_argument("--seed", type=int, default=1)
    arguments = parser.parse_args()
    for document in documents(arguments.documents, arguments.seed):
        line = json.dumps(document, ensure_ascii=False, separators=(",", ":")) + "\n"
        sys.stdout.buffer.write(line.encode())


if __name__ == "__main__":
    main()
