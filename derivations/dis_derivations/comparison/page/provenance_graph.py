"""What two runs are made of, as a graph: each object once, and whether it is the same in both."""

from collections.abc import Mapping, Sequence

from dis_derivations.comparison.page.markup import Markup, element
from dis_derivations.runs.bundle_documents import Bundle
from dis_store.digest import Digest

_WIDTH, _ROW, _BOX, _TALL = 900, 56, 190, 40
_COLUMNS = (10, 250, 480, 700)
_MADE: Mapping[str, tuple[str, ...]] = {
    "requests": ("dataset", "chat_template", "tokenizer"),
    "closure": ("weights", "tokenizer", "config", "chat_template"),
    "results": ("closure", "requests"),
    "bundle": ("results",),
}
_LATER = ("requests", "closure", "results", "bundle")
_Place = tuple[int, int]


def provenance_graph(a: Bundle, b: Bundle, causes: frozenset[str]) -> Markup:
    """Return the graph.

    Args:
        a: One run.
        b: The other.
        causes: The kinds of causes that the page has a place for, which nodes lead to.
    """
    objects_a, objects_b = _objects(a), _objects(b)
    first = [name for name in sorted({*objects_a, *objects_b}) if name not in _LATER]
    places = _places(first)
    made = {**_MADE, "closure": (*_MADE["closure"], *_others(first))}
    edges = [
        _edge(places[source], places[target])
        for target, sources in made.items()
        for source in sources
        if source in places
    ]
    nodes = [
        _node(name, place, objects_a.get(name), objects_b.get(name), linked=name in causes)
        for name, place in places.items()
    ]
    height = _ROW * max(len(first), 2) + 20
    return element(
        "svg", *edges, *nodes, viewBox=f"0 0 {_WIDTH} {height}", width=_WIDTH, height=height, role="img",
        aria_label="what the runs are made of",
    )  # fmt: skip


def _objects(bundle: Bundle) -> dict[str, Digest]:
    digest = bundle.reader.digest()
    made = {"results": bundle.document.results, **({} if digest is None else {"bundle": digest})}
    requests = {"requests": bundle.document.requests_digest}
    return {**requests, **bundle.document.inputs, **made}


def _others(first: Sequence[str]) -> list[str]:
    known = {name for sources in _MADE.values() for name in sources}
    return [name for name in first if name not in known]


def _places(first: Sequence[str]) -> dict[str, _Place]:
    middle = max(len(first), 2) * _ROW // 2
    return {
        **{name: (_COLUMNS[0], 10 + index * _ROW) for index, name in enumerate(first)},
        "closure": (_COLUMNS[1], max(10, middle - _ROW)),
        "requests": (_COLUMNS[1], middle + 10),
        "results": (_COLUMNS[2], max(10, middle - _ROW // 2)),
        "bundle": (_COLUMNS[3], max(10, middle - _ROW // 2)),
    }


def _edge(source: _Place, target: _Place) -> Markup:
    x1, y1 = source[0] + _BOX, source[1] + _TALL // 2
    x2, y2 = target[0], target[1] + _TALL // 2
    middle = (x1 + x2) // 2
    return element("path", d=f"M{x1} {y1} C{middle} {y1} {middle} {y2} {x2} {y2}", class_="edge")


def _node(name: str, place: _Place, a: Digest | None, b: Digest | None, *, linked: bool) -> Markup:
    x, y = place
    same = a == b
    said = _short(a) if same else f"{_short(a)} | {_short(b)}"
    parts = [
        element("title", f"{name}: A {a or 'none'}, B {b or 'none'}"),
        element(
            "rect",
            x=x,
            y=y,
            width=_BOX,
            height=_TALL,
            rx=5,
            class_="node" if same else "node different",
        ),
        element("text", name, x=x + 8, y=y + 16),
        element("text", said, x=x + 8, y=y + 32),
    ]
    node = element("g", *parts)
    return element("a", node, href=f"#cause-{name}") if linked and not same else node


def _short(digest: Digest | None) -> str:
    return "-" if digest is None else digest[:10]
