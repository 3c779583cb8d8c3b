"""Runs whose inputs are not held to the digests of their lock: what is used, recorded, and still refused."""

import json
import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from dis_derivations.realisation.events import Event
from dis_derivations.realisation.manifest_target import plan_target, realise_target
from dis_derivations.realisation.target import RealisedTarget, TargetRequest
from dis_derivations.runs.bundle_documents import load_bundle
from dis_derivations.runs.bundle_reader import StoredBundle
from dis_store import Store
from dis_store.digest import Digest, Sha256
from dis_store.errors import IntegrityError, InvalidInputError
from run_shelf import make_writable
from tiny_runs import lock_of, realise

LOCKED = {"model.weight", "model.tokenizer", "model.config", "inference.prompt_dataset"}


def unverified(store: Store, config: Path, *overrides: str, **options: Any) -> RealisedTarget:
    return realise(store, config, *overrides, verify_digests=False, **options)


def bundle_of(store: Store, run: RealisedTarget, name: str = "bundle.json") -> Any:
    return json.loads(store.read_bytes(run.outputs["bundle"], name))


def weights_of(config: Path) -> Path:
    return config.parent / "model" / "model.safetensors"


def change_last_byte(path: Path) -> None:
    data = bytearray(path.read_bytes())
    data[-1] ^= 1
    path.write_bytes(data)


@pytest.fixture
def changed(store: Store, config: Path) -> tuple[str, str]:
    """Change a byte of the weights after they were locked; return the digests of before and after."""
    realise(store, config)
    before = Sha256.of(weights_of(config).read_bytes())
    change_last_byte(weights_of(config))
    return str(before), str(Sha256.of(weights_of(config).read_bytes()))


@pytest.fixture
def other(tmp_path: Path) -> Iterator[Store]:
    """Return a store that has nothing yet."""
    with Store.open(tmp_path / "other") as other:
        yield other
    make_writable(tmp_path / "other")


# What is used, and what is recorded


@pytest.mark.usefixtures("changed")
def test_a_changed_file_is_refused_where_digests_are_verified(config: Path, other: Store) -> None:
    with pytest.raises(IntegrityError, match="is not the file that was locked"):
        realise(other, config)


def test_a_changed_file_is_used_and_recorded(
    config: Path, other: Store, changed: tuple[str, str]
) -> None:
    lock = lock_of(config)
    before = lock.read_bytes()
    run = unverified(other, config)
    record = bundle_of(other, run)["artifact_digests"]
    differing = [file for file in record["files"] if file["declared"] != file["used"]]
    assert record["verified"] is False
    assert differing == [
        {
            "name": "model.weight",
            "path": "model.safetensors",
            "declared": changed[0],
            "used": changed[1],
        }
    ]
    assert {file["name"] for file in record["files"]} == LOCKED
    assert bundle_of(other, run)["grade"] == "non_conformant_software"
    assert lock.read_bytes() == before
    assert bundle_of(other, run, "lock.used.json")["lock_id"] == json.loads(before)["lock_id"]


def test_the_changed_bytes_are_in_the_store_under_their_own_digest(
    config: Path, other: Store, changed: tuple[str, str]
) -> None:
    run = unverified(other, config)
    weights = Digest(bundle_of(other, run)["inputs"]["weights"])
    data = other.read_bytes(weights, "model.safetensors")
    assert Sha256.of(data) == changed[1]
    assert other.verify([weights]).ok


def test_the_source_is_read_although_the_store_has_what_was_locked(
    store: Store, config: Path, changed: tuple[str, str]
) -> None:
    run = unverified(store, config)
    assert run.unverified is not None
    assert [str(file.used) for file in run.unverified.differing] == [changed[1]]


def test_equal_bytes_make_another_bundle_of_the_same_results(store: Store, config: Path) -> None:
    honest, run = realise(store, config), unverified(store, config)
    one, two = bundle_of(store, honest), bundle_of(store, run)
    assert run.outputs["bundle"] != honest.outputs["bundle"]
    assert "artifact_digests" not in one
    assert all(file["declared"] == file["used"] for file in two["artifact_digests"]["files"])
    assert (one["grade"], two["grade"]) == ("conformant", "non_conformant_software")
    assert one["run_id"] != two["run_id"]
    same = ("inputs", "results", "manifest_id", "lock_id")
    assert [one[name] for name in same] == [two[name] for name in same]


def test_only_the_run_is_built_for_equal_bytes(store: Store, config: Path) -> None:
    realise(store, config)
    events: list[Event] = []
    realise_target(store, TargetRequest(config, verify_digests=False), events.append)
    assert [event.subject for event in events if event.kind == "start"] == ["tiny"]


def test_an_unverified_run_is_never_taken_for_a_verified_one(store: Store, config: Path) -> None:
    realise(store, config, target="weights")
    run = unverified(store, config)
    honest = realise(store, config)
    assert bundle_of(store, honest)["grade"] == "conformant"
    assert honest.outputs["bundle"] != run.outputs["bundle"]
    assert honest.unverified is None
    # Nor the other way, when both are known.
    assert unverified(store, config).outputs == run.outputs
    assert realise(store, config).outputs == honest.outputs


def test_a_changed_file_does_not_reach_a_verified_run_of_the_same_store(
    store: Store, config: Path, changed: tuple[str, str]
) -> None:
    del changed
    unverified(store, config)
    honest = bundle_of(store, realise(store, config))
    assert honest["grade"] == "conformant"
    assert "artifact_digests" not in honest


def test_an_unverified_run_is_the_same_in_every_store(
    store: Store, config: Path, other: Store, changed: tuple[str, str]
) -> None:
    del changed
    assert (
        unverified(store, config).outputs["bundle"] == (unverified(other, config).outputs["bundle"])
    )


def test_a_digest_that_the_manifest_declares_is_not_verified_either(
    store: Store, config: Path
) -> None:
    declared = {"path": "model.safetensors", "digest": Sha256.of(weights_of(config).read_bytes())}
    override = f"model.weights.files={json.dumps([declared])}"
    realise(store, config, override)
    change_last_byte(weights_of(config))
    run = unverified(store, config, override)
    assert run.unverified is not None
    assert [file.declared for file in run.unverified.differing] == [declared["digest"]]


def test_what_files_became_since_is_not_remembered(store: Store, config: Path) -> None:
    realise(store, config)
    first = unverified(store, config)
    change_last_byte(weights_of(config))
    assert unverified(store, config).outputs["bundle"] != first.outputs["bundle"]


def test_the_root_says_that_digests_were_not_verified(store: Store, config: Path) -> None:
    realise(store, config, target="weights")
    run = unverified(store, config)
    assert run.roots == (f"tiny-unverified.{run.outputs['bundle'][:8]}",)


def test_the_run_log_counts_no_file_as_verified(store: Store, config: Path) -> None:
    realise(store, config)
    log = unverified(store, config).outputs["log"]
    document = json.loads(store.read_bytes(log, "run_log.json"))
    integrity = document["artifact_integrity"]
    assert document["artifact_digests"] == {"verified": False}
    assert not any(entry["verified"] for entry in integrity)
    assert {entry["name"] for entry in integrity} == LOCKED
    (weights,) = (entry for entry in integrity if entry["name"] == "model.weight")
    assert weights["declared"] == weights["used"]
    assert Digest(weights["blake3"])
    shared = json.loads(store.read_bytes(log, "generation/run_log.json"))
    assert all(entry["verified"] for entry in shared["artifact_integrity"])
    assert {**document, "artifact_integrity": 0} == {
        **shared,
        "artifact_integrity": 0,
        "artifact_digests": {"verified": False},
    }
    assert b"WARNING: the digests of the lock were not verified" in store.read_bytes(
        log, "build.log"
    )


def test_a_rebuild_reproduces_an_unverified_run(
    store: Store, config: Path, changed: tuple[str, str]
) -> None:
    del changed
    run = unverified(store, config, rebuilds=2)
    assert run.reproduced
    assert [rebuild.subject for rebuild in run.rebuilds] == ["tiny-generation"] * 2
    assert bundle_of(store, run)["grade"] == "non_conformant_software"


# What is refused all the same


def test_a_missing_lock_is_refused(store: Store, config: Path) -> None:
    with pytest.raises(InvalidInputError, match="--no-verify-artifact-digests: there is no lock"):
        unverified(store, config)
    assert not lock_of(config).exists()
    assert store.objects() == []


def test_a_stale_lock_is_refused_and_left_as_it_is(store: Store, config: Path) -> None:
    realise(store, config)
    lock = lock_of(config)
    before = lock.read_bytes()
    shutil.copy(config.parent / "prompts.txt", config.parent / "others.txt")
    with pytest.raises(InvalidInputError, match=r"the lock is stale for inference\.prompt_dataset"):
        unverified(store, config, "inference.dataset.source=others.txt")
    assert lock.read_bytes() == before


def test_a_missing_file_is_refused_although_the_store_has_it(store: Store, config: Path) -> None:
    realise(store, config)
    weights_of(config).unlink()
    with pytest.raises(InvalidInputError, match="1 item cannot be read") as caught:
        unverified(store, config)
    assert caught.value.exit_code == 5
    assert "model.weight model.safetensors: there is no file" in str(caught.value.cause)
    assert realise(store, config).cached


@pytest.mark.parametrize(
    ("content", "reason"),
    [
        (b"\x80\x04K\x01.", "pickle"),
        (b"\xff" * 64, "model.safetensors"),
        (b"", "model.safetensors"),
    ],
)
def test_an_unsafe_file_is_refused(store: Store, config: Path, content: bytes, reason: str) -> None:
    realise(store, config)
    objects = store.objects()
    weights_of(config).write_bytes(content)
    with pytest.raises(InvalidInputError, match="cannot be realised, 1 item cannot be read") as it:
        unverified(store, config)
    assert it.value.exit_code == 2
    assert reason in str(it.value.cause)
    assert store.objects() == objects


def test_a_link_out_of_the_model_is_refused(store: Store, config: Path, tmp_path: Path) -> None:
    realise(store, config)
    outside = tmp_path / "outside.safetensors"
    weights_of(config).rename(outside)
    weights_of(config).symlink_to(outside)
    with pytest.raises(InvalidInputError) as caught:
        unverified(store, config)
    assert "outside of its directory" in str(caught.value.cause)


@pytest.mark.parametrize("target", ["weights", "closure", "generation"])
def test_a_target_that_could_not_record_it_is_refused(
    store: Store, config: Path, target: str
) -> None:
    realise(store, config)
    with pytest.raises(InvalidInputError, match=f"is for runs, and the target is '{target}'"):
        unverified(store, config, target=target)


def test_a_dry_run_is_refused(store: Store, config: Path) -> None:
    realise(store, config)
    with pytest.raises(InvalidInputError, match="is not known beforehand"):
        plan_target(store, TargetRequest(config, verify_digests=False))


# A bundle that says something else of itself


@pytest.fixture
def laid_out(store: Store, config: Path, tmp_path: Path) -> Path:
    """Return an unverified run as a directory of files."""
    from dis_derivations.runs.run_directory import lay_out

    realise(store, config, target="weights")
    return lay_out(store, unverified(store, config).outputs["bundle"], None, tmp_path / "laid-out")


def test_a_bundle_gives_back_what_was_used(store: Store, config: Path) -> None:
    realise(store, config)
    run = unverified(store, config)
    document = load_bundle(StoredBundle(store, run.outputs["bundle"])).document
    assert document.unverified == run.unverified


def test_a_run_log_is_laid_out_with_what_was_not_verified(
    store: Store, config: Path, tmp_path: Path
) -> None:
    from dis_derivations.runs.run_directory import lay_out

    realise(store, config)
    outputs = unverified(store, config).outputs
    directory = lay_out(store, outputs["bundle"], outputs["log"], tmp_path / "run")
    document = json.loads((directory / "run_log.json").read_bytes())
    assert document["artifact_digests"] == {"verified": False}


@pytest.mark.parametrize(
    ("change", "refusal"),
    [
        (lambda document: document.pop("artifact_digests"), "the run_id is wrong"),
        (lambda document: document.update(grade="conformant"), "is not what it should be"),
        (lambda document: document["artifact_digests"].update(verified=True), "is malformed"),
        (lambda document: document["artifact_digests"].update(verified=0), "is malformed"),
        (lambda document: document["artifact_digests"]["files"].pop(), "the run_id is wrong"),
    ],
)
def test_a_bundle_that_hides_it_is_refused(laid_out: Path, change: Any, refusal: str) -> None:
    path = laid_out / "bundle.json"
    document = json.loads(path.read_bytes())
    change(document)
    path.write_text(json.dumps(document), "utf-8")
    check_refused(laid_out, refusal)


def test_a_bundle_that_declares_other_files_than_its_lock_is_refused(laid_out: Path) -> None:
    from dis_derivations.runs.bundle import run_id

    path = laid_out / "bundle.json"
    document = json.loads(path.read_bytes())
    document["artifact_digests"]["files"][0]["declared"] = str(Sha256.of(b"another"))
    document["run_id"] = run_id(
        document["manifest_id"],
        document["lock_id"],
        Digest(document["requests_digest"]),
        document["platform"],
        document["artifact_digests"],
    )
    path.write_text(json.dumps(document), "utf-8")
    check_refused(laid_out, "artifact_digests is not what it should be")


def check_refused(directory: Path, refusal: str) -> None:
    from dis_derivations.runs.bundle_reader import DirectoryBundle

    with pytest.raises(InvalidInputError, match=refusal):
        load_bundle(DirectoryBundle(directory))
