import json
import re
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from builds import build_of, key_of
from dis_store import (
    Digest,
    Input,
    IntegrityError,
    InvalidInputError,
    Realisation,
    Store,
    durability,
)
from trees import write_text

DIGESTS = st.binary(max_size=4).map(Digest.of)
REALISATIONS = st.builds(
    Realisation,
    key=DIGESTS,
    builder=st.text(max_size=8),
    outputs=st.dictionaries(st.text(max_size=5), DIGESTS, max_size=3),
    compared=st.lists(st.text(max_size=5), max_size=3).map(tuple),
    inputs=st.dictionaries(
        st.text(max_size=5), st.builds(Input, DIGESTS, st.none() | DIGESTS), max_size=3
    ),
    derivation=st.none() | DIGESTS,
    platform=st.dictionaries(
        st.text(max_size=5), st.integers(0, 9) | st.text(max_size=5), max_size=3
    ),
    origin=st.sampled_from(["built", "ingested", "substituted"]),
    started_at=st.text(max_size=5),
    finished_at=st.text(max_size=5),
    host=st.text(max_size=5),
    user=st.text(max_size=5),
    build=st.text(max_size=5),
    sequence=st.integers(0, 9),
)


@given(REALISATIONS)
def test_a_record_decodes_to_the_build_that_it_encodes(realisation: Realisation) -> None:
    assert Realisation.decode(realisation.encode()) == realisation


BROKEN: dict[str, Any] = {
    "another type": {"type": "root"},
    "a newer format": {"format": 2},
    "a key that is no digest": {"key": "abc"},
    "an unknown origin": {"origin": "dreamt"},
    "an unknown field": {"extra": 1},
    "outputs that are no object": {"outputs": []},
    "an input without an object": {"inputs": {"a": {}}},
}


@pytest.mark.parametrize("name", BROKEN)
def test_a_malformed_record_is_refused(name: str) -> None:
    document = json.loads(build_of("a", {}).encode()) | BROKEN[name]
    with pytest.raises(IntegrityError):
        Realisation.decode(json.dumps(document, sort_keys=True, separators=(",", ":")).encode())


@pytest.mark.parametrize("spoil", [b" ", b"\n"])
def test_only_the_very_encoding_of_a_record_is_read(spoil: bytes) -> None:
    data = replace(build_of("a", {}), build="0123abcd", sequence=1).encode()
    assert Realisation.decode(data).sequence == 1
    for spoiled in (data + spoil, spoil + data, data.replace(b'"sequence":1', b'"sequence":1.0')):
        with pytest.raises(IntegrityError, match="a realisation record is damaged"):
            Realisation.decode(spoiled)


def test_a_build_gets_an_id_that_no_other_has(store: Store) -> None:
    builds = [store.add_realisation(build_of("a", {})).build for _ in range(3)]
    assert len(set(builds)) == 3
    assert all(re.fullmatch("[0-9a-f]{32}", build) for build in builds)


def test_the_first_build_of_a_derivation_is_what_it_evaluates_to(store: Store) -> None:
    derivation = store.add_derivation(DERIVATION)
    one, other = write_text(store, "one"), write_text(store, "other")
    assert store.outputs_of([derivation]) == {}
    store.add_realisation(build_of("a", {"out": one}, derivation=derivation))
    assert store.outputs_of([derivation]) == {derivation: {"out": one}}
    # A rebuild that came out otherwise.
    store.add_realisation(build_of("a", {"out": other}, derivation=derivation))
    assert store.outputs_of([derivation]) == {derivation: {"out": one}}


def test_the_builds_that_an_object_came_out_of_are_known(store: Store) -> None:
    out, also, beside = (write_text(store, text) for text in ("out", "also", "beside"))
    first = store.add_realisation(build_of("a", {"out": out, "log": beside}))
    store.add_realisation(build_of("b", {"out": also}, {"in": Input(out, None)}))
    later = store.add_realisation(build_of("a", {"log": out}))
    assert store.builds_of(out) == [first, later]
    assert store.builds_of(beside) == [first]
    assert store.builds_of(Digest.of(b"nothing")) == []


def test_the_first_build_of_a_key_stays_the_chosen_one(store: Store) -> None:
    one, other = write_text(store, "one"), write_text(store, "other")
    first = store.add_realisation(build_of("a", {"out": one}))
    second = store.add_realisation(build_of("a", {"out": other}))
    assert store.chosen(key_of("a")) == first
    assert store.realisations(key_of("a")) == [first, second]
    assert first.build != second.build
    assert (first.sequence, second.sequence) == (1, 2)


def test_a_key_that_was_never_built_has_no_answer(store: Store) -> None:
    assert store.chosen(key_of("a")) is None
    assert store.realisations(key_of("a")) == []


def test_a_build_answers_only_while_all_its_outputs_are_there(store: Store) -> None:
    lost, kept = write_text(store, "lost"), write_text(store, "kept")
    store.add_realisation(build_of("a", {"out": lost, "log": kept}))
    durability.remove_tree(store.object_path(lost))
    assert store.chosen(key_of("a")) is None
    later = store.add_realisation(build_of("a", {"out": kept}))
    assert store.chosen(key_of("a")) == later
    assert len(store.realisations(key_of("a"))) == 2


def test_a_build_whose_output_is_not_in_the_store_is_refused(store: Store) -> None:
    with pytest.raises(IntegrityError, match="not in the store"):
        store.add_realisation(build_of("a", {"out": Digest.of(b"nothing")}))


def test_a_build_from_another_store_keeps_its_id_and_is_added_once(store: Store) -> None:
    out = write_text(store, "out")
    theirs = replace(build_of("a", {"out": out}), build="0123abcd", origin="substituted")
    added = store.add_realisation(theirs)
    assert added.build == "0123abcd"
    assert store.add_realisation(theirs) == added
    assert store.realisations(key_of("a")) == [added]
    with pytest.raises(IntegrityError, match="recorded already"):
        store.add_realisation(replace(theirs, host="another host"))


@pytest.mark.parametrize("build", ["../../../outside", "a/b", "..", "abc", "0" * 65, "0123ABCD"])
def test_a_build_id_that_is_no_name_is_refused(store: Store, build: str) -> None:
    with pytest.raises(InvalidInputError, match="build id"):
        store.add_realisation(replace(build_of("a", {}), build=build))


def test_a_record_is_a_file_that_anyone_can_read(store: Store) -> None:
    added = store.add_realisation(build_of("a", {"out": write_text(store, "out")}))
    key = key_of("a")
    path = store.path / "realisations" / key[:2] / key / f"{added.build}.json"
    assert Realisation.decode(path.read_bytes()) == added


def test_platform_facts_without_a_canonical_form_are_refused(store: Store) -> None:
    broken = replace(build_of("a", {}), platform={"speed": float("nan")})
    with pytest.raises(InvalidInputError):
        store.add_realisation(broken)


DERIVATION = b'{"format":1,"inputs":{},"name":"quickstart","type":"derivation"}'


def test_a_derivation_is_kept_under_the_digest_of_its_bytes(store: Store) -> None:
    digest = store.add_derivation(DERIVATION)
    assert digest == Digest.of(DERIVATION)
    assert store.add_derivation(DERIVATION) == digest
    assert store.derivation(digest) == DERIVATION


@pytest.mark.parametrize(
    "data",
    [b"", b"{}", b"[]", b'{"type":"tree"}', DERIVATION + b"\n", DERIVATION.replace(b":1", b": 1")],
)
def test_what_is_no_canonical_derivation_is_refused(store: Store, data: bytes) -> None:
    with pytest.raises(InvalidInputError):
        store.add_derivation(data)


def test_a_derivation_that_is_missing_or_damaged_is_refused(store: Store) -> None:
    digest = store.add_derivation(DERIVATION)
    path = store.path / "derivations" / digest[:2] / f"{digest}.json"
    path.chmod(0o644)
    path.write_bytes(DERIVATION.replace(b"quick", b"slow_"))
    with pytest.raises(IntegrityError, match="damaged"):
        store.derivation(digest)
    assert store.add_derivation(DERIVATION) == digest
    assert store.derivation(digest) == DERIVATION
    path.unlink()
    with pytest.raises(IntegrityError, match="not in the store"):
        store.derivation(digest)
    assert store.add_derivation(DERIVATION) == digest
    assert store.derivation(digest) == DERIVATION


def test_a_derivation_remembers_what_it_evaluated_to(store: Store) -> None:
    digest = store.add_derivation(DERIVATION)
    one, other = write_text(store, "one"), write_text(store, "other")
    store.remember_outputs({digest: {"out": one, "log": other}})
    assert store.outputs_of([digest]) == {digest: {"log": other, "out": one}}
    store.remember_outputs({digest: {"out": other}})
    assert store.outputs_of([digest]) == {digest: {"out": other}}
    with pytest.raises(IntegrityError):
        store.remember_outputs({digest: {"out": Digest.of(b"nothing")}})


def test_records_survive_a_restart(store: Store, tmp_path: Path) -> None:
    out = write_text(store, "out")
    added = store.add_realisation(build_of("a", {"out": out}))
    store.close()
    with Store.open(store.path) as again:
        assert again.chosen(key_of("a")) == added
