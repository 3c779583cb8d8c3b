"""Write the table of error codes into docs/reference/errors.md, from the classes of the errors.

Usage: python docs/error_codes.py

The table stands between `<!-- codes -->` and `<!-- end of codes -->`.
"""

import re
from pathlib import Path

from dis_command.error_codes import error_kinds

PAGE = Path(__file__).parent / "reference" / "errors.md"
_TABLE = re.compile(r"(?<=<!-- codes -->\n).*?(?=<!-- end of codes -->)", re.DOTALL)
_HEAD = "| code | exit code | meaning |\n|---|---|---|\n"


def table() -> str:
    """Return the table, as Markdown."""
    rows = (
        f"| `{kind.code}` | {kind.exit_code} | {kind.meaning} {kind.advice}".rstrip() + " |\n"
        for kind in error_kinds()
    )
    return _HEAD + "".join(rows)


def with_table(text: str) -> str:
    """Return the text of the page with the table as it must be."""
    return _TABLE.sub(lambda _: table(), text)


if __name__ == "__main__":
    PAGE.write_text(with_table(PAGE.read_text("utf-8")), "utf-8")
