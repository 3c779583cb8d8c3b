"""What cannot work is refused before a byte is read."""

import json
import os
import shutil
from collections import namedtuple
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from dis_derivations.realisation import memory, preflight
from dis_derivations.realisation.manifest_target import plan_target
from dis_derivations.realisation.target import TargetRequest
from dis_store import Store
from dis_store.errors import DisError, DiskFullError, InvalidInputError, UnfitEnvironmentError
from tiny_runs import realise

Usage = namedtuple("Usage", "total used free")  # noqa: PYI024 - what shutil.disk_usage returns

REFUSED = [
    (
        ("runtime.execution.backend=transformers", "vllm.engine_args.dtype=fp8"),
        "vllm.engine_args.dtype: is 'fp8', and the transformers engine takes",
    ),
    (
        (
            "runtime.execution.backend=openai_compatible",
            "runtime.execution.base_url=https://x.example",
            'capture.logits={"enabled":true,"capture_prefill":true}',
        ),
        "capture.logits.capture_prefill: a server does not tell the logits of prompts",
    ),
    (("runtime.profile=regulated",), "runtime.profile: the regulated profile is not available"),
    (('model.adapters=[{"name":"lora"}]',), "model.adapters: adapters are not available"),
    (
        (
            "vllm.engine_args.trust_remote_code=true",
            f"model.weights.source.remote_code_commit={'ab' * 20}",
            f"model.weights.source.remote_code_digest=sha256:{'ab' * 32}",
        ),
        "vllm.engine_args.trust_remote_code: no engine of this version runs a model's own code",
    ),
    (
        ('capture.activations={"enabled":true,"hooks":["layers.0"]}',),
        "capture.activations: the reference engine does not capture activations",
    ),
]


def refusal(store: Store, config: Path, *overrides: str, **options: Any) -> DisError:
    """Return the error of a realisation that must leave everything as it was."""
    with pytest.raises(DisError) as caught:
        realise(store, config, *overrides, **options)
    assert store.objects() == []
    assert store.roots() == {}
    assert list((store.path / "tmp").iterdir()) == []
    assert not config.with_name(f"{config.stem}.lock.json").exists()
    with pytest.raises(DisError) as planned:
        plan_target(store, TargetRequest(config, overrides=overrides, **options))
    assert str(planned.value) == str(caught.value)
    return caught.value


@pytest.mark.parametrize(("overrides", "reason"), REFUSED)
def test_what_this_version_cannot_do_is_refused_first(
    store: Store, config: Path, overrides: tuple[str, ...], reason: str
) -> None:
    error = refusal(store, config, *overrides)
    assert isinstance(error, UnfitEnvironmentError)
    assert error.cause is not None
    assert reason in error.cause
    assert len(error.cause.splitlines()) == 1


def test_every_field_that_is_refused_is_told_at_once(store: Store, config: Path) -> None:
    error = refusal(store, config, *(each for overrides, _ in REFUSED[2:] for each in overrides))
    assert error.cause is not None
    assert len(error.cause.splitlines()) == len(REFUSED[2:])


@pytest.mark.parametrize(
    ("change", "error", "message"),
    [
        ({"model_type": "gpt2"}, UnfitEnvironmentError, "model_type 'gpt2'"),
        ({"hidden_act": "gelu"}, UnfitEnvironmentError, "gelu"),
        ({"num_attention_heads": 0}, InvalidInputError, "num_attention_heads"),
    ],
)
def test_a_model_that_no_engine_runs_is_refused_by_its_configuration(
    store: Store, config: Path, change: dict[str, Any], error: type[DisError], message: str
) -> None:
    path = config.parent / "model" / "config.json"
    path.write_text(json.dumps(json.loads(path.read_bytes()) | change), "utf-8")
    found = refusal(store, config)
    assert isinstance(found, error)
    assert message in str(found)


@pytest.mark.parametrize("content", ["[]", "{", '{"a":1,"a":2}'])
def test_a_malformed_configuration_is_refused(store: Store, config: Path, content: str) -> None:
    (config.parent / "model" / "config.json").write_text(content, "utf-8")
    assert isinstance(refusal(store, config), InvalidInputError)


def test_an_edited_configuration_is_no_reason_against_the_one_that_was_locked(
    store: Store, config: Path
) -> None:
    realise(store, config, target="config")
    path = config.parent / "model" / "config.json"
    path.write_text(json.dumps(json.loads(path.read_bytes()) | {"model_type": "gpt2"}), "utf-8")
    assert realise(store, config).roots


def test_a_target_that_no_manifest_has_is_refused(store: Store, config: Path) -> None:
    error = refusal(store, config, target="wieghts")
    assert isinstance(error, InvalidInputError)
    assert "weights" in str(error.cause)


def test_a_lock_that_could_not_be_written_is_refused(
    store: Store, config: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(os, "access", lambda *_: False)
    error = refusal(store, config)
    assert isinstance(error, UnfitEnvironmentError)
    assert str(config.parent) in str(error.cause)


def test_an_invalid_manifest_is_refused(store: Store, config: Path) -> None:
    assert isinstance(refusal(store, config, "inference.n_promps=3"), InvalidInputError)


# Disk and memory


def limit_disk(monkeypatch: pytest.MonkeyPatch, free: int) -> None:
    monkeypatch.setattr(shutil, "disk_usage", lambda _: Usage(2**40, 0, free))


def limit_memory(monkeypatch: pytest.MonkeyPatch, available: int | None) -> None:
    monkeypatch.setattr(preflight, "available_memory", lambda: available)


def nothing_was_read(store: Store, config: Path) -> bool:
    return store.objects() == [] and not config.with_name("tiny.lock.json").exists()


def test_a_full_disk_is_noticed_before_anything_is_read(
    store: Store, config: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    limit_disk(monkeypatch, 64 * 2**20 + 1000)
    with pytest.raises(UnfitEnvironmentError, match="the disk of the store is too full") as caught:
        realise(store, config)
    assert "dis gc" in str(caught.value.hint)
    assert nothing_was_read(store, config)


def test_what_is_in_the_store_needs_no_room(
    store: Store, config: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    realise(store, config, target="closure")
    limit_disk(monkeypatch, 64 * 2**20)
    assert realise(store, config).roots
    limit_disk(monkeypatch, 64 * 2**20 - 1)
    with pytest.raises(UnfitEnvironmentError, match="too full"):
        realise(store, config, "metadata.description=another")


def test_a_full_disk_names_the_run_whose_removal_makes_room(
    store: Store, config: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    realise(store, config)
    (name,) = store.roots()
    limit_disk(monkeypatch, 64 * 2**20 - 1)
    with pytest.raises(UnfitEnvironmentError, match="too full") as caught:
        realise(store, config, "metadata.description=another")
    assert f": dis root remove {name} && dis gc; or use another disk" in str(caught.value.hint)
    assert store.roots().keys() == {name}


def limit_inodes(monkeypatch: pytest.MonkeyPatch, free: int) -> None:
    real = os.statvfs("/")
    fields = ("f_bavail", "f_blocks", "f_bfree", "f_frsize")
    known = {name: getattr(real, name) for name in fields}
    few = SimpleNamespace(**known, f_files=10_000, f_favail=free)
    monkeypatch.setattr(os, "statvfs", lambda _: few)


def test_a_disk_without_inodes_is_noticed_before_anything_is_read(
    store: Store, config: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    limit_inodes(monkeypatch, 20)
    with pytest.raises(DiskFullError, match="too few inodes"):
        realise(store, config)
    assert nothing_was_read(store, config)


def test_a_disk_without_inodes_names_the_run_whose_removal_makes_room(
    store: Store, config: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    realise(store, config)
    (name,) = store.roots()
    # One build, which is of the run alone, leaves nine files, and sixteen are kept for what else there is to do.
    limit_inodes(monkeypatch, 25)
    assert realise(store, config, "metadata.description=another").roots
    limit_inodes(monkeypatch, 24)
    with pytest.raises(DiskFullError, match="25 needed, 24 free") as caught:
        realise(store, config, "metadata.description=one more")
    assert f"inodes: dis root remove {name} && dis gc" in str(caught.value.hint)


def test_a_model_that_does_not_fit_in_memory_is_noticed_before_anything_is_read(
    store: Store, config: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    limit_memory(monkeypatch, 1000)
    for target in ("run", "generation"):
        with pytest.raises(UnfitEnvironmentError, match="the model does not fit in memory"):
            realise(store, config, target=target)
        assert nothing_was_read(store, config)


def test_memory_is_needed_by_generations_alone(
    store: Store, config: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    limit_memory(monkeypatch, 1000)
    for target in ("weights", "requests", "closure"):
        assert realise(store, config, target=target, rebuilds=1).reproduced
    with pytest.raises(UnfitEnvironmentError, match="memory"):
        realise(store, config)
    limit_memory(monkeypatch, None)
    realise(store, config)
    limit_memory(monkeypatch, 1000)
    assert realise(store, config, "metadata.description=another").roots
    with pytest.raises(UnfitEnvironmentError, match="memory"):
        realise(store, config, rebuilds=1)


def test_this_machine_says_how_much_memory_it_has() -> None:
    available = memory.available_memory()
    assert available is None or available > 2**20


def test_hardware_constraints_do_not_refuse_an_engine_that_runs_alike_everywhere(
    store: Store, config: Path
) -> None:
    constraint = 'hardware={"constraints":{"allowed_gpu_models":["H100"]}}'
    bundle = realise(store, config, constraint).outputs["bundle"]
    document = json.loads(store.read_bytes(bundle, "bundle.json"))
    assert document["hardware"] == {
        "conformant": True,
        "reasons": [
            "platform any: the same bits on every machine, so hardware constraints do not apply"
        ],
    }
    assert document["grade"] == "conformant"
