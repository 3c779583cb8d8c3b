"""Records of servers: what is written is what is read, and anything else is refused."""

from pathlib import Path
from string import ascii_letters

import pytest
from hypothesis import given
from hypothesis import strategies as st

from dis_derivations.serving.names import check_name, name_for
from dis_derivations.serving.processes import ProcessIdentity
from dis_derivations.serving.records import ContainerIdentity, ServerRecord, ServerRecords
from dis_store.digest import Digest
from dis_store.errors import BuildError, IntegrityError, InvalidInputError

_words = st.text(ascii_letters + "0123456789._-", min_size=1, max_size=30)
_numbers = st.integers(1, 2**53 - 1)
_records = st.builds(
    ServerRecord,
    name=_words,
    url=_words,
    model=st.text(max_size=40).filter(lambda text: text.isprintable()),
    closure=st.binary(max_size=8).map(Digest.of),
    store=_words.map(lambda word: Path("/store") / word),
    roots=st.lists(_words, max_size=3).map(tuple),
    since=_words,
    process=st.none() | st.builds(ProcessIdentity, _numbers, _numbers, _words),
    container=st.none() | st.builds(ContainerIdentity, _words, _words),
    scratch=st.none() | _words.map(lambda word: Path("/tmp") / word),  # noqa: S108 - a path
)
RECORD = ServerRecord(
    name="tiny",
    url="http://127.0.0.1:8000/v1",
    model="tiny",
    closure=Digest.of(b""),
    store=Path("/store"),
    roots=("serve-tiny.0",),
    since="2026-01-01T00:00:00+00:00",
    process=ProcessIdentity(1, 2, "boot"),
)


@given(_records)
def test_a_record_is_read_as_it_was_written(record: ServerRecord) -> None:
    assert ServerRecord.decode(record.encode(), name="it") == record


@given(st.integers(0, len(RECORD.encode()) - 1), st.integers(1, 255))
def test_a_changed_byte_is_damage_or_another_record(place: int, change: int) -> None:
    data = bytearray(RECORD.encode())
    data[place] ^= change
    try:
        found = ServerRecord.decode(bytes(data), name="it")
    except IntegrityError:
        return
    assert found.encode() == bytes(data)
    assert found != RECORD


@given(st.binary(max_size=200))
def test_what_is_no_record_is_damage(data: bytes) -> None:
    with pytest.raises(IntegrityError, match="damaged"):
        ServerRecord.decode(data, name="it")


def test_records_are_their_users_alone_and_gone_when_forgotten(tmp_path: Path) -> None:
    records = ServerRecords(tmp_path)
    with records.held("tiny"):
        records.home("tiny").mkdir()
        records.log("tiny").write_text("said\n")
        records.write(RECORD)
        assert records.names() == ["tiny"]
        assert records.read("tiny") == RECORD
        assert [path.stat().st_mode & 0o077 for path in (tmp_path / "tiny",)] == [0]
        records.forget(RECORD)
    assert records.names() == []
    assert records.read("tiny") is None
    assert records.log("tiny").exists()
    assert not records.home("tiny").exists()


def test_two_commands_do_not_work_on_one_server(tmp_path: Path) -> None:
    records = ServerRecords(tmp_path)
    with (
        records.held("tiny"),
        pytest.raises(BuildError, match="another command is starting or stopping"),
        records.held("tiny"),
    ):
        pass
    with records.held("tiny"), records.held("other"):
        pass


def test_a_record_in_the_place_of_another_is_damage(tmp_path: Path) -> None:
    records = ServerRecords(tmp_path)
    (tmp_path / "tiny").mkdir()
    records.write(RECORD)
    (tmp_path / "tiny").rename(tmp_path / "other")
    with pytest.raises(IntegrityError, match="damaged") as caught:
        records.read("other")
    assert "it is about 'tiny'" in (caught.value.cause or "")


@pytest.mark.parametrize("name", ["", ".", "..", "a/b", "-x", "a b", "ü", "x" * 65, "a\n", "$x"])
def test_a_name_that_no_file_or_container_may_have_is_refused(name: str) -> None:
    with pytest.raises(InvalidInputError, match="is refused"):
        check_name(name)


@given(st.text(max_size=100))
def test_the_name_of_any_manifest_makes_one_of_a_server(name: str) -> None:
    check_name(name_for(name))


def test_no_record_is_written_where_others_may_enter(tmp_path: Path) -> None:
    records = ServerRecords(tmp_path / "servers")
    with records.held("tiny"):
        assert (tmp_path / "servers" / "tiny").stat().st_mode & 0o077 == 0
    (tmp_path / "servers" / "open").mkdir(mode=0o777)
    (tmp_path / "servers" / "open").chmod(0o777)
    with pytest.raises(InvalidInputError, match="cannot be written down"), records.held("open"):
        raise AssertionError


def test_a_name_that_no_root_may_have_is_refused_before_anything_is_built() -> None:
    with pytest.raises(InvalidInputError, match="is refused"):
        check_name("model.tar")
    assert name_for("model.tar") == "run-model-tar"
