"""The commands about the store and its records: root, path-info, gc, store, show-derivation."""

import json
import os
from pathlib import Path

import pytest

from command_line import SHORTER, Dis, Realised

LIMITS = ("--set", "inference.n_prompts=2", "--set", SHORTER)


def test_roots_are_added_listed_and_removed(dis: Dis, own_store: Realised) -> None:
    added = dis("root", "add", "golden", "first", "--json").document
    first = dis("root", "list", "--json").document[0]
    assert (added["name"], added["automatic"]) == ("golden", False)
    assert added["key"] == first["key"]
    names = [root["name"] for root in dis("root", "list", "--json").document]
    assert "golden" in names
    assert dis("show", "golden").code == 0
    removed = dis("root", "remove", "golden", "second")
    assert (removed.code, removed.out) == (0, "")
    names = [root["name"] for root in dis("root", "list", "--json").document]
    assert not {"golden", "second"} & set(names)
    assert own_store.path_of("first").is_dir()


def test_an_object_that_no_root_knows_is_kept_by_its_new_root(
    dis: Dis, own_store: Realised
) -> None:
    results = dis("path-info", "-r", "first").out.split()[0]
    assert dis("root", "add", "results", Path(results).name[:12]).code == 0
    assert dis("root", "remove", "first").code == 0
    added = dis("root", "list", "--json").document
    assert [root["key"] for root in added if root["name"] == "results"] == [None]
    assert own_store.store.is_dir()


def test_removing_an_unknown_root_removes_none_of_the_others(dis: Dis, own_store: Realised) -> None:
    del own_store
    outcome = dis("root", "remove", "first", "secnod")
    outcome.check_one_block()
    assert outcome.code == 2
    assert "hint: did you mean second?" in outcome.err
    assert "first" in dis("root", "list").out


@pytest.mark.parametrize("name", ["a/b", "-x", "x.json", ""])
def test_a_bad_name_for_a_root_is_refused(dis: Dis, own_store: Realised, name: str) -> None:
    del own_store
    outcome = dis("root", "add", "--", name, "first")
    outcome.check_one_block()
    assert outcome.code == 2


def test_a_file_outside_the_store_cannot_be_rooted(dis: Dis, realised: Realised) -> None:
    outcome = dis("root", "add", "golden", realised.config)
    outcome.check_one_block()
    assert outcome.code == 2


def test_an_empty_store_has_no_roots(dis: Dis) -> None:
    assert dis("root", "list").out == ""
    assert dis("root", "list", "--json").document == []


def test_path_info_prints_paths_and_sizes(dis: Dis, realised: Realised) -> None:
    assert dis("path-info", "first").out == f"{realised.first}\n"
    assert dis("path-info", "-s", "first").out.split()[0] == realised.first
    paths = dis("path-info", "-r", "first").out.splitlines()
    assert paths[-1] == realised.first
    assert len(paths) == 2
    (document,) = dis("path-info", "--json", "first").document
    assert document["references"] == [Path(paths[0]).name]
    assert document["closure_size"] > document["size"] > 0
    assert "first" in document["roots"]


def test_gc_keeps_every_run(dis: Dis, own_store: Realised) -> None:
    assert dis("root", "remove", "first", "second").code == 0
    outcome = dis("gc")
    assert outcome.code == 0
    assert dis("list", "--json").document[1]["path"] == str(own_store.path_of("first"))


def test_gc_frees_what_no_root_keeps(dis: Dis, own_store: Realised) -> None:
    assert (
        dis("realize", f"{own_store.config}#requests", "--set", "inference.n_prompts=1").code == 0
    )
    planned = dis("gc", "--dry-run")
    assert "quickstart-requests.out" in planned.out
    assert "would be deleted" in planned.out
    document = dis("gc", "--json").document
    labels = {each["label"] for each in document["objects"]}
    assert labels == {"quickstart-requests.out", "quickstart-requests.log"}
    assert document["freed_bytes"] > 0
    assert dis("gc").out == "0 objects deleted, 0 B freed\n"


def test_gc_retires_automatic_roots_and_never_named_ones(dis: Dis, own_store: Realised) -> None:
    assert dis("root", "remove", "second").code == 0
    assert dis("gc", "--older-than", "1h", "--json").document["retired_roots"] == []
    document = dis("gc", "--keep-last", "0", "--yes", "--json").document
    assert len(document["retired_roots"]) == 2
    assert own_store.path_of("first").is_dir()
    assert not own_store.path_of("second").exists()


def test_gc_says_why_a_root_that_looks_old_stays(dis: Dis, own_store: Realised) -> None:
    for record in (own_store.store / "roots").glob("quickstart.*.json"):
        os.utime(record, (1_000_000_000, 1_000_000_000))
    for options in (["--dry-run"], ["--yes"]):
        outcome = dis("gc", "--older-than", "30d", *options)
        assert outcome.code == 0
        assert "root quickstart" not in outcome.out.replace("ROOT", "")
        assert "2 automatic roots that the clock calls older stay" in outcome.err
    assert len(dis("gc", "--older-than", "30d", "--json").document["unproven_roots"]) == 2
    assert "stay" not in dis("gc", "--keep-last", "5").err


def test_store_verify_finds_a_changed_file(dis: Dis, own_store: Realised) -> None:
    assert dis("store", "verify", "--all").code == 0
    assert dis("store", "verify", "first", "second", "-j", "2", "--json").document["ok"] is True
    tokens = own_store.path_of("first") / "tokens.json"
    size = tokens.stat().st_size
    tokens.chmod(0o644)
    tokens.write_bytes(b"x" * size)
    tokens.chmod(0o444)
    outcome = dis("store", "verify", "first")
    assert outcome.code == 4
    assert f"changed: {own_store.path_of('first').name}/tokens.json" in outcome.out
    problems = dis("store", "verify", "--all", "--json").document["problems"]
    assert {problem["kind"] for problem in problems} == {"changed"}


def test_store_verify_wants_to_know_what(dis: Dis) -> None:
    for argv in ([], ["first", "--all"]):
        outcome = dis("store", "verify", *argv)
        outcome.check_one_block()
        assert outcome.code == 2


def test_store_reindex_brings_everything_back(dis: Dis, own_store: Realised) -> None:
    for name in ("index.sqlite", "index.sqlite-wal", "index.sqlite-shm"):
        (own_store.store / name).unlink(missing_ok=True)
    assert dis("store", "reindex").code == 0
    assert dis("realize", own_store.config, *LIMITS).out == f"{own_store.path_of('first')}\n"


def test_store_path_is_where_the_store_is(dis: Dis, realised: Realised) -> None:
    assert dis("store", "path").out == f"{realised.store}\n"
    assert dis("store", "path", "--store", "/x", "--json").document["path"] == "/x"
    assert dis("--store", "/x", "store", "path").out == "/x\n"


def test_show_derivation_of_a_manifest_needs_no_store(
    dis: Dis, realised: Realised, tmp_path: Path
) -> None:
    outcome = dis("show-derivation", f"{realised.config}#closure", "--store", tmp_path / "none")
    ((digest, closure),) = outcome.document.items()
    assert (len(digest), closure["builder"]) == (64, "closure")
    assert not (tmp_path / "none").exists()


def test_show_derivation_recursive_has_inputs_first(dis: Dis, realised: Realised) -> None:
    document = dis("show-derivation", realised.config, *LIMITS, "-r").document
    builders = [derivation["builder"] for derivation in document.values()]
    assert builders[-1] == "run"
    assert builders.index("generation") > builders.index("closure")
    seen: set[str] = set()
    for digest, derivation in document.items():
        assert {source["derivation"] for source in derivation["inputs"].values()} <= seen
        seen.add(digest)
    assert dis("show-derivation", "first", "-r").document == document
    last = list(document)[-1]
    assert dis("show-derivation", last).document == {last: document[last]}


def test_show_derivation_without_a_lock_says_how_to_make_one(
    dis: Dis, quickstart: Path, tmp_path: Path
) -> None:
    missing = tmp_path / "none.json"
    outcome = dis("show-derivation", quickstart, "--set", f"artifacts.lockfile={missing}")
    outcome.check_one_block()
    assert outcome.code == 2
    assert f"hint: dis lock {quickstart}" in outcome.err


def test_a_damaged_root_is_an_integrity_error(dis: Dis, own_store: Realised) -> None:
    (own_store.store / "roots" / "first.json").chmod(0o644)
    (own_store.store / "roots" / "first.json").write_text(json.dumps({}), encoding="utf-8")
    for argv in (["list"], ["gc"], ["show", "first"]):
        outcome = dis(*argv)
        outcome.check_one_block()
        assert outcome.code == 4
