import errno
from datetime import datetime
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from dis_store import (
    Digest,
    IntegrityError,
    InvalidInputError,
    Root,
    Store,
    UnfitEnvironmentError,
)
from dis_store.layout import Layout
from dis_store.result_links import check_link
from dis_store.temp_roots import live_temp_roots
from trees import write_text
from waits import watch_waits

DIGESTS = st.binary(max_size=4).map(Digest.of)


@given(
    st.builds(
        Root, DIGESTS, st.none() | DIGESTS, st.none() | DIGESTS, st.booleans(), st.text(), st.text()
    )
)
def test_a_record_decodes_to_the_root_that_it_encodes(root: Root) -> None:
    assert Root.decode(root.encode()) == root


@pytest.mark.parametrize(
    "data", [b"", b"{}", b"[]", b'{"type":"root","format":1}', b'{"type":"root","format":2}']
)
def test_a_malformed_record_is_refused(data: bytes) -> None:
    with pytest.raises(IntegrityError):
        Root.decode(data)


def test_a_root_is_set_replaced_and_removed(store: Store) -> None:
    one, other = write_text(store, "one"), write_text(store, "other")
    store.set_root("name", Root(one, label="first", created_at="then"))
    assert store.root("name") == Root(one, label="first", created_at="then")
    store.set_root("name", Root(other))
    found = store.root("name")
    assert found is not None
    assert found.object == other
    assert datetime.fromisoformat(found.created_at).tzinfo is not None
    assert store.roots() == {"name": found}
    store.remove_root("name")
    assert store.roots() == {}
    assert store.root("name") is None
    with pytest.raises(InvalidInputError, match="no root 'name'"):
        store.remove_root("name")


def test_an_object_is_held_before_a_root_is_written_for_it(store: Store) -> None:
    digest = write_text(store, "x")
    store.close()
    with Store.open(store.path) as again:
        again.set_root("name", Root(digest))
        assert live_temp_roots(Layout(store.path), sweep=False) == {digest}


def test_no_root_is_written_for_what_is_gone_when_nobody_collects_any_more(
    store: Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    digest = write_text(store, "x")
    with monkeypatch.context() as patched:
        # Somebody deleted it by hand, after it was held.
        patched.setattr(type(store._foundation), "is_valid", lambda *_: False)
        with pytest.raises(IntegrityError, match="not in the store"):
            store.set_root("name", Root(digest))
    assert store.roots() == {}


def test_a_root_that_was_removed_does_not_come_back(
    store: Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    store.set_root("name", Root(write_text(store, "x")))
    record = store.path / "roots" / "name.json"
    waits = watch_waits(monkeypatch, [record])
    store.remove_root("name")
    assert [(wait.inode, wait.named) for wait in waits] == [
        (record.parent.stat().st_ino, frozenset())
    ]


@pytest.mark.parametrize("name", ["quickstart.0123abcd", "a b", "größe", "v1.2", "x" * 250])
def test_a_usual_name_is_accepted(store: Store, name: str) -> None:
    store.set_root(name, Root(write_text(store, "x")))
    assert list(store.roots()) == [name]


@pytest.mark.parametrize(
    "name",
    [
        "",
        ".",
        "..",
        "a/b",
        "../up",
        "-rf",
        ".hidden",
        "a.json",
        "a.tar",
        "a.tgz",
        "b.tar.gz",
        "b.tar.zst",
        "x" * 251,
        "a\nb",
        "nul",
    ],
)
def test_a_name_that_a_command_would_take_for_something_else_is_refused(
    store: Store, name: str
) -> None:
    digest = write_text(store, "x")
    with pytest.raises(InvalidInputError):
        store.set_root(name, Root(digest))
    with pytest.raises(InvalidInputError):
        store.root(name)
    with pytest.raises(InvalidInputError):
        store.remove_root(name)


def test_a_root_of_nothing_is_refused(store: Store) -> None:
    with pytest.raises(IntegrityError):
        store.set_root("name", Root(Digest.of(b"nothing")))
    assert store.roots() == {}


def test_a_damaged_root_is_an_error_and_not_a_missing_one(store: Store) -> None:
    (store.path / "roots" / "name.json").write_bytes(b"\x00" * 100)
    with pytest.raises(IntegrityError, match="the root 'name' is damaged"):
        store.roots()
    with pytest.raises(IntegrityError):
        store.collect_garbage()


def test_a_damaged_root_is_named_with_its_file_and_keeps_nobody_else_from_working(
    store: Store,
) -> None:
    digest = write_text(store, "x")
    store.set_root("good", Root(digest))
    record = store.path / "roots" / "a b.json"
    record.write_bytes(b"xx")
    survey = store.survey_roots()
    assert list(survey.good) == ["good"]
    error = survey.damaged["a b"]
    assert str(record) in str(error.cause)
    assert "dis root remove 'a b'" in str(error.hint)
    assert store.root("good") is not None
    with pytest.raises(IntegrityError, match="'a b'"):
        store.root("a b")
    store.remove_root("a b")
    assert list(store.roots()) == ["good"]


def test_several_damaged_roots_are_named_at_once(store: Store) -> None:
    for name in ("one", "two"):
        (store.path / "roots" / f"{name}.json").write_bytes(b"")
    with pytest.raises(IntegrityError, match="2 roots are damaged") as refusal:
        store.roots()
    assert "one.json" in str(refusal.value.cause)
    assert "two.json" in str(refusal.value.cause)
    assert "dis root remove one two" in str(refusal.value.hint)


@pytest.mark.parametrize(
    ("name", "cause"), [("", "empty"), ("a\udcff", "UTF-8"), ("a\nb", "U+000A")]
)
def test_a_refused_name_is_called_a_name(store: Store, name: str, cause: str) -> None:
    with pytest.raises(InvalidInputError, match="the root name") as refusal:
        store.root(name)
    assert cause in str(refusal.value.cause)
    assert "path" not in str(refusal.value)


def test_a_root_that_cannot_be_written_is_named_and_not_its_temporary_file(
    store: Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    digest = write_text(store, "x")

    def refuse(source: Path, target: Path) -> None:
        raise PermissionError(errno.EACCES, "Permission denied", str(source), None, str(target))

    monkeypatch.setattr(Path, "replace", refuse)
    with pytest.raises(UnfitEnvironmentError) as refusal:
        store.set_root("name", Root(digest))
    assert refusal.value.cause == f"Permission denied: {store.path / 'roots' / 'name.json'}"


def test_a_result_link_leads_to_the_object(store: Store, tmp_path: Path) -> None:
    digest = write_text(store, "x")
    link = tmp_path / "result"
    store.add_result_link(link, Root(digest))
    assert link.joinpath("text").read_text() == "x"
    (found,) = store.result_links()
    assert (found.link, found.target, found.root.object) == (link, digest, digest)
    link.unlink()
    (found,) = store.result_links()
    assert found.target is None


def test_a_result_link_replaces_one_and_nothing_else(store: Store, tmp_path: Path) -> None:
    one, other = write_text(store, "one"), write_text(store, "other")
    link = tmp_path / "result"
    store.add_result_link(link, Root(one))
    store.add_result_link(link, Root(other))
    assert [found.target for found in store.result_links()] == [other]
    for name in ("file", "directory", "elsewhere"):
        place = tmp_path / name
        if name == "file":
            place.write_text("precious")
        elif name == "directory":
            place.mkdir()
        else:
            place.symlink_to("file")
        with pytest.raises(InvalidInputError, match="something else is there"):
            store.add_result_link(place, Root(one))
    assert (tmp_path / "file").read_text() == "precious"
    assert sorted(path.name for path in tmp_path.iterdir()) == [
        "directory", "elsewhere", "file", "result", "store",
    ]  # fmt: skip


def test_a_result_link_that_cannot_be_made_is_the_users_error(store: Store, tmp_path: Path) -> None:
    with pytest.raises(InvalidInputError, match="cannot be made"):
        store.add_result_link(tmp_path / "missing" / "result", Root(write_text(store, "x")))


LINKS = {
    "a long name": ("x" * 300, "File name too long"),
    "no text": ("\udcff", "its path is not UTF-8"),
    "below a file": ("file/link", "is not a directory"),
    "nowhere": ("none/link", "there is no directory"),
}


@pytest.mark.parametrize("case", LINKS)
def test_a_place_that_no_result_link_can_have_is_said_before_it_is_made(
    tmp_path: Path, case: str
) -> None:
    name, cause = LINKS[case]
    (tmp_path / "file").write_bytes(b"")
    with pytest.raises(InvalidInputError, match=r"the result link .* cannot be made") as refusal:
        check_link(tmp_path / name)
    assert cause in str(refusal.value.cause)


def test_a_result_link_of_a_working_directory_that_is_gone_is_said(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "gone").mkdir()
    monkeypatch.chdir(tmp_path / "gone")
    (tmp_path / "gone").rmdir()
    with pytest.raises(UnfitEnvironmentError, match="the working directory is gone"):
        check_link(Path("result"))
    assert check_link(tmp_path / "result") == tmp_path / "result"


def test_a_result_link_may_have_the_longest_name(store: Store, tmp_path: Path) -> None:
    for name in ("x" * 255, "é" * 127):
        store.add_result_link(tmp_path / name, Root(write_text(store, "x")))
        assert (tmp_path / name / "text").read_text() == "x"


def test_a_relative_result_link_is_recorded_where_it_is(
    store: Store, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    store.add_result_link(Path("result"), Root(write_text(store, "x")))
    assert store.result_links()[0].link == tmp_path / "result"


def test_a_damaged_record_of_a_result_link_is_an_error(store: Store, tmp_path: Path) -> None:
    store.add_result_link(tmp_path / "result", Root(write_text(store, "x")))
    (record,) = (store.path / "roots" / "auto").iterdir()
    data = record.read_bytes()
    record.chmod(0o644)
    for spoiled in (
        b"",
        data.replace(b'"link"', b'"knot"'),
        data.replace(b'"object"', b'"subject"'),
    ):
        record.write_bytes(spoiled)
        with pytest.raises(IntegrityError):
            store.result_links()
