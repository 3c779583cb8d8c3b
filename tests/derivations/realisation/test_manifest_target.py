"""The targets of a manifest, and what is known of a realised one."""

import json
from pathlib import Path

import pytest

from dis_derivations.realisation.events import Event
from dis_derivations.realisation.manifest_target import realise_target
from dis_derivations.realisation.target import TargetRequest
from dis_store import Store
from dis_store.errors import InvalidInputError
from tiny_runs import realise, write_manifest

TARGETS = ("run", "generation", "requests", "closure", "weights", "tokenizer", "config", "dataset")


def test_a_base_of_any_name_is_kept_in_the_log(store: Store, tmp_path: Path) -> None:
    config = write_manifest(tmp_path / "based")
    base = config.with_name("ü" * 100 + " con.")
    config.rename(base)
    config.write_text(json.dumps({"x_base_manifest": base.name}), "utf-8")
    log = realise(store, config).outputs["log"]
    (kept,) = (file.path for file in store.files(log) if file.path.startswith("bases/"))
    assert store.read_bytes(log, kept) == base.read_bytes()


@pytest.mark.parametrize("target", TARGETS)
def test_every_target_can_be_realised_alone_and_is_recalled(
    store: Store, config: Path, target: str
) -> None:
    realised = realise(store, config, target=target)
    outputs = {"run": {"bundle", "log"}, "generation": {"results", "log"}}
    logged = {"out", "log"} if target in ("requests", "closure") else {"out"}
    assert set(realised.outputs) == outputs.get(target, logged)
    assert all(store.is_valid(digest) for digest in realised.outputs.values())
    assert realised.main_output != realised.outputs.get("log")
    assert (realised.target, realised.name) == (target, "tiny")
    again = realise(store, config, target=target)
    assert again.cached
    assert again.outputs == realised.outputs


def test_a_target_builds_only_what_it_needs(store: Store, config: Path) -> None:
    events: list[Event] = []
    realise_target(store, TargetRequest(config, target="requests"), events.append)
    assert [event.subject for event in events if event.kind == "start"] == ["tiny-requests"]


def test_a_target_that_this_manifest_does_not_have_is_refused(store: Store, config: Path) -> None:
    with pytest.raises(InvalidInputError, match="no target 'chat_template'") as caught:
        realise(store, config, target="chat_template")
    assert "dataset" in str(caught.value.cause)


def test_a_target_says_where_its_manifest_wants_a_run_to_go(store: Store, config: Path) -> None:
    template = "runs/${run_id}"
    assert realise(store, config).output_directory == template
    assert realise(store, config).output_directory == template
    moved = realise(store, config, "outputs.directory=elsewhere")
    assert moved.output_directory == "elsewhere"
    assert realise(store, config, "outputs={}").output_directory is None
