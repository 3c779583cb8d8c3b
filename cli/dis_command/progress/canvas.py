"""The last lines of a terminal, painted over again and again, and the lines that scroll away above them."""

from collections.abc import Sequence

from dis_command.progress.display_width import rows_taken
from dis_command.progress.frame import Line


class Canvas:
    """Makes what must be written to a terminal to change its picture.

    Between two pictures the cursor stands at the beginning of the line below the frame. It is never hidden, so that no
    end of the process, however sudden, leaves a terminal without one.
    """

    def __init__(self) -> None:
        self._lines: Sequence[Line] = ()

    @property
    def drawn(self) -> bool:
        """Whether there is a frame on the terminal."""
        return bool(self._lines)

    def paint(self, above: Sequence[str], lines: Sequence[Line], *, columns: int, rows: int) -> str:
        """Return what turns the frame of before into `lines`, with further lines above that stay.

        Args:
            above: Lines without control characters, of any length.
            lines: The new frame.
            columns: The width of the terminal now; it may have changed.
            rows: Its height.
        """
        if not above and tuple(self._lines) == tuple(lines):
            return ""
        text = self._home(columns, rows)
        self._lines = tuple(lines)
        if above:
            # All is erased first: a line that stays may take several rows, with rests of the frame in them.
            text += ("\x1b[J" if text else "") + "".join(f"{line}\n" for line in above)
            return text + "".join(f"{line.painted}\n" for line in lines)
        return text + "".join(f"{line.painted}\x1b[K\n" for line in lines) + "\x1b[J"

    def _home(self, columns: int, rows: int) -> str:
        """Return what brings the cursor to the first line of the frame.

        A terminal that has become narrower has wrapped the frame's lines anew, so that they take more rows.
        """
        taken = sum(rows_taken(line.plain, max(1, columns)) for line in self._lines)
        up = min(taken, rows - 1)
        return f"\r\x1b[{up}A" if up > 0 else ""
