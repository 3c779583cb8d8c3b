"""What a REF names."""

import json
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from dis_derivations.runs.reference import resolve
from dis_store import Root, Store
from dis_store.digest import Digest
from dis_store.errors import DisError, InvalidInputError, UnfitEnvironmentError


@pytest.fixture
def directory(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Return the working directory."""
    (tmp_path / "work").mkdir()
    monkeypatch.chdir(tmp_path / "work")
    return tmp_path / "work"


def plain_object(store: Store) -> Digest:
    with store.new_tree() as tree:
        tree.write_bytes("value", b"1")
        return tree.register()


def test_a_root_of_a_run_is_a_run(store: Store, run: Digest) -> None:
    found = resolve(store, "example.00000000")
    assert (found.kind, found.digest, found.root) == ("run", run, "example.00000000")
    assert found.entry == store.root("example.00000000")


def test_the_beginning_of_a_digest_is_enough(store: Store, run: Digest) -> None:
    assert resolve(store, run[:8]).digest == run
    assert resolve(store, run).kind == "run"


def test_a_root_comes_before_a_digest(store: Store, run: Digest) -> None:
    other = plain_object(store)
    store.set_root(run[:8], Root(other))
    assert resolve(store, run[:8]).digest == other


def test_an_object_without_a_bundle_is_an_object(store: Store) -> None:
    digest = plain_object(store)
    found = resolve(store, digest)
    assert found.kind == "object"
    with pytest.raises(InvalidInputError, match="not the bundle of a run"):
        found.bundle(store)


@pytest.mark.parametrize("inner", ["", "bundle.json", "."])
def test_a_path_into_the_store_is_the_object(store: Store, run: Digest, inner: str) -> None:
    assert resolve(store, str(store.object_path(run) / inner)).digest == run


def test_a_tree_manifest_of_the_store_is_the_object(store: Store, run: Digest) -> None:
    path = store.path / "manifests" / run[:2] / f"{run}.json"
    assert resolve(store, str(path)).digest == run


def test_a_result_link_is_the_object_and_knows_its_root(
    store: Store, run: Digest, directory: Path
) -> None:
    digest = plain_object(store)
    store.add_result_link(directory / "result", Root(digest, key=run))
    found = resolve(store, "result")
    assert found.digest == digest
    assert found.entry is not None
    assert found.entry.key == run


def test_a_path_in_the_store_that_is_no_valid_object_is_refused(store: Store) -> None:
    with pytest.raises(InvalidInputError, match="no valid object"):
        resolve(store, str(store.object_path(Digest("0" * 64))))


def test_a_directory_with_a_bundle_is_a_run_directory(
    store: Store, run: Digest, directory: Path
) -> None:
    del run
    (directory / "laid-out").mkdir()
    (directory / "laid-out" / "bundle.json").write_text(
        '{"kind":"vllm.deterministic_run_bundle"}', encoding="utf-8"
    )
    for ref in ("./laid-out", "laid-out/", "laid-out/bundle.json"):
        found = resolve(store, ref)
        assert (found.kind, found.digest) == ("run directory", None)
        with pytest.raises(InvalidInputError, match="outside the store"):
            found.object()


@pytest.mark.parametrize("kind", ["manifest", "lock"])
def test_a_file_is_what_it_says_it_is(store: Store, directory: Path, kind: str) -> None:
    document = {"kind": f"vllm.deterministic_inference_{kind}"}
    (directory / "file.json").write_text(json.dumps(document), encoding="utf-8")
    found = resolve(store, "file.json")
    assert found.kind == kind
    with pytest.raises(InvalidInputError, match=f"is a {kind}, not a run"):
        found.bundle(store)


@pytest.mark.parametrize("text", ["{}", '{"kind":"other"}', '{"kind":7}', "[]", "{", '"text"'])
def test_a_file_of_another_kind_is_refused(store: Store, directory: Path, text: str) -> None:
    (directory / "file.json").write_text(text, encoding="utf-8")
    with pytest.raises(InvalidInputError):
        resolve(store, "file.json")


@pytest.mark.parametrize("ref", ["oci://registry/x", "oci://x/run.tar.gz"])
def test_what_is_in_a_registry_must_be_fetched_first(store: Store, ref: str) -> None:
    with pytest.raises(InvalidInputError) as refused:
        resolve(store, ref)
    assert refused.value.hint == f"fetch it first: dis pull {ref}"


@pytest.mark.parametrize("ref", ["https://x/y.json", "s3://x/run.tar.gz"])
def test_what_this_version_cannot_read_is_said_to_be_unavailable(store: Store, ref: str) -> None:
    with pytest.raises(UnfitEnvironmentError, match="cannot be read"):
        resolve(store, ref)


def test_an_unknown_name_gets_the_names_that_are_close(store: Store, run: Digest) -> None:
    del run
    with pytest.raises(InvalidInputError) as refused:
        resolve(store, "exmaple.00000000")
    assert refused.value.hint == "did you mean example.00000000?"


def test_a_file_that_was_meant_as_a_path_is_pointed_out(store: Store, directory: Path) -> None:
    (directory / "runs").mkdir()
    with pytest.raises(InvalidInputError) as refused:
        resolve(store, "runs")
    assert refused.value.hint == "to name the file, write ./runs"


def test_a_short_prefix_is_told_apart_from_a_name(store: Store) -> None:
    with pytest.raises(InvalidInputError) as refused:
        resolve(store, "12ab")
    assert refused.value.hint == "a prefix of a digest needs at least 8 digits"


@pytest.mark.parametrize("name", ["model.safetensors", "prompts.txt", "tokenizer.json", "."])
def test_files_that_can_be_compared_in_the_store_are_said_to_be_added_first(
    store: Store, directory: Path, name: str
) -> None:
    if name != ".":
        (directory / name).write_bytes(b"{}" if name.endswith(".json") else b"\x08\0\0\0")

    with pytest.raises(InvalidInputError) as refusal:
        resolve(store, str(directory / name))

    assert str(refusal.value.hint).endswith("once the store has them: dis store add PATH")


@pytest.mark.parametrize(
    "ref", ["missing.json", "./missing", "a/b/c", "dangling/", "x.tar.gz", "a.tgz"]
)
def test_a_path_to_nothing_is_refused(store: Store, directory: Path, ref: str) -> None:
    (directory / "dangling").symlink_to("nowhere")
    with pytest.raises(InvalidInputError, match="there is no file"):
        resolve(store, ref)


def test_a_circle_of_links_is_refused(store: Store, directory: Path) -> None:
    (directory / "circle.json").symlink_to("circle.json")
    with pytest.raises(InvalidInputError):
        resolve(store, "circle.json")


@pytest.mark.parametrize("ref", ["a" * 5000, f"{'a' * 300}.json", f"./{'a/' * 3000}"])
def test_a_name_that_is_too_long_for_a_path_is_refused(store: Store, ref: str) -> None:
    with pytest.raises(InvalidInputError):
        resolve(store, ref)


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture], deadline=None)
@given(st.text(max_size=40))
def test_whatever_is_typed_is_found_or_refused_with_a_reason(store: Store, ref: str) -> None:
    assert _exit_code(store, ref) in {0, 2, 5}


def _exit_code(store: Store, ref: str) -> int:
    try:
        resolve(store, ref)
    except DisError as error:
        return error.exit_code
    return 0
