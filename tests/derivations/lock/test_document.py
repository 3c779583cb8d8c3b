import json
from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from dis_derivations.lock.document import Lock, LockedFile, decode_document
from dis_store import canonical_json
from dis_store.digest import Sha256
from dis_store.errors import IntegrityError, InvalidInputError

MANIFEST_ID = Sha256.of(b"manifest")


def a_file(
    name: str = "model.weight", path: str = "model.safetensors", **members: Any
) -> LockedFile:
    fields: dict[str, Any] = {
        "name": name,
        "path": path,
        "size": 16,
        "digest": Sha256.of(path.encode()),
        "executable": False,
        "digest_source": "computed",
        "retrieval": {"type": "local", "local_path": "model", "files": "found"},
    }
    return LockedFile(**{**fields, **members})


def a_lock(*files: LockedFile, **members: Any) -> Lock:
    fields: dict[str, Any] = {
        "manifest_id": MANIFEST_ID,
        "generated_at": "2026-11-29T12:00:00.000Z",
        "artifacts": files or (a_file(), a_file("model.config", "config.json")),
        "sources": {},
    }
    return Lock(**{**fields, **members})


_PATHS = st.from_regex(r"[a-z]{1,8}(/[a-z]{1,8})?\.json", fullmatch=True)
_FILES = st.builds(
    a_file,
    name=st.sampled_from(["model.weight", "model.config", "python.package.torch"]),
    path=_PATHS,
    size=st.integers(0, 2**53 - 1),
    digest=st.binary(max_size=4).map(Sha256.of),
    executable=st.booleans(),
    digest_source=st.sampled_from(["computed", "published"]),
    retrieval=st.dictionaries(st.text(max_size=4), st.text(max_size=4), max_size=2),
)
_LISTS = st.lists(_FILES, max_size=5, unique_by=lambda file: (file.name, file.path))


@given(
    _LISTS,
    st.dictionaries(st.text(), st.dictionaries(st.text(), st.text(), max_size=1), max_size=2),
)
def test_decoding_undoes_encoding(files: list[LockedFile], sources: dict[str, Any]) -> None:
    lock = Lock(MANIFEST_ID, "2026-11-29T12:00:00Z", tuple(files), sources)
    again = Lock.decode(lock.encode(), name="the lock")
    assert again == lock
    assert again.lock_id == lock.lock_id
    assert again.encode() == lock.encode()


@given(_LISTS, st.randoms(use_true_random=False))
def test_the_order_of_artifacts_does_not_matter(files: list[LockedFile], order: Any) -> None:
    shuffled = list(files)
    order.shuffle(shuffled)
    assert a_lock(*files, a_file(path="one")) == a_lock(a_file(path="one"), *shuffled)


def test_the_id_does_not_know_when_where_or_for_which_manifest_a_lock_was_made() -> None:
    lock = a_lock(a_file())
    others = [
        replace(lock, manifest_id=Sha256.of(b"another")),
        replace(lock, generated_at="1999-01-01T00:00:00Z"),
        a_lock(a_file(retrieval={"type": "huggingface", "repository": "a/b"})),
        a_lock(a_file(digest_source="published")),
    ]
    assert {other.lock_id for other in others} == {lock.lock_id}
    assert {json.dumps(other.used, sort_keys=True) for other in others} == {
        json.dumps(lock.used, sort_keys=True)
    }


@pytest.mark.parametrize(
    "other",
    [
        a_lock(a_file(name="model.config")),
        a_lock(a_file(path="other.safetensors", digest=Sha256.of(b"model.safetensors"))),
        a_lock(a_file(size=17)),
        a_lock(a_file(digest=Sha256.of(b"other"))),
        a_lock(a_file(executable=True)),
        a_lock(a_file(), sources={"model.weight": {"commit": "0" * 40}}),
        a_lock(a_file(), a_file(path="second")),
    ],
)
def test_the_id_knows_names_paths_sizes_digests_and_commits(other: Lock) -> None:
    assert other.lock_id != a_lock(a_file()).lock_id


def test_the_id_is_the_hash_of_what_a_bundle_holds_without_the_id() -> None:
    used = a_lock().used
    lock_id = used.pop("lock_id")
    assert lock_id == canonical_json.sha256(used)
    assert lock_id == a_lock().lock_id


def test_a_lockfile_is_laid_out_for_people() -> None:
    text = a_lock().encode().decode()
    assert text.endswith("}\n")
    assert text.startswith('{\n  "artifacts": [\n    {\n      "digest": "sha256:')
    assert list(json.loads(text)) == sorted(json.loads(text))


@pytest.mark.parametrize(
    ("field", "value"),
    [
        ("size", 17),
        ("digest", Sha256.of(b"other")),
        ("path", "other.safetensors"),
        ("name", "model.other"),
        ("executable", True),
    ],
)
def test_a_lock_that_was_edited_is_refused(field: str, value: Any) -> None:
    document = json.loads(a_lock().encode())
    document["artifacts"][0][field] = value
    with pytest.raises(IntegrityError, match="the lock was changed after it was made") as caught:
        decode_document(document, name="the lock")
    assert caught.value.exit_code == 4
    assert "dis lock" in str(caught.value.hint)


def test_a_wrong_id_is_refused_whatever_it_is() -> None:
    wrong: Any
    for wrong in ("sha256:" + "0" * 64, "x", 5, None, []):
        document = {**json.loads(a_lock().encode()), "lock_id": wrong}
        with pytest.raises(IntegrityError):
            decode_document(document, name="the lock")


@pytest.mark.parametrize(
    ("change", "cause"),
    [
        ({"kind": "vllm.deterministic_inference_manifest"}, "its kind is"),
        ({"schema_version": 2}, "its schema_version is 2"),
        ({"lock_algorithm": "md5"}, "its lock_algorithm is 'md5'"),
        ({"runtime_closure_digest": "x"}, "has the unknown field 'runtime_closure_digest'"),
        ({"manifest_id": "ab" * 32}, "is not a SHA-256 digest"),
        ({"generated_at": "today"}, "must be a time"),
        ({"generated_at": 5}, ""),
        ({"artifacts": {}}, "artifacts is a list"),
        ({"artifacts": [5]}, "an artifact is an object"),
        ({"sources": []}, "sources is an object"),
        ({"sources": {"a": {"commit": 5}}}, "is an object of strings"),
    ],
)
def test_what_is_no_lock_of_this_version_is_refused(change: dict[str, Any], cause: str) -> None:
    document = {**json.loads(a_lock().encode()), **change}
    with pytest.raises(InvalidInputError, match="is not a lock that this version") as caught:
        decode_document(document, name="the lock")
    assert cause in str(caught.value.cause)
    assert caught.value.exit_code == 2


@pytest.mark.parametrize(
    "change",
    [
        {"size": -1},
        {"size": 1.0},
        {"size": True},
        {"executable": 0},
        {"digest": "ab" * 32},
        {"digest": None},
        {"digest_source": "guessed"},
        {"retrieval": "local"},
        {"path": "../outside"},
        {"path": "/absolute"},
        {"path": ""},
        {"name": ""},
        {"name": 5},
        {"more": 1},
    ],
)
def test_a_malformed_artifact_is_refused(change: dict[str, Any]) -> None:
    document = json.loads(a_lock().encode())
    document["artifacts"][0].update(change)
    with pytest.raises(InvalidInputError, match="is not a lock"):
        decode_document(document, name="the lock")


@pytest.mark.parametrize("field", sorted(json.loads(a_lock().encode())))
def test_every_field_is_required(field: str) -> None:
    document = json.loads(a_lock().encode())
    del document[field]
    with pytest.raises(InvalidInputError):
        decode_document(document, name="the lock")


def test_the_same_file_twice_is_refused() -> None:
    document = json.loads(a_lock(a_file()).encode())
    document["artifacts"] *= 2
    with pytest.raises(InvalidInputError, match="twice"):
        decode_document(document, name="the lock")


@pytest.mark.parametrize("data", [b"", b"[]", b"{", b'{"kind":1,"kind":2}', b"\xff\xfe{\x00}\x00"])
def test_bytes_that_are_no_lock_are_refused(data: bytes) -> None:
    with pytest.raises(InvalidInputError, match=r"x\.lock"):
        Lock.decode(data, name="x.lock")


@given(st.binary(max_size=80))
def test_any_bytes_are_either_a_lock_or_refused(data: bytes) -> None:
    with pytest.raises(InvalidInputError):
        Lock.decode(data, name="the lock")
