"""`dis realize --dry-run` says what registries would give, how much of it would come, and whom one would believe."""

import os
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from command_line import Outcome, call
from dis_store import Store
from dis_store.digest import Digest
from real_registry import RealRegistry, running_registry
from tiny_runs import write_manifest


@pytest.fixture(scope="module")
def registry(tmp_path_factory: pytest.TempPathFactory) -> Iterator[RealRegistry]:
    with running_registry(tmp_path_factory.mktemp("registry")) as running:
        yield running


@pytest.fixture(autouse=True)
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Give the user a home of their own, without settings and passwords."""
    path = tmp_path / "home"
    path.mkdir()
    for name in [each for each in os.environ if each.startswith(("DIS_", "XDG_", "DOCKER_"))]:
        monkeypatch.delenv(name)
    monkeypatch.setenv("HOME", str(path))
    return path


@pytest.fixture(scope="module")
def config(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return write_manifest(tmp_path_factory.mktemp("work"))


@pytest.fixture(scope="module")
def first(tmp_path_factory: pytest.TempPathFactory, config: Path) -> Path:
    path = tmp_path_factory.mktemp("first") / "store"
    dis(path, "realize", config, "--name", "first", "-q")
    return path


@pytest.fixture
def second(tmp_path: Path) -> Path:
    return tmp_path / "second"


def dis(store: Path, *arguments: object) -> Outcome:
    outcome = call([*map(str, arguments), "--store", str(store)])
    assert outcome.code == 0, outcome.err
    return outcome


def planned(store: Path, config: Path, *more: object) -> dict[str, Any]:
    return dict(dis(store, "realize", config, "--dry-run", "--json", *more).document)


def contents(store: Path) -> dict[str, int]:
    """Return the bytes of all contents of files in a store, by SHA-256."""
    with Store.open(store) as opened:
        files = [file for digest in opened.objects() for file in opened.tree(digest).files]
        return {str(opened.sha256_of(file.blake3)): file.size for file in files}


def from_registry(monkeypatch: pytest.MonkeyPatch, registry: RealRegistry, name: str) -> None:
    monkeypatch.setenv("DIS_SUBSTITUTERS", registry.reference(name))


def test_it_says_which_builds_would_come_and_how_many_bytes_and_fetches_none(
    registry: RealRegistry, first: Path, second: Path, config: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    dis(first, "push", "first", registry.reference("plan/plain:one"))
    from_registry(monkeypatch, registry, "plan/plain")
    monkeypatch.setenv("DIS_TRUST", "off")
    files = contents(first)
    before = len(registry.requests())

    plan = planned(second, config)

    assert plan["builds"] == []
    assert len(plan["substitutions"]) == 8
    assert {each["from"] for each in plan["substitutions"]} == {registry.reference("plan/plain")}
    assert sum(each["fetched_bytes"] for each in plan["substitutions"]) == sum(files.values())
    fetched = re.findall(r"GET \S*/blobs/(sha256:\w+)", "\n".join(registry.requests()[before:]))
    assert fetched  # claims, and lists of files
    assert not files.keys() & set(fetched)
    assert dis(second, "store", "stats", "--json").document["objects"] == 0
    text = dis(second, "realize", config, "--dry-run").out
    assert text.startswith("8 builds would come from registries, ")
    assert text.count(f"from {registry.reference('plan/plain')}") == 8
    assert text.endswith("nothing would be built\n")

    realised = dis(second, "realize", config, "--json", "--progress", "plain")
    assert realised.document["cached"]
    again = planned(second, config)
    assert again["substitutions"] == again["builds"] == []


def test_what_the_store_has_under_another_name_does_not_count(
    registry: RealRegistry, first: Path, second: Path, config: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    dis(first, "push", "first", registry.reference("plan/known:one"))
    from_registry(monkeypatch, registry, "plan/known")
    monkeypatch.setenv("DIS_TRUST", "off")
    with Store.open(first) as store:
        weights = next(
            file
            for digest in store.objects()
            for file in store.files(digest)
            if file.path == "model.safetensors"
        )
        data = weights.real.read_bytes()
    before = planned(second, config)
    with Store.open(second) as store, store.new_tree() as tree:
        tree.write_bytes("under another name", data)
        tree.register()

    plan = planned(second, config)

    assert total(before) - total(plan) == len(data)
    assert Digest.of(data) == weights.blake3


def total(plan: dict[str, Any]) -> int:
    return sum(each["fetched_bytes"] for each in plan["substitutions"])


def test_without_a_trusted_key_only_what_proves_itself_would_come_and_the_rest_is_told(
    registry: RealRegistry, first: Path, second: Path, config: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    dis(first, "push", "first", registry.reference("plan/unsigned:one"))
    from_registry(monkeypatch, registry, "plan/unsigned")

    plan = planned(second, config)

    assert {each["proof"] for each in plan["substitutions"]} == {"content"}
    assert {each["builder"] for each in plan["substitutions"]} == {"files"}
    assert len(plan["substitutions"]) + len(plan["builds"]) == 8
    built = {each["derivation"]: each["builder"] for each in plan["builds"]}
    assert sorted(built.values()) == ["closure", "generation", "requests", "run"]
    refused = {built[each["derivation"]]: each for each in plan["refused_substitutions"]}
    assert set(refused) == {"closure", "requests"}
    assert {each["reason"] for each in refused.values()} == {"no key is trusted"}
    outcome = dis(second, "realize", config, "--dry-run")
    assert outcome.out.count("that would not be taken: ") == 2
    assert "4 builds would be made" in outcome.out


def test_where_signatures_are_not_asked_for_it_says_that_nobody_trusted_has_signed(
    registry: RealRegistry, first: Path, second: Path, config: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    dis(first, "push", "first", registry.reference("plan/warn:one"))
    from_registry(monkeypatch, registry, "plan/warn")
    monkeypatch.setenv("DIS_TRUST", "warn")

    plan = planned(second, config)

    proofs = {each["builder"]: each["proof"] for each in plan["substitutions"]}
    assert proofs == {
        "files": "content",
        "closure": "none",
        "generation": "none",
        "requests": "none",
        "run": "none",
    }
    text = dis(second, "realize", config, "--dry-run").out
    assert text.count(", not signed by a trusted key\n") == 4


def test_what_a_trusted_key_signed_would_come_and_a_stranger_is_named_as_one(
    registry: RealRegistry,
    first: Path,
    second: Path,
    config: Path,
    home: Path,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    signing = tmp_path / "signing"
    dis(signing, "realize", config, "--name", "first", "-q")
    dis(signing, "key", "generate", "builder", "-q")
    dis(signing, "sign", "first", "-q")
    dis(signing, "push", "first", registry.reference("plan/signed:one"))
    from_registry(monkeypatch, registry, "plan/signed")

    stranger = planned(second, config)
    assert {each["proof"] for each in stranger["substitutions"]} == {"content"}
    reasons = [each["reason"] for each in stranger["refused_substitutions"]]
    assert len(reasons) == 2
    assert all("signed by no trusted key" in each for each in reasons)

    setting = dis(signing, "key", "show", "builder", "--setting").out
    (home / ".config/dis").mkdir(parents=True, exist_ok=True)
    (home / ".config/dis/config.toml").write_text(setting, "utf-8")
    trusted = planned(second, config)
    proofs = [each["proof"] for each in trusted["substitutions"]]
    assert sorted(proofs) == ["content"] * 4 + ["signature"] * 4
    assert trusted["builds"] == trusted["refused_substitutions"] == []


def test_a_registry_that_cannot_be_asked_costs_a_note(
    second: Path, config: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("DIS_SUBSTITUTERS", "oci://127.0.0.1:9/nowhere")

    outcome = dis(second, "realize", config, "--dry-run")

    assert "note: oci://127.0.0.1:9/nowhere is not asked any more" in outcome.err
    assert "8 builds would be made" in outcome.out
    alone = dis(second, "realize", config, "--dry-run", "--no-substitute")
    assert (alone.err, alone.out) == ("", outcome.out)


def test_a_build_whose_output_is_not_there_is_told_and_built(
    registry: RealRegistry, first: Path, second: Path, config: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    dis(first, "push", "first", registry.reference("plan/gone:one"))
    from_registry(monkeypatch, registry, "plan/gone")
    monkeypatch.setenv("DIS_TRUST", "off")
    whole = planned(second, config)
    (closure,) = [each for each in whole["substitutions"] if each["builder"] == "closure"]
    parts = dis(first, "remote", "ls", registry.reference("plan/gone:one"), "--json").document
    (part,) = [each for each in parts["parts"] if each["name"] == "closure"]
    delete(registry, "plan/gone", part["manifest"])

    plan = planned(second, config)

    refused = {each["derivation"] for each in plan["refused_substitutions"]}
    assert closure["derivation"] in refused
    assert sorted(each["builder"] for each in plan["builds"]) == ["closure", "generation", "run"]


def delete(registry: RealRegistry, repository: str, digest: str) -> None:
    import urllib.request

    address = f"http://{registry.host}/v2/{repository}/manifests/{digest}"
    urllib.request.urlopen(urllib.request.Request(address, method="DELETE"), timeout=30).close()
