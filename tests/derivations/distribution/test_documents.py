"""Objects, archives and records as documents of a registry: what goes out comes back, and nothing else does."""

import io
import json
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from dis_derivations.distribution import layout
from dis_derivations.distribution.build_records import BuildRecords, claims_document, read_claims
from dis_derivations.distribution.files_archive import FilesArchive, archive_size, unpack
from dis_derivations.distribution.kept import kept_by
from dis_derivations.distribution.object_documents import (
    RemoteObject,
    decode_object,
    encode_object,
    is_model,
    needs_archive,
)
from dis_derivations.registry.documents import (
    MAX_MANIFEST_BYTES,
    Descriptor,
    media_type_of,
    read_index,
    read_manifest,
)
from dis_derivations.registry.errors import RegistryMismatchError
from dis_store import FileEntry, ReferenceEntry, Store, Tree
from dis_store.digest import Digest, Sha256
from dis_store.errors import IntegrityError
from dis_store.writing.work_space import work_space
from tiny_runs import Built

SHA = Sha256(f"sha256:{'5' * 64}")
_NAMES = st.lists(
    st.from_regex(r"[a-z]{1,6}(\.[a-z]{1,4})?", fullmatch=True), min_size=1, max_size=6, unique=True
)


def sha256_of(blake3: Digest) -> Sha256:
    return Sha256(f"sha256:{blake3}")


@st.composite
def trees(draw: st.DrawFn) -> Tree:
    entries: list[FileEntry | ReferenceEntry] = []
    for number, name in enumerate(draw(_NAMES)):
        path = f"{name}{number}"
        if draw(st.booleans()):
            entries.append(
                FileEntry(
                    path,
                    draw(st.integers(0, 1 << 40)),
                    Digest.of(name.encode()),
                    draw(st.booleans()),
                )
            )
        else:
            entries.append(
                ReferenceEntry(path, Digest.of(b"r"), draw(st.sampled_from([None, "x"])))
            )
    sizes: dict[Digest, int] = {}
    same = [
        FileEntry(e.path, sizes.setdefault(e.blake3, e.size), e.blake3, e.executable)
        if isinstance(e, FileEntry)
        else e
        for e in entries
    ]
    return Tree(tuple(same))


def back(tree: Tree, kind: str) -> RemoteObject:
    encoded = encode_object(tree, kind, sha256_of, None)
    small = {Sha256.of(data): data for data in encoded.small}
    manifest = read_manifest(encoded.manifest.encode())
    assert manifest == encoded.manifest
    return decode_object(manifest, tree.digest, lambda layer: small[layer.digest])


@given(trees(), st.sampled_from(["weights", "object"]))
def test_an_object_comes_back_from_its_manifest(tree: Tree, kind: str) -> None:
    found = back(tree, kind)

    assert found.tree == tree
    assert set(found.contents) == {entry.blake3 for entry in tree.files}
    assert all(blob.digest == sha256_of(blake3) for blake3, blob in found.contents.items())


def test_weights_are_a_model_that_others_can_pull() -> None:
    tree = Tree(
        (
            FileEntry("config.json", 2, Digest.of(b"{}")),
            FileEntry("model.safetensors", 5, Digest.of(b"bytes")),
            FileEntry("README.md", 1, Digest.of(b"x")),
        )
    )
    encoded = encode_object(tree, "weights", sha256_of, None)
    manifest = json.loads(encoded.manifest.encode())
    (config,) = map(json.loads, encoded.small)

    assert manifest["artifactType"] == "application/vnd.cncf.model.manifest.v1+json"
    kinds = {
        each["annotations"][layout.FILE_PATH]: each["mediaType"] for each in manifest["layers"]
    }
    assert kinds == {
        "config.json": "application/vnd.cncf.model.weight.config.v1.raw",
        "model.safetensors": "application/vnd.cncf.model.weight.v1.raw",
        "README.md": "application/vnd.cncf.model.doc.v1.raw",
    }
    assert all(each["annotations"][layout.TITLE] in kinds for each in manifest["layers"])
    # The schema of the config is closed: https://github.com/modelpack/model-spec, schema/config-schema.json.
    assert set(config) == {"descriptor", "config", "modelfs"}
    assert config["config"] == {"format": "safetensors"}
    assert config["modelfs"]["diffIds"] == [each["digest"] for each in manifest["layers"]]


def test_what_is_more_than_files_is_no_model() -> None:
    file = FileEntry("a.safetensors", 1, Digest.of(b"a"))
    assert is_model(Tree((file,)), "weights")
    assert not is_model(Tree((file,)), "tokenizer")
    assert not is_model(Tree((file, ReferenceEntry("b", Digest.of(b"b")))), "weights")
    assert not is_model(Tree(()), "weights")
    assert not is_model(Tree((file,), portable_names=False), "weights")


def many_files(store: Store, count: int) -> Digest:
    with store.new_tree() as tree:
        for number in range(count):
            tree.write_bytes(f"d/{number:04d}", b"%d" % (number % 700), executable=number == 3)
        return tree.register()


def test_the_archive_of_an_object_is_the_same_from_any_position(tmp_path: Path) -> None:
    with Store.open(tmp_path / "store") as store:
        archive = FilesArchive(store, many_files(store, 20))
        whole = b"".join(archive.read(0, archive.size))
        assert len(whole) == archive.size
        for start in (0, 1, 511, 512, 513, 5000, archive.size - 1):
            for end in (start, start + 1, start + 700, archive.size):
                end = min(end, archive.size)  # noqa: PLW2901 - cut to what there is
                assert b"".join(archive.read(start, end)) == whole[start:end]
        described = archive.descriptor(lambda: None)
        assert described.digest == Sha256.of(whole)
        assert archive.descriptor(lambda: pytest.fail("it was hashed again")) == described


def test_an_archive_is_unpacked_and_every_changed_byte_of_it_is_found(tmp_path: Path) -> None:
    with Store.open(tmp_path / "store") as store:
        digest = many_files(store, 12)
        tree = store.tree(digest)
        archive = FilesArchive(store, digest)
        whole = b"".join(archive.read(0, archive.size))
        assert archive_size(tree) == archive.size
        with work_space(store.path / "tmp") as space:
            found = unpack(io.BytesIO(whole), tree, space, lambda _: None)
            assert found.keys() == {entry.blake3 for entry in tree.files}
        for position in range(0, len(whole), 97):
            changed = bytearray(whole)
            changed[position] ^= 1
            with (
                work_space(store.path / "tmp") as space,
                pytest.raises(IntegrityError),
            ):
                unpack(io.BytesIO(changed), tree, space, lambda _: None)


def test_an_object_of_many_files_travels_as_one_archive(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(layout, "MOST_FILES", 20)
    with Store.open(tmp_path / "store") as store:
        digest = many_files(store, layout.MOST_FILES + 1)
        tree = store.tree(digest)
        assert needs_archive(tree, "object")
        assert not needs_archive(Tree(tree.files[: layout.MOST_FILES]), "object")
        described = FilesArchive(store, digest).descriptor(lambda: None)
        encoded = encode_object(tree, "object", sha256_of, described)
        assert len(encoded.manifest.layers) == 2
        small = {Sha256.of(data): data for data in encoded.small}
        found = decode_object(encoded.manifest, digest, lambda layer: small[layer.digest])
        assert (found.tree, found.archive) == (tree, described)


def test_the_builds_of_a_run_travel_without_who_made_them(built: Built) -> None:
    kept = kept_by(built.store, built.root, outputs_only=False)
    data = kept.records.encode()
    narrow = kept_by(built.store, built.root, outputs_only=True)
    names = {record.host for record in built.store.builds_of(built.root.object)}

    assert BuildRecords.decode(data).encode() == data
    assert {each.name for each in kept.objects} >= {
        "weights",
        "tokenizer",
        "run",
        "generation",
        "run-log",
    }
    assert len(narrow.objects) < len(kept.objects)
    document = json.loads(data)
    for build in document["builds"]:
        assert (build["record"]["host"], build["record"]["user"]) == ("", "")
    assert not any(f'"{name}"'.encode() in data for name in names)
    claims = claims_document(kept.records.builds)
    assert claims_document(read_claims(claims)) == claims


@pytest.mark.parametrize(
    "document",
    [
        {"manifests": []},
        {"schemaVersion": 1, "manifests": []},
        {"schemaVersion": 2, "manifests": [{}]},
        {"schemaVersion": 2, "manifests": [{"mediaType": "x", "digest": SHA, "size": -1}]},
        {"schemaVersion": 2, "manifests": [{"mediaType": "x", "digest": SHA, "size": "1"}]},
        {"schemaVersion": 2, "manifests": [{"mediaType": "x", "digest": SHA, "size": True}]},
        {
            "schemaVersion": 2,
            "manifests": [{"mediaType": "x", "digest": "sha256:../../x", "size": 1}],
        },
        {"schemaVersion": 2, "manifests": [{"mediaType": 1, "digest": SHA, "size": 1}]},
        {"schemaVersion": 2, "manifests": [], "annotations": {"a": 1}},
        {"schemaVersion": 2, "manifests": [], "annotations": []},
        {"schemaVersion": 2, "manifests": [], "subject": {}},
        {"schemaVersion": 2, "manifests": {}, "artifactType": 3},
        {"schemaVersion": 2, "manifests": 3},
    ],
)
def test_an_index_that_is_malformed_is_refused(document: dict[str, Any]) -> None:
    with pytest.raises(RegistryMismatchError):
        read_index(json.dumps(document).encode())


@given(st.binary(max_size=300))
def test_any_bytes_are_a_document_or_refused(data: bytes) -> None:
    for read in (read_index, read_manifest):
        with pytest.raises(RegistryMismatchError):
            read(data)


def test_a_document_of_too_many_parts_is_refused_before_it_is_read() -> None:
    for data in (b" " * (MAX_MANIFEST_BYTES + 1), b"[" * 300_000):
        with pytest.raises(RegistryMismatchError) as caught:
            read_index(data)
        assert "too large" in str(caught.value.cause)


def test_a_media_type_is_what_the_document_says_and_not_contradicted() -> None:
    index = (
        b'{"schemaVersion":2,"mediaType":"%b","manifests":[]}'
        % b"application/vnd.oci.image.index.v1+json"
    )
    assert media_type_of(index, "") == media_type_of(index, "application/octet-stream")
    silent = b'{"schemaVersion":2,"manifests":[]}'
    assert media_type_of(silent, "application/vnd.oci.image.index.v1+json; charset=utf-8")
    for data, told in (
        (index, "application/vnd.oci.image.manifest.v1+json"),
        (silent, "application/vnd.oci.image.manifest.v1+json"),
        (silent, "text/html"),
    ):
        with pytest.raises(RegistryMismatchError):
            media_type_of(data, told)


def test_names_are_fit_for_tags_and_unique() -> None:
    names = layout.unique_names(
        ["Weights", "weights", "a b/c", "", "x" * 99, "records"], ["records"]
    )

    assert names == ["weights", "weights-2", "a-b-c", "object", "x" * 40, "records-2"]


def test_a_descriptor_says_no_more_than_it_must() -> None:
    assert Descriptor("x", SHA, 1).to_json() == {"mediaType": "x", "digest": SHA, "size": 1}
