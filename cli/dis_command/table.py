"""Rows of text as columns."""

from collections.abc import Sequence

from dis_command.terminal import one_line


def aligned(rows: Sequence[Sequence[str]]) -> str:
    """Return the rows with their columns aligned, two spaces apart, nothing behind the last."""
    cells = [[one_line(cell) for cell in row] for row in rows]
    widths = (
        [max(len(row[column]) for row in cells) for column in range(len(cells[0]))] if cells else []
    )
    return "\n".join(
        "  ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True)).rstrip()
        for row in cells
    )
