"""How much room text takes on a terminal, in columns."""

import unicodedata


def character_width(character: str) -> int:
    """Return the columns of one character: 0 for a mark on the one before it, 2 for a wide one, else 1."""
    if character.isascii():
        return 1
    if unicodedata.category(character) in {"Mn", "Me"}:
        return 0
    return 2 if unicodedata.east_asian_width(character) in {"W", "F"} else 1


def display_width(text: str) -> int:
    """Return the columns of a text without control characters."""
    return len(text) if text.isascii() else sum(map(character_width, text))


def rows_taken(text: str, columns: int) -> int:
    """Return the rows of a terminal that a line takes when it is wrapped."""
    rows, column = 1, 0
    for character in text:
        width = character_width(character)
        if column + width > columns:
            rows, column = rows + 1, 0
        column += width
    return rows


def settled(text: str) -> str:
    """Return a text without characters whose width terminals do not agree on: joiners, variants, soft hyphens."""
    if text.isascii():
        return text
    return "".join(
        character
        for character in text
        if unicodedata.category(character) != "Cf" and not "\ufe00" <= character <= "\ufe0f"
    )


def cut(text: str, width: int, ellipsis_: str = "…") -> str:
    """Return as much of the text as `width` columns hold, marked where it was cut."""
    if display_width(text) <= width:
        return text
    room = width - display_width(ellipsis_)
    if room < 0:
        return ""
    kept: list[str] = []
    for character in text:
        room -= character_width(character)
        if room < 0:
            break
        kept.append(character)
    return "".join(kept) + ellipsis_
