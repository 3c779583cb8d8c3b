"""Markup that cannot be broken out of: what is no markup is escaped."""

from collections.abc import Iterable
from html import escape

from dis_derivations.comparison.text_layout import printable

_VOID = frozenset({"meta", "link"})


class Markup(str):
    """Text that is markup already."""

    __slots__ = ()


def text(value: object) -> Markup:
    """Return text as markup; what a browser would act on, or show as nothing, is escaped."""
    lines = str(value).split("\n")
    return Markup(escape("\n".join(map(printable, lines)), quote=True))


def element(name: str, /, *children: object, **attributes: object) -> Markup:
    """Return an element.

    Args:
        name: Its name.
        children: Markup is taken as it is, anything else is text; None is left out.
        attributes: `_` stands for `-`, and one at the end is dropped (`class_`). None leaves an attribute out.
    """
    written = "".join(
        f' {key.rstrip("_").replace("_", "-")}="{text(value)}"'
        for key, value in attributes.items()
        if value is not None
    )
    if name in _VOID:
        return Markup(f"<{name}{written}>")
    inside = "".join(_markup(child) for child in children if child is not None)
    return Markup(f"<{name}{written}>{inside}</{name}>")


def joined(parts: Iterable[object]) -> Markup:
    """Return markup of several parts, one after the other."""
    return Markup("".join(_markup(part) for part in parts if part is not None))


def table(
    header: Iterable[object], rows: Iterable[Iterable[object]], **attributes: object
) -> Markup:
    """Return a table with one row of headings."""
    head = element("tr", *(element("th", cell, scope="col") for cell in header))
    body = [element("tr", *(element("td", cell) for cell in row)) for row in rows]
    return element("table", element("thead", head), element("tbody", *body), **attributes)


def section(title: str, *children: object, id_: str) -> Markup:
    """Return a section that a link can lead to."""
    return element("section", element("h2", title), *children, id=id_)


def _markup(value: object) -> Markup:
    return value if isinstance(value, Markup) else text(value)
