"""The rules that paths inside an object obey, so that a tree means the same tree on every file system.

Two sets of rules. The *safe* ones hold always: without them a path could leave its tree. The *portable* ones keep a
tree usable on Windows, on macOS and after Unicode normalisation; only a tree that records `"portable_names":false`
is free of them.
"""

import re
import unicodedata
from collections.abc import Iterable
from typing import Literal

from dis_store.errors import InvalidInputError

MAX_COMPONENT_BYTES = 255
MAX_DEPTH = 64
# With the store's own path in front, a path must fit into PATH_MAX (4096 on Linux) to be opened by name.
MAX_PATH_BYTES = 3072

# Controls, line and paragraph separators.
_FORBIDDEN_CATEGORIES = frozenset({"Cc", "Zl", "Zp"})
# They reorder the text around them, so that a name reads as another.
_BIDIRECTIONAL_CONTROLS = frozenset("\u202a\u202b\u202c\u202d\u202e\u2066\u2067\u2068\u2069")
_WINDOWS_CHARACTERS = re.compile(r'[<>:"|?*]')
_WINDOWS_DEVICES = re.compile(r"(con|prn|aux|nul|conin\$|conout\$|com[0-9]|lpt[0-9])", re.ASCII)

_Kind = Literal["leaf", "directory"]


def check_path(path: str, *, portable: bool = True) -> None:
    """Accept one relative path with `/` between its components.

    Raises:
        InvalidInputError: The path breaks a rule; the cause names the rule.
    """
    components = path.split("/")
    for component in components:
        _check_component(component, path, portable=portable)
    if len(components) > MAX_DEPTH:
        _refuse(path, f"it is {len(components)} levels deep, and {MAX_DEPTH} are the limit")
    if len(path.encode()) > MAX_PATH_BYTES:
        _refuse(path, f"it is longer than {MAX_PATH_BYTES} bytes")


class PathSet:
    """The paths of one tree, kept free of duplicates, collisions and paths below a leaf.

    A *leaf* is a file or a reference; every proper prefix of a leaf is a directory.
    """

    def __init__(self, *, portable: bool = True) -> None:
        self._portable = portable
        self._known: dict[tuple[str, ...], tuple[str, _Kind]] = {}

    def add(self, path: str) -> None:
        """Add the path of a leaf.

        Raises:
            InvalidInputError: `check_path` refuses it, or it collides with a path that is already here.
                Nothing was added then.
        """
        check_path(path, portable=self._portable)
        components = path.split("/")
        new: list[tuple[tuple[str, ...], str, _Kind]] = []
        for length in range(1, len(components) + 1):
            kind: _Kind = "leaf" if length == len(components) else "directory"
            prefix = "/".join(components[:length])
            folded = tuple(self._fold(component) for component in components[:length])
            self._check_collision(folded, prefix, kind)
            new.append((folded, prefix, kind))
        self._known.update((folded, (prefix, kind)) for folded, prefix, kind in new)

    def discard(self, path: str) -> None:
        """Forget the leaf `path`; its directories stay known."""
        self._known.pop(tuple(self._fold(component) for component in path.split("/")), None)

    def _check_collision(self, folded: tuple[str, ...], path: str, kind: _Kind) -> None:
        known = self._known.get(folded)
        if known is None:
            return
        known_path, known_kind = known
        if known_path != path:
            _refuse(
                path, f"it differs from {known_path!r} only by case or by compatible characters"
            )
        if kind == known_kind == "leaf":
            _refuse(path, "it is there already")
        if kind != known_kind:
            _refuse(path, "it would be both an entry and a directory")

    def _fold(self, component: str) -> str:
        return fold(component) if self._portable else component


def check_paths(paths: Iterable[str], *, portable: bool = True) -> None:
    """Accept the paths of all leaves of one tree.

    Raises:
        InvalidInputError: One of them breaks a rule, or two of them collide.
    """
    known = PathSet(portable=portable)
    for path in paths:
        known.add(path)


def fold(component: str) -> str:
    """Return what a file system without case or with compatibility normalisation would take the name for."""
    return unicodedata.normalize("NFKC", component).casefold()


def _check_component(component: str, path: str, *, portable: bool) -> None:
    if component == "":
        _refuse(path, "it has an empty component" if path else "it is empty")
    if component in (".", ".."):
        _refuse(path, f"it has the component {component!r}")
    for character in component:
        if unicodedata.category(character) == "Cs":
            _refuse(path, "it is not UTF-8")
        if unicodedata.category(character) in _FORBIDDEN_CATEGORIES:
            _refuse(path, f"it holds the control character U+{ord(character):04X}")
    if len(component.encode()) > MAX_COMPONENT_BYTES:
        _refuse(path, f"a component is longer than {MAX_COMPONENT_BYTES} bytes")
    if portable:
        _check_portable(component, path)


def _check_portable(component: str, path: str) -> None:
    if "\\" in component:
        _refuse(path, "it holds a backslash, which separates components on Windows")
    if not unicodedata.is_normalized("NFC", component):
        _refuse(path, "it is not in Unicode normalisation form C (NFC)")
    if not _BIDIRECTIONAL_CONTROLS.isdisjoint(component):
        _refuse(path, "it holds a control character that reorders text")
    if found := _WINDOWS_CHARACTERS.search(component):
        _refuse(path, f"it holds {found[0]!r}, which Windows reserves")
    if component.endswith((" ", ".")):
        _refuse(path, "a component ends with a space or a full stop, which Windows drops")
    folded = fold(component)
    if folded in (".", "..") or "/" in folded or "\\" in folded:
        _refuse(path, "it becomes another path under compatibility normalisation (NFKC)")
    # Windows takes what stands before the first full stop for the device, spaces at its end aside.
    if _WINDOWS_DEVICES.fullmatch(folded.split(".")[0].rstrip(" ")):
        _refuse(path, f"{component!r} is the name of a device on Windows")


def _refuse(path: str, cause: str) -> None:
    raise InvalidInputError(f"the path {path[:200]!r} is refused", cause=cause)
