"""A realisation with nothing to do is recalled by its plan, and a plan is of exactly what it follows from."""

import json
import subprocess
import sys
import tomllib
from pathlib import Path
from typing import Any

import pytest

from dis_derivations.realisation import plan_cache
from dis_derivations.realisation.events import Event
from dis_derivations.realisation.manifest_target import realise_target
from dis_derivations.realisation.target import TargetRequest
from dis_derivations.version import VERSION
from dis_store import Store
from dis_store.errors import IntegrityError
from tiny_runs import lock_of, realise, write_manifest

HEAVY = ("pydantic", "numpy", "tokenizers", "jinja2", "rfc8785")


def collect_after_closing(store: Store, *roots: str) -> None:
    """Collect garbage as another process would, the store that protects what it touched being closed."""
    store.close()
    with Store.open(store.path) as other:
        for name in roots:
            other.remove_root(name)
        other.collect_garbage()


def test_the_second_call_does_nothing(store: Store, config: Path, recalled: list[bool]) -> None:
    first = realise(store, config)
    events: list[Event] = []
    second = realise_target(store, TargetRequest(config), events.append)
    assert events == []
    # The first call had no lock and so no plan to look for.
    assert recalled == [True]
    assert (first.cached, second.cached) == (False, True)
    assert (second.outputs, second.roots) == (first.outputs, first.roots)


def test_the_second_call_imports_nothing_heavy(store: Store, config: Path) -> None:
    expected = realise(store, config)
    script = (
        "import sys; from pathlib import Path; from dis_store import Store\n"
        "from dis_derivations.realisation.manifest_target import realise_target\n"
        "from dis_derivations.realisation.target import TargetRequest\n"
        "with Store.open(Path(sys.argv[1])) as store:\n"
        "    found = realise_target(store, TargetRequest(Path(sys.argv[2])))\n"
        "print(found.outputs['bundle'], *sys.modules)\n"
    )
    child = subprocess.run(
        [sys.executable, "-c", script, store.path, config],
        env={"PYTHONPATH": ":".join(sys.path)},
        stdout=subprocess.PIPE,
        check=True,
        text=True,
    )
    bundle, *modules = child.stdout.split()
    assert bundle == expected.outputs["bundle"]
    assert set(HEAVY) & set(modules) == set()


def append_newline(path: Path) -> None:
    path.write_bytes(path.read_bytes() + b"\n")


def test_another_byte_of_manifest_base_or_lock_is_another_plan(
    store: Store, tmp_path: Path, recalled: list[bool]
) -> None:
    base = write_manifest(tmp_path / "based")
    config = base.with_name("derived.json")
    config.write_text('{"x_base_manifest": "tiny.json"}', "utf-8")
    files = (config, base, config.with_name("derived.lock.json"))
    first = realise(store, config, target="requests")
    for file in files:
        append_newline(file)
        assert realise(store, config, target="requests").outputs == first.outputs
    realise(store, config, target="requests")
    assert recalled == [False, False, False, True]


def test_another_override_or_target_is_another_plan(
    store: Store, config: Path, recalled: list[bool]
) -> None:
    realise(store, config, target="requests")
    realise(store, config, "inference.n_prompts=2", target="requests")
    realise(store, config, target="closure")
    assert recalled == [False, False]


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("library_versions", lambda: {"jinja2": "0", "tokenizers": "0"}),
        ("VERSION", "0.0.0"),
        ("PLAN_VERSION", 0),
    ],
)
def test_another_version_of_dis_or_of_a_library_is_another_plan(
    store: Store,
    config: Path,
    recalled: list[bool],
    monkeypatch: pytest.MonkeyPatch,
    name: str,
    value: Any,
) -> None:
    realise(store, config, target="requests")
    monkeypatch.setattr(plan_cache, name, value)
    realise(store, config, target="requests")
    assert recalled == [False]


def test_the_version_in_a_plan_is_that_of_the_project() -> None:
    project = tomllib.loads((Path(__file__).parents[3] / "pyproject.toml").read_text("utf-8"))
    assert project["project"]["version"] == VERSION


def test_an_output_that_was_collected_is_no_longer_planned(
    store: Store, config: Path, recalled: list[bool]
) -> None:
    first = realise(store, config)
    collect_after_closing(store, *first.roots)
    with Store.open(store.path) as after:
        assert not after.is_valid(first.outputs["bundle"])
        again = realise(after, config)
        assert again.outputs["bundle"] == first.outputs["bundle"]
    assert recalled == [False]
    assert not again.cached


def test_a_plan_whose_derivation_was_collected_is_compiled_again(
    store: Store, config: Path, recalled: list[bool]
) -> None:
    realise(store, config, target="requests", root="first")
    renamed = realise(store, config, "metadata.name=other", target="requests")
    collect_after_closing(store)
    with Store.open(store.path) as after:
        assert after.is_valid(renamed.outputs["out"])
        with pytest.raises(IntegrityError):
            after.derivation(renamed.derivation)
        again = realise(after, config, "metadata.name=other", target="requests", root="second")
        assert again.derivation == renamed.derivation
        assert after.derivation(renamed.derivation)
    assert recalled == [False, False]


def test_a_lock_that_changes_during_a_build_is_not_taken_for_the_one_that_was_used(
    store: Store, config: Path, recalled: list[bool]
) -> None:
    def change_the_lock(event: Event) -> None:
        if event.kind == "start" and event.subject == "tiny-requests":
            append_newline(lock_of(config))

    realise_target(store, TargetRequest(config, target="requests"), change_the_lock)
    realise(store, config, target="requests")
    assert recalled == [False]


def test_a_target_whose_input_was_built_is_not_called_cached(store: Store, config: Path) -> None:
    first = realise(store, config)
    assert not first.cached
    for record in (store.path / "realisations").rglob("*.json"):
        if json.loads(record.read_bytes())["builder"] == "requests":
            record.unlink()
    store.close()
    with Store.open(store.path) as after:
        after.reindex()
        # The requests are built again and come out the same, so the run is known once they are.
        again = realise(after, config)
        assert again.outputs == first.outputs
        assert not again.cached
        assert realise(after, config).cached
