"""A whole page: its head forbids every request, and every script but its own."""

import json
from base64 import b64encode
from collections.abc import Sequence
from functools import lru_cache
from hashlib import sha256
from importlib.resources import files
from typing import Any

from dis_derivations.comparison.page.markup import Markup, element, joined, text

_DATA_ID = "data"


def page(title: str, sections: Sequence[tuple[str, str]], body: Markup, data: Any = None) -> str:
    """Return an HTML document.

    Args:
        title: Of the page.
        sections: What the links at its top lead to: the id and the title of each section.
        body: What is between the links and the end.
        data: What the script draws, as JSON; None for a page without one.
    """
    style = _asset("page.css")
    script = None if data is None else _asset("page.js")
    head = joined(
        [
            element("meta", charset="utf-8"),
            _policy(style, script),
            element("meta", name="viewport", content="width=device-width, initial-scale=1"),
            element("meta", name="referrer", content="no-referrer"),
            element("link", rel="icon", href="data:,"),
            element("title", title),
            element("style", Markup(style)),
        ]
    )
    links = element("nav", *(element("a", name, href=f"#{place}") for place, name in sections))
    parts = [element("header", element("h1", title), links), element("main", body)]
    if script is not None:
        parts += [
            element("script", Markup(_json(data)), type="application/json", id=_DATA_ID),
            element("script", Markup(script)),
        ]
    document = element("html", element("head", head), element("body", *parts), lang="en")
    return f"<!DOCTYPE html>\n{document}\n"


def _policy(style: str, script: str | None) -> Markup:
    """Allow this style and this script, by their hashes, and nothing else from anywhere."""
    allowed = ["default-src 'none'", f"style-src {_source(style)}", "img-src data:"]
    if script is not None:
        allowed.append(f"script-src {_source(script)}")
    allowed += ["base-uri 'none'", "form-action 'none'"]
    content = text("; ".join(allowed)).replace("&#x27;", "'")
    return Markup(f'<meta http-equiv="Content-Security-Policy" content="{content}">')


def _source(content: str) -> str:
    return f"'sha256-{b64encode(sha256(content.encode()).digest()).decode()}'"


def _json(data: Any) -> str:
    """Return JSON in which no character could end the element that holds it."""
    encoded = json.dumps(data, separators=(",", ":"), allow_nan=False)
    return encoded.replace("<", "\\u003c").replace(">", "\\u003e").replace("&", "\\u0026")


@lru_cache
def _asset(name: str) -> str:
    return files("dis_derivations.comparison.page").joinpath(name).read_text("utf-8")
