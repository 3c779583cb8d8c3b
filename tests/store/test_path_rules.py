import tracemalloc
import unicodedata

import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from dis_store import InvalidInputError
from dis_store.path_rules import PathSet, check_path, check_paths, fold

HOSTILE = {
    "": "empty",
    "/etc/passwd": "empty component",
    "a//b": "empty component",
    "a/": "empty component",
    ".": "component",
    "..": "component",
    "../outside": "component",
    "a/../../outside": "component",
    "a/./b": "component",
    "a\\b": "backslash",
    "..\\outside": "backslash",
    "C:\\Windows": "backslash",
    "C:evil": "Windows reserves",
    "file:stream": "Windows reserves",
    "what?": "Windows reserves",
    "a*": "Windows reserves",
    "a|b": "Windows reserves",
    "<a>": "Windows reserves",
    'quo"te': "Windows reserves",
    "trailing.": "Windows drops",
    "trailing ": "Windows drops",
    "dir. /file": "Windows drops",
    "CON": "device",
    "con.txt": "device",
    "a/NUL": "device",
    "aux .h": "device",
    "Com1": "device",
    "COM¹": "device",
    "lpt9.tar.gz": "device",
    "CONIN$": "device",
    "nul\x00byte": "U+0000",
    "new\nline": "U+000A",
    "delete\x7f": "U+007F",
    "c1\x85": "U+0085",
    "line\u2028separator": "U+2028",
    "half\ud800": "UTF-8",
    "right\u202eto-left": "reorders",
    "isolate\u2066": "reorders",
    "e\u0301": "form C",
    "\u212b": "form C",
    "\uff0e\uff0e": "compatibility",
    "a\uff0fb": "compatibility",
    "a\uff3cb": "compatibility",
    "x" * 256: "255 bytes",
    "é" * 128: "255 bytes",
    "/".join("d" * 65): "64 are the limit",
    "/".join(["x" * 250] * 13): "3072 bytes",
}


@pytest.mark.parametrize("path", HOSTILE, ids=ascii)
def test_a_hostile_name_is_refused_with_the_reason(path: str) -> None:
    with pytest.raises(InvalidInputError) as refusal:
        check_path(path)
    assert HOSTILE[path] in str(refusal.value.cause)


@pytest.mark.parametrize(
    "path",
    [
        "a",
        "a/b.c",
        ".hidden",
        "..a",
        "a..b",
        "-x",
        "é",
        "中/文",
        "x" * 255,
        "é" * 127,
        "company",
        "con1",
        "~",
        "a b",
        "🜁",
    ],
)
def test_an_ordinary_name_is_accepted(path: str) -> None:
    check_path(path)


def test_sixty_four_levels_are_accepted() -> None:
    check_path("/".join("d" * 64))


@pytest.mark.parametrize(
    ("one", "other"),
    [
        ("README", "readme"),
        ("straße", "STRASSE"),
        ("\u017f", "s"),
        ("K", "k"),
        ("ﬁ", "fi"),
        ("a/X", "A/y"),
        ("dir/a", "Dir"),
        ("Ⅷ", "viii"),
    ],
)
def test_names_that_some_file_system_takes_for_one_are_refused(one: str, other: str) -> None:
    for first, second in ((one, other), (other, one)):
        if unicodedata.is_normalized("NFC", first) and unicodedata.is_normalized("NFC", second):
            with pytest.raises(InvalidInputError):
                check_paths([first, second])


@pytest.mark.parametrize(("one", "other"), [("a", "a/b"), ("a/b", "a/b/c/d"), ("same", "same")])
def test_nothing_is_below_an_entry_or_there_twice(one: str, other: str) -> None:
    for paths in ([one, other], [other, one]):
        with pytest.raises(InvalidInputError):
            check_paths(paths)


def test_names_that_need_not_be_portable_may_differ_by_case_alone() -> None:
    check_paths(["a", "A", "aux", "x\\y", "e\u0301", "q?"], portable=False)


@pytest.mark.parametrize("path", ["..", "a/../b", "", "/a", "a//b", "x\x00", "\ud800", "x" * 256])
def test_names_that_need_not_be_portable_must_be_safe(path: str) -> None:
    with pytest.raises(InvalidInputError):
        check_path(path, portable=False)


@given(st.text(max_size=20))
def test_what_is_accepted_stays_inside_under_every_reading(path: str) -> None:
    try:
        check_path(path)
    except InvalidInputError:
        assume(False)
    for reading in (path, unicodedata.normalize("NFKC", path), path.replace("\\", "/")):
        components = reading.split("/")
        assert "" not in components
        assert ".." not in components
        assert "." not in components
    assert len(unicodedata.normalize("NFKC", path).split("/")) == len(path.split("/"))
    assert unicodedata.normalize("NFC", path) == path


@given(st.lists(st.text(alphabet="aAbB/é", min_size=1, max_size=5), max_size=6))
def test_accepted_paths_have_distinct_foldings(paths: list[str]) -> None:
    try:
        check_paths(paths)
    except InvalidInputError:
        assume(False)
    assert len({tuple(map(fold, path.split("/"))) for path in paths}) == len(paths)


def test_a_tree_has_at_most_so_many_directories(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("dis_store.path_rules.MAX_DIRECTORIES", 5)
    known = PathSet()
    known.add("a/b/c/file")
    known.add("a/b/x")
    with pytest.raises(InvalidInputError, match="more than 5 directories"):
        known.add("d/e/f/file")
    known.add("d/e/file")
    for refused in ("g/file", "g/h/i/file", "h/file"):
        with pytest.raises(InvalidInputError, match="more than 5 directories"):
            known.add(refused)


def test_deep_directories_take_memory_in_proportion_to_their_number() -> None:
    known = PathSet()
    deep = "/".join("d" * 62)
    tracemalloc.start()
    for number in range(200):
        known.add(f"{number}/{deep}/f")
    taken, _ = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert taken < 200 * 64 * 600


def test_a_set_of_paths_keeps_the_rules_of_each_of_them() -> None:
    known = PathSet()
    known.add("b")
    # The same name in another directory is another path.
    known.add("x/b")
    known.add("x/y/b")
    for refused in ("..", "a//b", "aux", "B", "x/B"):
        with pytest.raises(InvalidInputError):
            known.add(refused)
    free = PathSet(portable=False)
    for path in ("aux", "b", "B"):
        free.add(path)
    with pytest.raises(InvalidInputError):
        free.add("..")


def test_what_is_both_an_entry_and_a_directory_is_named() -> None:
    for paths in (["a/b", "a/b/c/d"], ["a/b/c/d", "a/b"]):
        with pytest.raises(InvalidInputError, match="the path 'a/b' is refused"):
            check_paths(paths)


def test_a_collision_is_told_with_the_name_that_was_there_first() -> None:
    for first, second in (("a/Xy", "a/xY"), ("a/Xy/file", "a/xY/file")):
        with pytest.raises(InvalidInputError, match="differs from 'a/Xy' only by case") as refusal:
            check_paths([first, second])
        assert str(refusal.value).startswith("the path 'a/xY' is refused")


def test_giving_up_what_was_never_there_changes_nothing() -> None:
    known = PathSet()
    known.add("a/b")
    for path in ("a/c", "a/b/c", "a/c/d/e", "x/y/z"):
        known.discard(path)
    known.add("a/c")
    with pytest.raises(InvalidInputError, match="there already"):
        known.add("a/b")


def test_a_leaf_that_was_given_up_may_come_again() -> None:
    known = PathSet()
    known.add("a/b")
    known.discard("a/b")
    known.discard("a/c/d")
    known.add("a/b/c")
    with pytest.raises(InvalidInputError, match="both an entry and a directory"):
        known.add("a/b")
