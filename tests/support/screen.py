"""A terminal of the tests: what a person would see after some bytes were written to it."""

import re
import unicodedata
from dataclasses import dataclass, field

_TOKEN = re.compile(r"\x1b\[(\?)?([0-9;]*)([A-Za-z])|[\s\S]")
_BLANK = ""


@dataclass
class _Row:
    """A row of cells; a wide character is followed by an empty cell. `continued`: the next row belongs to it."""

    cells: list[str] = field(default_factory=list)
    continued: bool = False

    def text(self) -> str:
        return "".join(self.cells)


class Screen:
    """Understands what dis writes: text, newlines, carriage returns, cursor up, erasing, colours.

    Anything else fails. The rows that scrolled away are kept as well.
    """

    def __init__(self, columns: int, rows: int) -> None:
        self.columns = columns
        self.rows = rows
        self._rows = [_Row()]
        self._row = 0
        self._column = 0

    def feed(self, text: str) -> None:
        """Take what was written; a newline also returns, as a terminal's driver makes it."""
        for token in _TOKEN.finditer(text):
            if token[3]:
                assert token[1] is None, f"a private mode: {token[0]!r}"
                self._control(token[2], token[3])
            else:
                self._character(token[0])

    def resize(self, columns: int, rows: int) -> None:
        """Change the size; lines are wrapped anew, as most terminals do."""
        assert self._column == 0
        above = self._row
        logical: list[list[str]] = []
        position = 0
        joined = False
        for number, row in enumerate(self._rows):
            if number == above:
                position = len(logical)
            if joined:
                logical[-1] += row.cells
            else:
                logical.append(list(row.cells))
            joined = row.continued
        self.columns, self.rows = columns, rows
        self._rows = []
        for number, cells in enumerate(logical):
            if number == position:
                self._row = len(self._rows)
            self._rows += self._wrapped(cells)

    def lines(self) -> list[str]:
        """Return every line, without the blanks at its end; without the empty ones at the end."""
        lines = [row.text().rstrip() for row in self._rows]
        while lines and not lines[-1]:
            lines.pop()
        return lines

    @property
    def cursor(self) -> tuple[int, int]:
        """Row, counted from the first line there was, and column."""
        return self._row, self._column

    def _wrapped(self, cells: list[str]) -> list[_Row]:
        rows = [_Row()]
        for number, cell in enumerate(cells):
            wide = number + 1 < len(cells) and cells[number + 1] == _BLANK
            if len(rows[-1].cells) + 1 + wide > self.columns and cell != _BLANK:
                rows[-1].continued = True
                rows.append(_Row())
            rows[-1].cells.append(cell)
        return rows

    def _top(self) -> int:
        return max(0, len(self._rows) - self.rows)

    def _control(self, parameters: str, final: str) -> None:
        match final:
            case "A":
                self._row = max(self._top(), self._row - int(parameters or 1))
            case "K":
                assert not parameters
                self._erase_row()
            case "J":
                assert not parameters
                self._erase_row()
                del self._rows[self._row + 1 :]
            case "m":
                pass
            case _:
                raise AssertionError(final)

    def _erase_row(self) -> None:
        # There, terminals differ in whether the last character goes as well.
        assert self._column < self.columns, "erased behind the last column"
        row = self._rows[self._row]
        del row.cells[self._column :]
        row.continued = False

    def _character(self, character: str) -> None:
        if character == "\r":
            self._column = 0
        elif character == "\n":
            self._rows[self._row].continued = False
            self._down()
        else:
            assert unicodedata.category(character) != "Cc", repr(character)
            self._put(character)

    def _down(self) -> None:
        self._row += 1
        self._column = 0
        if self._row == len(self._rows):
            self._rows.append(_Row())

    def _put(self, character: str) -> None:
        width = _width(character)
        if self._column + width > self.columns:
            self._rows[self._row].continued = True
            self._down()
        cells = self._rows[self._row].cells
        cells += [" "] * (self._column - len(cells))
        if width == 0:
            place = self._column - 1
            if place >= 0:
                cells[place] += character
            return
        cells[self._column : self._column + width] = [character, *[_BLANK] * (width - 1)]
        self._column += width


def _width(character: str) -> int:
    if unicodedata.category(character) in {"Mn", "Me"}:
        return 0
    return 2 if unicodedata.east_asian_width(character) in {"W", "F"} else 1
