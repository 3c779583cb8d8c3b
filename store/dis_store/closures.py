"""What objects refer to, as pure functions over a graph."""

from collections.abc import Callable, Iterable, Iterator

from dis_store.digest import Digest

References = Callable[[Digest], Iterable[Digest]]


def closure(digests: Iterable[Digest], references: References) -> list[Digest]:
    """Return the objects and all that they refer to, directly or not: each once, references first.

    The order depends only on the graph and on the order of `digests`.
    """
    ordered: dict[Digest, None] = {}
    for digest in digests:
        _visit(digest, references, ordered)
    return list(ordered)


def _visit(start: Digest, references: References, ordered: dict[Digest, None]) -> None:
    if start in ordered:
        return
    # A stack of our own: a chain of references may be longer than Python's.
    entered = {start}
    stack: list[tuple[Digest, Iterator[Digest]]] = [(start, iter(sorted(references(start))))]
    while stack:
        digest, rest = stack[-1]
        inner = next((each for each in rest if each not in ordered and each not in entered), None)
        if inner is None:
            ordered[digest] = None
            stack.pop()
        else:
            entered.add(inner)
            stack.append((inner, iter(sorted(references(inner)))))
