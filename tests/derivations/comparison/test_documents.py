"""Manifests, locks, closures, tokenizers, datasets and other objects are compared as what they are."""

import json
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import pytest

from bundles import Tensor, safetensors
from dis_derivations.comparison.anything import compare
from dis_derivations.comparison.documents.manifests import diff_locks, diff_manifests
from dis_derivations.comparison.documents.objects import diff_objects
from dis_derivations.comparison.documents.rendering import render_documents
from dis_derivations.comparison.documents.report import DocumentsReport
from dis_derivations.lock.document import Lock, LockedFile
from dis_derivations.runs.reference import resolve
from dis_store import Store
from dis_store.digest import Digest, Sha256
from dis_store.errors import IntegrityError, InvalidInputError
from run_shelf import add_object, make_writable
from tiny_runs import write_manifest

TOKENIZER = {"model": {"type": "BPE", "vocab": {"a": 0}, "merges": []}, "normalizer": None}


@pytest.fixture
def store(tmp_path: Path) -> Iterator[Store]:
    with Store.open(tmp_path / "store") as opened:
        yield opened
    make_writable(tmp_path / "store")


def stored(store: Store, **files: Any) -> Digest:
    return add_object(
        store,
        {
            name.replace("__", "."): text.encode()
            if isinstance(text, str)
            else json.dumps(text).encode()
            for name, text in files.items()
        },
    )


def kinds(report: DocumentsReport) -> list[tuple[str, bool]]:
    return [(group.kind, group.matters) for group in report.groups]


def test_manifests_are_compared_by_what_their_fields_are_about(tmp_path: Path) -> None:
    one = write_manifest(tmp_path / "one")
    two = write_manifest(
        tmp_path / "two",
        metadata={"name": "tiny", "description": "x", "created_at": "2026-01-01T00:00:00Z", "owners": ["me"]},
        vllm={"mode": "offline", "engine_args": {"model": "tiny", "max_model_len": 7}},
        outputs={"directory": "elsewhere/${run_id}"},
    )  # fmt: skip

    report = diff_manifests(one, two)

    assert kinds(report) == [("engine", True), ("description", False), ("places", False)]
    assert (report.same, report.identical) == (False, False)
    assert "Description (cannot change a result)" in render_documents(report)
    assert str(tmp_path) not in json.dumps(report.to_json())


def test_manifests_of_one_id_are_the_same_and_say_where_they_differ(tmp_path: Path) -> None:
    one = write_manifest(tmp_path / "one")
    two = write_manifest(tmp_path / "two", outputs={"directory": "elsewhere/${run_id}"})

    report = diff_manifests(one, two)

    assert (report.same, report.identical, report.answer(strict=True)) == (True, True, True)
    assert kinds(report) == [("places", False)]


def lock(path: Path, *, text: str = "one", commit: str = "c0", name: str = "model.weight") -> Path:
    digest = Sha256.of(text.encode())
    file = LockedFile(name, "model.safetensors", 3, digest, False, "computed", {})
    sources = {name: {"commit": commit}}
    made = Lock(Sha256.of(b"manifest"), "2026-01-01T00:00:00Z", (file,), sources)
    path.write_bytes(made.encode())
    return path


def test_locks_are_compared_file_by_file(tmp_path: Path) -> None:
    one, two = lock(tmp_path / "1.json"), lock(tmp_path / "2.json", text="two", commit="c1")

    report = diff_locks(one, two)

    assert kinds(report) == [("model.weight", True), ("sources", False)]
    assert [change.name for change in report.groups[0].changes] == ["model.safetensors"]
    assert diff_locks(one, one).identical


def test_locks_of_the_same_files_from_elsewhere_are_the_same(tmp_path: Path) -> None:
    report = diff_locks(lock(tmp_path / "1.json"), lock(tmp_path / "2.json", commit="c1"))

    assert (report.same, report.identical) == (True, False)
    assert not report.answer(strict=True)


def test_a_lock_that_was_changed_is_damaged(tmp_path: Path) -> None:
    path = lock(tmp_path / "1.json")
    path.write_text(path.read_text().replace("model.safetensors", "other.safetensors"))

    with pytest.raises(IntegrityError, match="was changed after it was made"):
        diff_locks(path, path)


def test_tokenizers_are_compared_by_vocabulary(store: Store) -> None:
    other = {**TOKENIZER, "model": {"type": "BPE", "vocab": {"b": 0}, "merges": []}}

    report = diff_objects(
        (store, store),
        stored(store, tokenizer__json=TOKENIZER),
        stored(store, tokenizer__json=other),
    )

    assert report.subject == "tokenizers"
    assert report.groups[0].changes[0].old == "1 only here: 'a'"
    assert render_documents(report).startswith("A  ")
    assert "Tokenizers: DIFFERENT" in render_documents(report)


def test_datasets_are_compared_by_line_or_by_item(store: Store) -> None:
    one, two = (stored(store, dataset__txt=f"one\n{middle}\nthree\n") for middle in ("two", "2"))
    (text,) = diff_objects((store, store), one, two).texts
    assert text.lines == (" one", "-two", "+2", " three")

    one, two = (
        stored(store, dataset__json=[{"id": "a", "text": "x"}, {"id": "b", "text": last}])
        for last in ("y", "z")
    )
    (change,) = diff_objects((store, store), one, two).groups[0].changes
    assert (change.name, change.old, change.new) == ("/b/text", "y", "z")


def test_closures_are_compared_by_their_documents(store: Store) -> None:
    one, two = (
        stored(store, closure__json={"engine": {"settings": {"max_model_len": length}}})
        for length in (7, 8)
    )

    report = diff_objects((store, store), one, two)

    assert report.subject == "closures"
    assert [change.name for change in report.groups[0].changes] == [
        "/engine/settings/max_model_len"
    ]


def closure(store: Store, *shards: Mapping[str, list[float]], length: int = 7) -> Digest:
    """Register a closure whose weights lie in files, and in an index of them."""
    with store.new_tree() as tree:
        document = {"engine": {"settings": {"max_model_len": length}}}
        tree.write_bytes("closure.json", json.dumps(document).encode())
        for number, shard in enumerate(shards):
            file = safetensors({name: Tensor(values) for name, values in shard.items()})
            tree.write_bytes(f"model/{number}-of-{len(shards)}.safetensors", file)
        index = {name: number for number, shard in enumerate(shards) for name in shard}
        tree.write_bytes("model/model.safetensors.index.json", json.dumps(index).encode())
        return tree.register()


def test_closures_with_the_same_weights_are_not_the_same_for_it(store: Store) -> None:
    one, two = (closure(store, {"a": [1.0]}, length=length) for length in (7, 8))

    found = compare(store, resolve(store, one), resolve(store, two))

    assert not found.report.same
    assert "Closures: DIFFERENT" in found.text()
    assert "closure.json /engine/settings/max_model_len: 7 → 8" in found.text()


def test_the_weights_of_closures_are_compared_by_tensor(store: Store) -> None:
    one = closure(store, {"a": [1.0], "b": [2.0]})
    tuned = closure(store, {"a": [1.0], "b": [3.0]})

    text = compare(store, resolve(store, one), resolve(store, tuned)).text()

    assert "Closures: DIFFERENT" in text
    assert "tensor b: other values (F32 [1])" in text
    assert "tensor a" not in text


def test_closures_with_the_same_tensors_in_other_files_are_the_same(store: Store) -> None:
    one = closure(store, {"a": [1.0], "b": [2.0]})
    two = closure(store, {"a": [1.0]}, {"b": [2.0]})

    found = compare(store, resolve(store, one), resolve(store, two))

    assert found.report.same
    assert not found.report.answer(strict=True)
    assert "Files of the same weights (cannot change a result)" in found.text()


def test_objects_of_any_kind_are_compared_by_file(store: Store) -> None:
    report = diff_objects((store, store), stored(store, a="1", b="1"), stored(store, b="2", c="2"))

    assert report.subject == "objects"
    assert [change.name for change in report.groups[0].changes] == ["a", "b", "c"]
    assert diff_objects((store, store), stored(store, a="1"), stored(store, a="1")).identical


def test_objects_of_different_kinds_do_not_compare(store: Store) -> None:
    with pytest.raises(InvalidInputError, match="do not compare") as refusal:
        diff_objects(
            (store, store),
            stored(store, tokenizer__json=TOKENIZER),
            stored(store, dataset__txt="x"),
        )
    assert refusal.value.cause == "A is one of the tokenizers, B one of the datasets"


def test_a_manifest_and_a_lock_do_not_compare(store: Store, tmp_path: Path) -> None:
    manifest, locked = write_manifest(tmp_path / "one"), lock(tmp_path / "1.json")

    with pytest.raises(InvalidInputError, match="do not compare"):
        compare(store, resolve(store, str(manifest)), resolve(store, str(locked)))


def test_a_manifest_and_a_run_do_not_compare(store: Store, tmp_path: Path) -> None:
    manifest = resolve(store, str(write_manifest(tmp_path / "one")))
    digest = stored(store, tokenizer__json=TOKENIZER)

    with pytest.raises(InvalidInputError, match="is a manifest, not a run"):
        compare(store, manifest, resolve(store, digest))


def test_malformed_documents_are_told_apart_by_their_bytes(store: Store) -> None:
    one, two = stored(store, tokenizer__json="{"), stored(store, tokenizer__json="[")

    report = diff_objects((store, store), one, two)

    assert kinds(report) == [("files", True)]
