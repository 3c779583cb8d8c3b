import json
import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from bundles import Answer, FolderStore, Run, Tensor, digest_of
from dis_derivations.comparison.diff import diff_bundles
from dis_derivations.runs import bundle_reader
from dis_derivations.runs.bundle_documents import load_bundle
from dis_derivations.runs.bundle_reader import BundleReader, DirectoryBundle, StoredBundle
from dis_store import Store
from dis_store.errors import DisError, IntegrityError, InvalidInputError

Edit = Callable[[dict[str, Any]], object]
LOGITS = {"00000.decode": Tensor([[1.0, 2.0]] * 3)}


def edit(path: Path, change: Edit) -> None:
    document = json.loads(path.read_text())
    change(document)
    path.write_text(json.dumps(document))


def test_a_bundle_is_found_by_its_directory_and_by_its_document(tmp_path: Path) -> None:
    by_directory = Run().write(tmp_path / "run")

    by_document = DirectoryBundle(tmp_path / "run" / "bundle.json")

    assert by_directory.names() == by_document.names()
    assert "tokens.json" in by_document.names()


def test_a_loaded_bundle_has_typed_documents(tmp_path: Path) -> None:
    bundle = load_bundle(Run(logits=LOGITS).write(tmp_path))

    assert [sequence.id for sequence in bundle.sequences] == ["first", "second"]
    assert bundle.engine_name == "reference"
    assert bundle.has("tokens")
    assert bundle.has("logits")
    assert not bundle.has("activations")
    assert bundle.asked_for("logits")
    assert bundle.document.inputs["weights"] == digest_of("weights")


def test_a_stored_bundle_reads_the_same(tmp_path: Path, store: FolderStore) -> None:
    store.add("bundle", Run(logits=LOGITS).files())

    stored = StoredBundle(store, digest_of("bundle"))
    report = diff_bundles(stored, Run(logits=LOGITS).write(tmp_path / "run"), store=store)

    assert report.same
    assert report.bundles_identical
    assert (report.a.bundle, report.b.bundle) == (digest_of("bundle"), None)


def test_stored_bundles_are_identical_when_their_digests_are(store: FolderStore) -> None:
    for name in ("one", "two"):
        store.add(name, Run(logits=LOGITS).files())
    one, two = (StoredBundle(store, digest_of(name)) for name in ("one", "two"))

    assert diff_bundles(one, one, store=store).bundles_identical
    assert not diff_bundles(one, two, store=store).bundles_identical
    assert diff_bundles(one, two, store=store).to_json()["logits"]["elements_compared"] == 6


def test_tokens_that_are_one_file_are_read_once(
    store: FolderStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    other = Run().having(answers=(Answer("first", (5, 6, 8)), Answer("second", (8, 9))))
    for name, run in (("one", Run()), ("reworded", Run().having(name="two")), ("other", other)):
        store.add(name, run.files())
    read: list[str] = []
    bounded = bundle_reader._read_bounded

    def counted(reader: BundleReader, path: str) -> bytes:
        read.append(path)
        return bounded(reader, path)

    monkeypatch.setattr(bundle_reader, "_read_bounded", counted)
    one, reworded, different = (
        StoredBundle(store, digest_of(name)) for name in ("one", "reworded", "other")
    )

    assert diff_bundles(one, reworded, store=store).same
    assert read.count("tokens.json") == 1
    assert not diff_bundles(one, different, store=store).same
    assert read.count("tokens.json") == 3


@pytest.mark.parametrize(
    ("make", "cause"),
    [
        (lambda path: None, "there is no such directory"),
        (lambda path: path.mkdir(), r"it has no bundle\.json"),
        (lambda path: path.write_text("{}"), "there is no such directory"),
    ],
)
def test_what_is_no_run_directory_is_refused(
    tmp_path: Path, make: Callable[[Path], object], cause: str
) -> None:
    make(tmp_path / "run")

    with pytest.raises(InvalidInputError, match=cause):
        DirectoryBundle(tmp_path / "run")


def test_another_kind_of_document_is_no_bundle(tmp_path: Path, store: FolderStore) -> None:
    (tmp_path / "bundle.json").write_text('{"kind": "something"}')
    store.add("weights", {"model.safetensors": b""})

    with pytest.raises(InvalidInputError, match="is not the bundle of a run"):
        load_bundle(DirectoryBundle(tmp_path))
    with pytest.raises(InvalidInputError, match="is not the bundle of a run"):
        load_bundle(StoredBundle(store, digest_of("weights")))


def put(*path: str, value: object) -> Edit:
    def change(document: dict[str, Any]) -> None:
        target: Any = document
        for key in path[:-1]:
            target = target[key]
        target[path[-1]] = value

    return change


CONTRADICTIONS: list[tuple[str, Edit, str]] = [
    ("bundle.json", put("schema_version", value=2), "/schema_version must be 1"),
    ("bundle.json", put("schema_version", value=True), "/schema_version must be 1"),
    ("bundle.json", lambda document: document.pop("results"), "/results is missing"),
    ("bundle.json", put("results", value="abc"), "/results must be a digest"),
    ("bundle.json", put("run_id", value=f"sha256:{'0' * 64}"), "the run_id is wrong"),
    (
        "bundle.json",
        put("hardware", "conformant", value="yes"),
        "/hardware/conformant must be true or false",
    ),
    ("bundle.json", put("hardware", "reasons", value=[1]), "/hardware/reasons/0 must be a string"),
    ("bundle.json", put("platform", value=[]), "/platform must be an object"),
    (
        "bundle.json",
        put("capture", "logits", value="captured"),
        r"logits\.safetensors is not there",
    ),
    ("bundle.json", put("engine", "numerics", value=2), "there are two engines"),
    ("bundle.json", put("inputs", "requests", value="0" * 64), "there are two requests objects"),
    ("manifest.used.json", put("metadata", value={}), "the manifest_id is wrong"),
    ("lock.used.json", put("lock_id", value=f"sha256:{'0' * 64}"), "the lock_id is wrong"),
    ("lock.used.json", put("artifacts", value=[]), "the lock_id is wrong"),
    ("engine.json", lambda document: document.pop("engine"), "/engine is missing"),
    ("tokens.json", put("decoded_output_text", value=[]), "has 0 texts for 2 sequences"),
    ("tokens.json", put("sequences", value=[1]), "/sequences/0 must be an object"),
    ("tokens.json", put("sequences", value={}), "/sequences must be a list"),
    (
        "tokens.json",
        lambda document: document["sequences"][0].update(output_token_ids=[1, -1]),
        "/sequences/0/output_token_ids must hold only token ids",
    ),
    (
        "tokens.json",
        lambda document: document["sequences"][0].update(output_token_ids=[True]),
        "must hold only token ids",
    ),
    (
        "tokens.json",
        lambda document: document["sequences"][1].update(id="first"),
        "has the id 'first', as a sequence before it",
    ),
]


@pytest.mark.parametrize(("name", "change", "message"), CONTRADICTIONS)
def test_a_bundle_that_contradicts_itself_is_refused(
    tmp_path: Path, store: FolderStore, name: str, change: Edit, message: str
) -> None:
    reader = Run().write(tmp_path / "run")
    edit(tmp_path / "run" / name, change)
    store.add("bundle", {file: reader.read_bytes(file) for file in reader.names()})

    with pytest.raises(InvalidInputError, match=message) as edited:
        load_bundle(reader)
    with pytest.raises(IntegrityError, match=message) as stored:
        load_bundle(StoredBundle(store, digest_of("bundle")))

    assert (edited.value.exit_code, stored.value.exit_code) == (2, 4)
    assert edited.value.hint is not None
    assert stored.value.hint is not None


@pytest.mark.parametrize(
    "name", ["tokens.json", "manifest.used.json", "lock.used.json", "engine.json"]
)
@pytest.mark.parametrize(
    ("data", "message"),
    [(b"{", "is not valid JSON"), (b"[]", "must be an object"), (None, "there is no")],
)
def test_a_document_that_is_missing_or_broken_is_named(
    tmp_path: Path, name: str, data: bytes | None, message: str
) -> None:
    reader = Run().write(tmp_path)
    if data is None:
        (tmp_path / name).unlink()
    else:
        (tmp_path / name).write_bytes(data)

    with pytest.raises(InvalidInputError, match=message) as caught:
        load_bundle(reader)

    assert name in caught.value.what


def test_a_capture_that_nothing_speaks_of_is_refused(tmp_path: Path) -> None:
    reader = Run().write(tmp_path)
    (tmp_path / "logits.safetensors").write_bytes(b"")

    with pytest.raises(InvalidInputError, match="the captures are not what they should be"):
        load_bundle(reader)


@pytest.mark.parametrize("stored", [False, True])
def test_a_malformed_capture_is_refused(tmp_path: Path, store: FolderStore, stored: bool) -> None:
    run = Run(logits=LOGITS)
    good, bad = run.write(tmp_path / "good"), run.write(tmp_path / "bad")
    path = tmp_path / "bad" / "logits.safetensors"
    path.write_bytes(path.read_bytes()[:-1])
    store.add("bad", {file: bad.read_bytes(file) for file in bad.names()})
    reader = StoredBundle(store, digest_of("bad")) if stored else bad

    with pytest.raises(DisError, match=r"logits\.safetensors is malformed") as caught:
        diff_bundles(good, reader, store=None)

    assert caught.value.exit_code == (4 if stored else 2)


def test_a_line_of_a_trace_has_a_bound(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("dis_derivations.comparison.trace.MAX_LINE_BYTES", 10)
    run = Run(trace=[{"step": 0, "requests": []}]).write(tmp_path)

    with pytest.raises(InvalidInputError, match=r"engine_trace\.jsonl is malformed"):
        diff_bundles(run, run, store=None)


def test_a_link_out_of_the_directory_is_refused(tmp_path: Path) -> None:
    reader = Run().write(tmp_path / "run")
    (tmp_path / "secret.json").write_text("{}")
    (tmp_path / "run" / "engine.json").unlink()
    (tmp_path / "run" / "engine.json").symlink_to("../secret.json")

    with pytest.raises(InvalidInputError, match="leads out of the directory"):
        reader.read_bytes("engine.json")
    assert "engine.json" not in reader.names()


def test_a_path_out_of_the_directory_is_refused(tmp_path: Path) -> None:
    reader = Run().write(tmp_path / "run")
    (tmp_path / "secret.json").write_text("{}")

    with pytest.raises(InvalidInputError, match="leads out of the directory"):
        reader.path("../secret.json")


def test_a_link_inside_the_directory_is_followed(tmp_path: Path) -> None:
    reader = Run().write(tmp_path)
    (tmp_path / "engine.json").rename(tmp_path / "real.json")
    (tmp_path / "engine.json").symlink_to("real.json")

    assert load_bundle(reader).engine_name == "reference"


def test_a_pipe_in_place_of_a_file_is_refused(tmp_path: Path) -> None:
    reader = Run().write(tmp_path)
    (tmp_path / "engine.json").unlink()
    os.mkfifo(tmp_path / "engine.json")

    with pytest.raises(InvalidInputError, match="it is not a regular file"):
        reader.read_bytes("engine.json")


def test_a_document_beyond_all_bounds_is_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(bundle_reader, "MAX_DOCUMENT_BYTES", 10)
    reader = Run().write(tmp_path)

    with pytest.raises(InvalidInputError, match="is too large"):
        reader.read_bytes("engine.json")


def test_a_missing_file_of_a_stored_bundle_is_an_integrity_error(store: FolderStore) -> None:
    store.add("bundle", Run().files())

    with pytest.raises(IntegrityError, match=r"there is no logits\.safetensors"):
        StoredBundle(store, digest_of("bundle")).open("logits.safetensors")


def test_a_bundle_in_a_real_store_is_read_through_its_references(tmp_path: Path) -> None:
    run = Run(logits=LOGITS, trace=[{"step": 0}])
    files = run.files()
    referenced = ("logits.safetensors", "engine.json", "engine_trace.jsonl")
    with Store.open(tmp_path / "store") as store:
        with store.new_tree() as tree:
            for name in referenced:
                tree.write_bytes(name, files[name])
            results = tree.register()
        with store.new_tree() as tree:
            for name in files.keys() - set(referenced):
                tree.write_bytes(name, files[name])
            for name in referenced:
                tree.reference(name, results, name)
            bundle = tree.register()

        report = diff_bundles(StoredBundle(store, bundle), run.write(tmp_path / "run"), store=store)

    assert report.same
    assert report.bundles_identical
    assert report.to_json()["logits"]["elements_compared"] == 6
