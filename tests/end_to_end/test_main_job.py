"""The main job through the command: realise, rebuild, change, compare, collect."""

import json
import os
import re
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

ROOT = Path(__file__).parents[2]
QUICKSTART = ROOT / "configs/quickstart.json"
SHORTER = "inference.request_template.sampling.max_tokens=5"


def stated_bundle() -> str:
    """Return the digest that the README promises to everybody."""
    match = re.search(r"`([0-9a-f]{64})`", (ROOT / "README.md").read_text("utf-8"))
    assert match is not None
    return match[1]


def bundle_of(finished: Any) -> str:
    return str(finished.json["outputs"]["bundle"]["digest"])


def generations(dis: Any, ref: str = "run-a") -> int:
    """Return how many builds of the generation behind a run the store knows."""
    key = dis("path-info", "--json", ref).json
    assert key
    return len(list((dis.store / "realisations").rglob("*.json")))


def test_the_quickstart_bundle_is_the_one_that_the_readme_states(shared: Any) -> None:
    assert bundle_of(shared("realize", QUICKSTART, "--json")) == stated_bundle()


def test_a_second_realisation_has_nothing_to_do(shared: Any) -> None:
    answer = shared("realize", QUICKSTART, "--json").json
    assert answer["cached"] is True
    assert answer["target"] == "run"
    path = Path(answer["outputs"]["bundle"]["path"])
    assert (
        json.loads((path / "bundle.json").read_bytes())["kind"] == "vllm.deterministic_run_bundle"
    )


def test_the_printed_path_is_the_bundle(shared: Any) -> None:
    printed = shared("realize", QUICKSTART).stdout
    assert printed.endswith("\n")
    assert printed.count("\n") == 1
    assert (Path(printed.strip()) / "tokens.json").is_file()


@pytest.mark.parametrize(
    ("override", "same_bundle"),
    [
        ("metadata.description=Another description", False),
        ("metadata.name=renamed", False),
        ("outputs.directory=somewhere/else", True),
    ],
)
def test_editing_words_rebuilds_the_bundle_without_generating_a_token(
    shared: Any, override: str, same_bundle: bool
) -> None:
    before = bundle_of(shared("realize", QUICKSTART, "--json"))
    finished = shared("realize", QUICKSTART, "--set", override, "--json")
    assert (bundle_of(finished) == before) is same_bundle
    assert "generation" not in finished.stderr.replace("generation: cached", "")
    logs = list((shared.store / "objects").glob("*/*/run_log.json"))
    assert len({path.stat().st_ino for path in logs}) == 1


def test_two_checkouts_two_stores_and_another_time_zone_give_one_bundle(
    tmp_path: Path, elsewhere: Callable[[str], Path], dis: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    first, second = elsewhere("one"), elsewhere("another place")
    one = bundle_of(dis("realize", first, "--json"))
    monkeypatch.setenv("TZ", "Pacific/Auckland")
    os.umask(old := os.umask(0o077))
    os.umask(0o077)
    try:
        other = type(dis)(tmp_path / "second store", tmp_path / "second home", cwd=second.parent)
        assert bundle_of(other("realize", "quickstart.json", "--json")) == one == stated_bundle()
    finally:
        os.umask(old)


def test_a_lock_made_anew_has_the_committed_identity(
    dis: Any, elsewhere: Callable[[str], Path]
) -> None:
    config = elsewhere("copy")
    lock = config.with_name("quickstart.lock.json")
    committed = json.loads(lock.read_bytes())["lock_id"]
    lock.unlink()
    dis("lock", config)
    assert json.loads(lock.read_bytes())["lock_id"] == committed


def test_a_rebuild_gives_the_same_bits(shared: Any) -> None:
    finished = shared("realize", QUICKSTART, "--rebuild", "--json")
    (rebuild,) = finished.json["rebuilds"]
    assert rebuild["identical"] is True


def test_a_shorter_answer_is_another_run_and_the_diff_says_where_and_why(shared: Any) -> None:
    shared("realize", QUICKSTART, "--set", SHORTER, "--name", "run-b")
    finished = shared("diff", "run-a", "run-b", expect=1)
    assert "max_tokens" in finished.stdout
    report = shared("diff", "run-a", "run-b", "--json", expect=1).json
    assert report["same"] is False
    assert shared("diff", "run-a", "run-a").code == 0


def test_a_collection_frees_nothing_that_a_run_needs(dis: Any) -> None:
    before = dis("realize", QUICKSTART, "--json").json
    dis("gc")
    after = dis("realize", QUICKSTART, "--json").json
    assert after["cached"] is True
    assert after["outputs"] == before["outputs"]
    dis("store", "verify", "--all")


def test_a_collection_frees_a_run_when_its_roots_are_gone_and_it_comes_back_the_same(
    dis: Any,
) -> None:
    answer = dis("realize", QUICKSTART, "--json").json
    for root in answer["roots"]:
        dis("root", "remove", root)
    dis("gc")
    assert not Path(answer["outputs"]["bundle"]["path"]).exists()
    again = dis("realize", QUICKSTART, "--json").json
    assert again["cached"] is False
    assert again["outputs"]["bundle"]["digest"] == answer["outputs"]["bundle"]["digest"]


def test_run_lays_the_bundle_out_as_real_files(shared: Any, tmp_path: Path) -> None:
    directory = tmp_path / "laid-out"
    shared("run", QUICKSTART, "--run-dir", directory)
    names = {path.name for path in directory.iterdir()}
    assert {
        "bundle.json",
        "manifest.used.json",
        "lock.used.json",
        "tokens.json",
        "run_log.json",
    } <= names
    assert not [path for path in directory.rglob("*") if path.is_symlink()]
    assert shared("diff", "run-a", directory).code == 0


def test_no_bundle_holds_a_path_of_the_machine(shared: Any) -> None:
    bundle = Path(shared("realize", QUICKSTART).stdout.strip())
    for path in bundle.iterdir():
        if path.suffix == ".json":
            text = path.read_text("utf-8")
            assert str(ROOT) not in text
            assert str(shared.store) not in text


def test_a_dry_run_says_what_would_be_built_and_builds_nothing(dis: Any) -> None:
    finished = dis("realize", QUICKSTART, "--dry-run")
    assert "quickstart-generation" in finished.stdout + finished.stderr
    assert not list((dis.store / "realisations").rglob("*.json"))


def test_locked_refuses_a_missing_lock_and_names_the_command(
    dis: Any, elsewhere: Callable[[str], Path]
) -> None:
    config = elsewhere("copy")
    config.with_name("quickstart.lock.json").unlink()
    finished = dis("realize", config, "--locked", expect=2)
    assert "hint: dis lock" in finished.stderr


def test_a_file_that_changed_since_it_was_locked_is_refused(
    dis: Any, elsewhere: Callable[[str], Path]
) -> None:
    config = elsewhere("copy")
    prompts = config.parent / "quickstart/prompts.json"
    prompts.write_text(prompts.read_text("utf-8") + "\n", "utf-8")
    finished = dis("realize", config, expect=4)
    assert "not the file that was locked" in finished.stderr
    shutil.copy(ROOT / "configs/quickstart/prompts.json", prompts)
    assert bundle_of(dis("realize", config, "--json")) == stated_bundle()
