"""The rules that paths inside an object obey, so that a tree means the same tree on every file system.

Two sets of rules. The *safe* ones hold always: without them a path could leave its tree. The *portable* ones keep a
tree usable on Windows, on macOS and after Unicode normalisation; only a tree that records `"portable_names":false`
is free of them.
"""

import unicodedata
from collections.abc import Iterable
from typing import NoReturn

from dis_store.errors import InvalidInputError

MAX_COMPONENT_BYTES = 255
MAX_DEPTH = 64
MAX_DIRECTORIES = 1_000_000
# With the store's own path in front, a path must fit into PATH_MAX (4096 on Linux) to be opened by name.
MAX_PATH_BYTES = 3072

# Controls, line and paragraph separators.
_FORBIDDEN_CATEGORIES = frozenset({"Cc", "Zl", "Zp"})
# They reorder the text around them, so that a name reads as another.
_BIDIRECTIONAL_CONTROLS = frozenset("\u202a\u202b\u202c\u202d\u202e\u2066\u2067\u2068\u2069")
_WINDOWS_CHARACTERS = frozenset('<>:"|?*')
_PORTS = tuple(f"{port}{number}" for port in ("com", "lpt") for number in range(10))
_WINDOWS_DEVICES = frozenset({"con", "prn", "aux", "nul", "conin$", "conout$", *_PORTS})


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


class _Known:
    """A name that is taken: as it was written, and what is below it if it is a directory."""

    # No dataclass: a command that finds everything there comes by, and makes none of them.
    __slots__ = ("below", "name")

    def __init__(self, name: str, below: "dict[str, _Known] | None" = None) -> None:
        self.name = name
        self.below = below


class PathSet:
    """The paths of one tree, kept free of duplicates, collisions and paths below a leaf.

    A *leaf* is a file or a reference; every proper prefix of a leaf is a directory. Time and memory grow with the
    length of the paths, however deep they are.
    """

    def __init__(self, *, portable: bool = True) -> None:
        self._portable = portable
        self._top: dict[str, _Known] = {}
        self._directories = 0

    def add(self, path: str) -> None:
        """Add the path of a leaf.

        Raises:
            InvalidInputError: `check_path` refuses it, it collides with a path that is already here, or there are more
                than `MAX_DIRECTORIES`. Nothing was added then.
        """
        check_path(path, portable=self._portable)
        *directories, leaf = path.split("/")
        below, depth = self._walk(directories)
        new = directories[depth:]
        self._check_leaf(path, leaf, None if new else below.get(self._fold(leaf)))
        self._directories += len(new)
        if self._directories > MAX_DIRECTORIES:
            self._directories -= len(new)
            _refuse(path, f"the tree has more than {MAX_DIRECTORIES} directories")
        for name in new:
            inner: dict[str, _Known] = {}
            below[self._fold(name)] = _Known(name, inner)
            below = inner
        below[self._fold(leaf)] = _Known(leaf)

    def discard(self, path: str) -> None:
        """Forget the leaf `path`; its directories stay known."""
        *directories, leaf = path.split("/")
        below: dict[str, _Known] | None = self._top
        for name in directories:
            known = None if below is None else below.get(self._fold(name))
            below = None if known is None else known.below
        if below is not None:
            below.pop(self._fold(leaf), None)

    def _walk(self, directories: list[str]) -> tuple[dict[str, _Known], int]:
        """Return what is in the last of the directories that is here already, and how many of them are."""
        below = self._top
        for depth, name in enumerate(directories):
            known = below.get(self._fold(name))
            if known is None:
                return below, depth
            if known.name != name or known.below is None:
                prefix = "/".join(directories[: depth + 1])
                _check_same(prefix, name, known)
                _refuse(prefix, "it would be both an entry and a directory")
            below = known.below
        return below, len(directories)

    def _check_leaf(self, path: str, leaf: str, known: _Known | None) -> None:
        if known is None:
            return
        _check_same(path, leaf, known)
        if known.below is None:
            _refuse(path, "it is there already")
        _refuse(path, "it would be both an entry and a directory")

    def _fold(self, component: str) -> str:
        return fold(component) if self._portable else component


def _check_same(path: str, name: str, known: _Known) -> None:
    if known.name != name:
        other = f"{path[: len(path) - len(name)]}{known.name}"
        _refuse(path, f"it differs from {other!r} only by case or by compatible characters")


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
    if not _WINDOWS_CHARACTERS.isdisjoint(component):
        found = next(each for each in component if each in _WINDOWS_CHARACTERS)
        _refuse(path, f"it holds {found!r}, which Windows reserves")
    if component.endswith((" ", ".")):
        _refuse(path, "a component ends with a space or a full stop, which Windows drops")
    folded = fold(component)
    if folded in (".", "..") or "/" in folded or "\\" in folded:
        _refuse(path, "it becomes another path under compatibility normalisation (NFKC)")
    # Windows takes what stands before the first full stop for the device, spaces at its end aside.
    if folded.split(".")[0].rstrip(" ") in _WINDOWS_DEVICES:
        _refuse(path, f"{component!r} is the name of a device on Windows")


def _refuse(path: str, cause: str) -> NoReturn:
    raise InvalidInputError(f"the path {path[:200]!r} is refused", cause=cause)
