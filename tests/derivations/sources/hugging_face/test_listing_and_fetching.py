"""What a hub lists, and which of its files are fetched and how they arrive."""

import json

import pytest

from dis_derivations.sources.source import WantedFile
from dis_store import Store
from dis_store.digest import Sha256
from dis_store.errors import (
    InvalidInputError,
)
from hub_files import WEIGHTS, fetched, source, weights
from hub_server import Hub, Served
from model_directories import safetensors_bytes


def test_what_a_hub_lists_is_known_before_anything_is_fetched(
    hub: Hub, files: dict[str, Served]
) -> None:
    found = source()
    assert found.available() is None
    assert found.listing() == sorted(files)
    assert found.commit() == hub.repositories["org/name"].refs["main"]
    assert found.size("model.safetensors") == len(WEIGHTS)
    assert found.size("gone.json") is None
    assert hub.requests("/resolve/") == []
    problem = found.problem("gone.json")
    assert problem is not None
    assert problem.reason == "not_found"
    assert found.commit() in problem.message


def test_every_file_arrives_as_it_is_and_is_compared(
    hub: Hub, files: dict[str, Served], store: Store
) -> None:
    written = fetched(store, source(), *(WantedFile(path) for path in files))
    assert {file.path: file.sha256 for file in written} == {
        path: Sha256.of(served.data) for path, served in files.items()
    }
    assert not any(file.executable for file in written)


def test_a_commit_is_asked_for_and_not_the_branch(
    hub: Hub, files: dict[str, Served], store: Store
) -> None:
    fetched(store, source(), WantedFile("config.json"))
    (request,) = hub.requests("org/name/resolve/")
    assert f"/resolve/{hub.repositories['org/name'].refs['main']}/" in request.path


def test_with_a_digest_from_a_lock_no_list_is_needed(
    hub: Hub, files: dict[str, Served], store: Store
) -> None:
    commit = hub.repositories["org/name"].refs["main"]
    hub.fail("/api/models", lambda handler: handler.refuse(500))
    wanted = weights(sha256=Sha256.of(WEIGHTS), size=len(WEIGHTS))
    assert fetched(store, source(revision=commit), wanted)[0].size == len(WEIGHTS)


def test_of_several_weights_those_are_taken_that_an_index_names(
    hub: Hub, files: dict[str, Served]
) -> None:
    index = {"weight_map": {"a": "model-1.safetensors", "b": "model-2.safetensors"}}
    sharded = {
        **files,
        "model-1.safetensors": Served(safetensors_bytes(1.0, name="a"), lfs=True),
        "model-2.safetensors": Served(safetensors_bytes(2.0, name="b"), lfs=True),
        "consolidated.safetensors": Served(b"", lfs=True),
        "model.safetensors.index.json": Served(json.dumps(index).encode(), lfs=False),
    }
    hub.add("org/name", sharded)
    names = source(weights=True).listing()
    assert [name for name in names if ".safetensors" in name] == [
        "model-1.safetensors",
        "model-2.safetensors",
        "model.safetensors.index.json",
    ]
    assert source().listing() == sorted(sharded)


def test_shards_that_the_store_had_are_part_of_the_checkpoint(
    hub: Hub, files: dict[str, Served], store: Store
) -> None:
    """Whoever fetches takes what is stored first, and asks a source for the rest alone."""
    index = {"weight_map": {"a": "model-1.safetensors", "b": "model-2.safetensors"}}
    served = {
        "model-1.safetensors": Served(safetensors_bytes(1.0, name="a"), lfs=True),
        "model-2.safetensors": Served(safetensors_bytes(2.0, name="b"), lfs=True),
        "model.safetensors.index.json": Served(json.dumps(index).encode(), lfs=False),
    }
    hub.add("org/name", served)
    rest = [WantedFile(path) for path in list(served)[1:]]
    with store.new_tree() as tree:
        tree.write_bytes("model-1.safetensors", served["model-1.safetensors"].data)
        assert len(source(weights=True).fetch(rest, tree, lambda: None)) == 2
    with store.new_tree() as tree, pytest.raises(InvalidInputError, match=r"model-1\.safetensors"):
        source(weights=True).fetch(rest, tree, lambda: None)


def test_a_shard_that_is_missing_is_named_before_anything_is_fetched(
    hub: Hub, files: dict[str, Served]
) -> None:
    index = {"weight_map": {"a": "model-1.safetensors", "b": "model-2.safetensors"}}
    hub.add(
        "org/name",
        {"model.safetensors.index.json": Served(json.dumps(index).encode(), lfs=False)},
    )
    problem = source(weights=True).problem("model-2.safetensors")
    assert problem is not None
    assert problem.reason == "not_found"
    together = source(weights=True).disagreement(
        ["model.safetensors.index.json", "model-1.safetensors"]
    )
    assert together is not None
    assert "model-2.safetensors" in together.message


def test_pickles_are_refused_by_name_before_and_by_content_after(
    hub: Hub, files: dict[str, Served], store: Store
) -> None:
    pickle = b"\x80\x04\x95\x10\x00\x00\x00\x00\x00\x00\x00\x8c\x02os\x94."
    hub.add(
        "org/name", {"a.bin": Served(pickle, lfs=True), "a.safetensors": Served(pickle, lfs=True)}
    )
    problem = source().problem("a.bin")
    assert problem is not None
    assert problem.reason == "unsafe_file"
    with pytest.raises(InvalidInputError):
        fetched(store, source(weights=True), WantedFile("a.safetensors"))
