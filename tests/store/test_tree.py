import json
import tracemalloc
from dataclasses import replace
from typing import Any

import pytest
from blake3 import blake3
from hypothesis import given
from hypothesis import strategies as st

from dis_store import Digest, FileEntry, IntegrityError, InvalidInputError, ReferenceEntry, Tree
from dis_store.tree import Entry
from trees import TREES, Files

# Of contents that no strategy draws.
A = Digest.of(b"a" * 100)
B = Digest.of(b"b" * 100)


def tree_of(files: Files) -> Tree:
    return Tree(
        tuple(
            FileEntry(path, len(blob.data), Digest.of(blob.data), blob.executable)
            for path, blob in files.items()
        )
    )


@given(TREES)
def test_a_manifest_decodes_to_the_tree_that_it_encodes(files: Files) -> None:
    tree = tree_of(files)
    assert Tree.decode(tree.encode()) == tree


@given(TREES)
def test_the_digest_is_the_blake3_of_the_manifest(files: Files) -> None:
    tree = tree_of(files)
    assert tree.digest == blake3(tree.encode()).hexdigest()


@given(TREES, st.randoms())
def test_the_order_of_entries_is_no_part_of_the_identity(files: Files, random: Any) -> None:
    entries = list(tree_of(files).entries)
    random.shuffle(entries)
    assert Tree(tuple(entries)).digest == tree_of(files).digest


def changes(entry: Entry) -> list[Entry]:
    renamed: list[Entry] = [replace(entry, path=f"{entry.path}~renamed")]
    if isinstance(entry, ReferenceEntry):
        return [*renamed, replace(entry, object=B), replace(entry, subpath="other")]
    return [
        *renamed,
        replace(entry, size=entry.size + 1),
        replace(entry, blake3=Digest.of(entry.blake3.encode())),
        replace(entry, executable=not entry.executable),
        ReferenceEntry(entry.path, entry.blake3),
    ]


@given(TREES.filter(bool), st.data())
def test_any_change_of_an_entry_changes_the_digest(files: Files, data: st.DataObject) -> None:
    tree = tree_of(files)
    reference = ReferenceEntry("reference~", A, "sub")
    entries = [*tree.entries, reference]
    position = data.draw(st.integers(0, len(entries) - 1))
    for changed in changes(entries[position]):
        others = entries[:position] + entries[position + 1 :]
        assert Tree((*others, changed)).digest != Tree(tuple(entries)).digest
    assert Tree(tuple(entries[:-1])).digest != Tree(tuple(entries)).digest


def test_a_record_of_unportable_names_is_part_of_the_identity() -> None:
    entries = (FileEntry("a", 0, A),)
    free = Tree(entries, portable_names=False)
    assert json.loads(free.encode())["portable_names"] is False
    assert free.digest != Tree(entries).digest
    assert Tree.decode(free.encode()) == free


def document(**changed: Any) -> dict[str, Any]:
    entries = [{"blake3": str(A), "path": "a", "size": 1}]
    return {"entries": entries, "format": 1, "type": "tree", **changed}


def entry(**changed: Any) -> dict[str, Any]:
    fields = {"blake3": str(A), "path": "a", "size": 1, **changed}
    return document(entries=[{key: value for key, value in fields.items() if value is not None}])


MALFORMED = {
    "another type": document(type="derivation"),
    "a newer format": document(format=2),
    "a format that only equals 1": document(format=True),
    "an unknown key": document(extra=1),
    "no entries": {"format": 1, "type": "tree"},
    "entries that are no list": document(entries=None),
    "an entry that is no object": document(entries=["a"]),
    "an entry with an unknown key": entry(mode=292),
    "an entry without a path": entry(path=None),
    "an entry without a size": entry(size=None),
    "an entry without a digest": entry(blake3=None),
    "a size that is no integer": entry(size=1.5),
    "a size that is true": entry(size=True),
    "a negative size": entry(size=-1),
    "a short digest": entry(blake3="abc"),
    "an upper-case digest": entry(blake3=str(A).upper()),
    "executable that is false": entry(executable=False),
    "executable that is a number": entry(executable=1),
    "both a file and a reference": entry(object=str(B)),
    "a path that leaves the tree": entry(path="../a"),
    "a path that is a number": entry(path=1),
    "portable names that are true": document(portable_names=True),
    "unsorted entries": document(
        entries=[{"blake3": str(A), "path": p, "size": 1} for p in ("b", "a")]
    ),
    "a subpath that leaves the object": document(
        entries=[{"object": str(A), "path": "a", "subpath": "../x"}]
    ),
}


@pytest.mark.parametrize("name", MALFORMED)
def test_a_malformed_manifest_is_refused(name: str) -> None:
    data = json.dumps(MALFORMED[name], sort_keys=True, separators=(",", ":")).encode()
    with pytest.raises(IntegrityError):
        Tree.decode(data)


@pytest.mark.parametrize(
    ("name", "cause"),
    [
        ("an entry without a size", "the key 'size' is missing"),
        ("a size that is true", "the size True is no integer"),
    ],
)
def test_what_a_malformed_manifest_lacks_is_said(name: str, cause: str) -> None:
    data = json.dumps(MALFORMED[name], sort_keys=True, separators=(",", ":")).encode()
    with pytest.raises(IntegrityError) as refusal:
        Tree.decode(data)
    assert refusal.value.cause == cause


@pytest.mark.parametrize("name", ["another type", "a newer format"])
def test_what_is_of_another_kind_or_of_a_later_version_is_called_so(name: str) -> None:
    data = json.dumps(MALFORMED[name], sort_keys=True, separators=(",", ":")).encode()
    with pytest.raises(IntegrityError) as refusal:
        Tree.decode(data)
    assert "it is no tree of a known format" in str(refusal.value.cause)


def test_the_manifest_that_the_malformed_ones_vary_is_accepted() -> None:
    data = json.dumps(document(), sort_keys=True, separators=(",", ":")).encode()
    assert Tree.decode(data).encode() == data


@pytest.mark.parametrize("spoil", [b" ", b"\n", b"\xef\xbb\xbf"])
def test_a_manifest_that_is_not_canonical_is_refused(spoil: bytes) -> None:
    data = Tree((FileEntry("a", 1, A),)).encode()
    for spoiled in (spoil + data, data + spoil, data.replace(b":1", b": 1")):
        with pytest.raises(IntegrityError):
            Tree.decode(spoiled)


@given(st.binary(max_size=200))
def test_bytes_that_are_no_manifest_are_refused(data: bytes) -> None:
    with pytest.raises(IntegrityError):
        Tree.decode(data)


@given(TREES, st.data())
def test_a_damaged_manifest_is_refused_or_is_another_tree(
    files: Files, data: st.DataObject
) -> None:
    tree = tree_of(files)
    encoded = bytearray(tree.encode())
    position = data.draw(st.integers(0, len(encoded) - 1))
    encoded[position] ^= 1 << data.draw(st.integers(0, 7))
    try:
        other = Tree.decode(bytes(encoded))
    except IntegrityError:
        return
    assert other.digest != tree.digest


def test_a_reference_becomes_a_relative_link_out_of_its_directories() -> None:
    assert ReferenceEntry("a", A).link_target == f"../../{A[:2]}/{A}"
    assert ReferenceEntry("x/y/z", A, "s/t").link_target == f"../../../../{A[:2]}/{A}/s/t"


def test_a_size_beyond_what_json_can_hold_is_refused() -> None:
    for size in (2**53, -1):
        with pytest.raises(InvalidInputError):
            FileEntry("a", size, A)
    largest = Tree((FileEntry("a", 2**53 - 1, A), FileEntry("b", 0, A)))
    assert Tree.decode(largest.encode()) == largest


def test_names_are_portable_unless_the_tree_says_otherwise() -> None:
    entries = (FileEntry("aux", 0, A),)
    with pytest.raises(InvalidInputError, match="'aux' is refused"):
        Tree(entries)
    assert Tree(entries, portable_names=False).entries == entries


def test_what_is_seen_of_another_object_may_bear_any_safe_name() -> None:
    assert Tree((ReferenceEntry("r", A, "aux"),)).references[0].subpath == "aux"
    for subpath in ("..", "a/../b", "", "/a"):
        with pytest.raises(InvalidInputError):
            Tree((ReferenceEntry("r", A, subpath),), portable_names=False)


def test_a_path_that_is_no_text_is_the_users_error() -> None:
    with pytest.raises(InvalidInputError, match="is refused"):
        Tree((FileEntry("a", 0, A), FileEntry("b\udcff", 0, A)))


def test_a_tree_has_at_most_so_many_entries(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("dis_store.tree.MAX_ENTRIES", 2)
    entries = tuple(FileEntry(name, 0, A) for name in "abc")
    assert len(Tree(entries[:2]).entries) == 2
    with pytest.raises(InvalidInputError, match="a tree of 3 entries is refused"):
        Tree(entries)


def test_directories_are_implied_by_the_paths() -> None:
    tree = Tree((FileEntry("a/b/c", 0, A), FileEntry("a/d", 0, A), FileEntry("e", 0, A)))
    assert tree.directories == ("a", "a/b")
    assert tree.shows("a/b")
    assert tree.shows("e")
    assert not tree.shows("b")


def test_a_large_manifest_that_is_none_costs_no_more_than_its_bytes() -> None:
    bomb = b'{"entries":[' + b"[]," * 1_000_000 + b'[]],"format":1,"type":"tree"}'
    tracemalloc.start()
    with pytest.raises(IntegrityError, match="form"):
        Tree.decode(bomb)
    _, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert peak < len(bomb)


def test_a_large_manifest_is_read_as_it_was_written() -> None:
    names = [f"{number:06}\u00e9\u4e2d" for number in range(7000)]
    files = tuple(
        FileEntry(f"d/{name}", len(name), A, executable=len(name) % 2 == 0) for name in names
    )
    references = tuple(
        ReferenceEntry(f"r/{name}", B, "x" if name < "003" else None) for name in names
    )
    for portable in (True, False):
        tree = Tree((*files, *references), portable_names=portable)
        assert len(tree.encode()) > 1 << 20
        assert Tree.decode(tree.encode()) == tree
    odd = Tree((*files, FileEntry('quo"te\\back', 1, A)), portable_names=False)
    assert Tree.decode(odd.encode()) == odd
