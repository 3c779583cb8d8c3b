"""A small random grammar: tables of facts, named phrases, templates.

A template is plain text with three marks. ``[one|two]`` picks one of its alternatives, ``<phrase>``
picks one of the named phrases, ``{table.column}`` takes a cell. A table's row is drawn once for
each document, so everything a document says about one thing agrees; ``{table2.column}`` is a
second, different row. ``{a table.column}`` puts the right article in front.
"""

import dataclasses
import random
import re
from collections.abc import Mapping, Sequence

Row = Mapping[str, str]

SLOT = re.compile(r"\{(a )?([a-z_]+)(2?)\.([a-z_]+)\}")
MARK = re.compile(r"\[([^\[\]<>{}]*)\]|<([a-z_]+)>|\{(a )?([a-z_]+2?)\.([a-z_]+)\}")
PHRASE = re.compile(r"<([a-z_]+)>")
SENTENCE_START = re.compile(r'(^|[.!?] "?|\n|, ")([a-z])')


@dataclasses.dataclass(frozen=True)
class Grammar:
    """What templates draw on.

    Attributes:
        tables: Rows of facts by the table's name.
        phrases: Alternatives by the phrase's name.
    """

    tables: Mapping[str, Sequence[Row]]
    phrases: Mapping[str, Sequence[str]]

    def columns(self, templates: Sequence[str]) -> dict[str, set[str]]:
        """Return the columns that the templates may ask of each table, phrases included."""
        wanted: dict[str, set[str]] = {}
        for template in templates:
            for _, table, _, column in SLOT.findall(template):
                wanted.setdefault(table, set()).add(column)
            for name in PHRASE.findall(template):
                for table, columns in self.columns(self.phrases[name]).items():
                    wanted.setdefault(table, set()).update(columns)
        return wanted

    def rows(self, table: str, columns: set[str]) -> list[Row]:
        """Return the rows of a table that have every column asked for, at least two.

        Raises:
            ValueError: Fewer than two rows have them.
        """
        found = [row for row in self.tables[table] if columns <= row.keys()]
        if len(found) < 2:
            raise ValueError(f"table {table} has {len(found)} rows with {sorted(columns)}")
        return found

    def bind(self, templates: Sequence[str], rng: random.Random) -> dict[str, Row]:
        """Draw two different rows of every table that the templates name."""
        bound: dict[str, Row] = {}
        for table, columns in sorted(self.columns(templates).items()):
            bound[table], bound[table + "2"] = rng.sample(self.rows(table, columns), 2)
        return bound

    def expand(self, template: str, bound: Mapping[str, Row], rng: random.Random) -> str:
        """Return a template's text with every mark replaced, innermost first."""

        def replace(match: re.Match[str]) -> str:
            alternatives, phrase, article, table, column = match.groups()
            if alternatives is not None:
                return rng.choice(str(alternatives).split("|"))
            if phrase is not None:
                return rng.choice(self.phrases[phrase])
            cell = bound[table][column]
            return with_article(cell) if article else cell

        text, changed = template, 1
        while changed:
            text, changed = MARK.subn(replace, text)
        return finish(text)


def with_article(noun: str) -> str:
    """Return a noun behind "a" or "an"."""
    return f"{'an' if noun[0] in 'aeiou' else 'a'} {noun}"


def finish(text: str) -> str:
    """Return text with single spaces, its sentences begun with capitals."""
    spaced = re.sub(r" +", " ", text).strip()
    return SENTENCE_START.sub(lambda match: f"{match[1]}{match[2].upper()}", spaced)
