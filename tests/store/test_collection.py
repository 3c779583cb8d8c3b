import itertools
from pathlib import Path

import pytest

from auditing import audit
from builds import build_of, key_of
from dis_store import (
    Digest,
    Input,
    IntegrityError,
    RetirementPolicy,
    Root,
    Store,
    durability,
)
from dis_store.garbage_collection import deletion
from processes import at_once
from trees import Blob, write_text, write_tree
from waits import Wait, watch_waits


def restarted(store: Store) -> Store:
    """Return the store as a new process sees it, whose predecessor's temporary roots are gone."""
    store.close()
    return Store.open(store.path)


def test_what_no_root_keeps_is_deleted(store: Store) -> None:
    kept, dead = write_text(store, "kept"), write_text(store, "dead")
    store.set_root("name", Root(kept))
    store = restarted(store)
    report = store.collect_garbage()
    assert [found.digest for found in report.objects] == [dead]
    assert report.objects[0].label == ""
    assert report.orphans == ()
    assert store.objects() == [kept]
    assert not store.object_path(dead).exists()
    assert not (store.path / "manifests" / dead[:2] / f"{dead}.json").exists()
    assert store.sha256_of(Digest.of(b"dead")) is None
    assert store.sha256_of(Digest.of(b"kept")) is not None
    assert audit(store.path) == []


def test_a_root_keeps_the_closure_of_its_object(store: Store) -> None:
    inner = write_text(store, "inner")
    middle = write_tree(store, {}, {"r": (inner, None)})
    outer = write_tree(store, {}, {"r": (middle, None)})
    above = write_tree(store, {}, {"r": (outer, None)})
    store.set_root("name", Root(outer))
    store = restarted(store)
    assert [found.digest for found in store.collect_garbage().objects] == [above]
    assert store.closure([outer]) == [inner, middle, outer]
    store.remove_root("name")
    store = restarted(store)
    store.collect_garbage()
    assert store.objects() == []
    assert audit(store.path) == []


def test_a_dry_run_reports_the_same_and_does_nothing(store: Store) -> None:
    shared = Blob(b"s" * 1000)
    kept = write_tree(store, {"f": shared})
    dead = write_tree(store, {"f": shared, "own": Blob(b"o" * 10), "twice": Blob(b"o" * 10)})
    derivation = store.add_derivation(b'{"format":1,"name":"nice","type":"derivation"}')
    store.add_realisation(build_of("a", {"out": dead}, derivation=derivation))
    store.set_root("name", Root(kept))
    store = restarted(store)
    foretold = store.collect_garbage(dry_run=True)
    assert foretold.dry_run
    assert store.objects() == [kept, dead]
    done = store.collect_garbage()
    assert not done.dry_run
    assert (foretold.objects, foretold.derivations, foretold.realisations, foretold.freed_bytes) == (
        done.objects, done.derivations, done.realisations, done.freed_bytes,
    )  # fmt: skip
    # The shared file stays, and the two names of the other are one inode.
    assert done.freed_bytes == 10
    (found,) = done.objects
    assert (found.label, found.size) == ("nice.out", 1020)
    assert (done.derivations, len(done.realisations)) == ((derivation,), 1)
    assert store.realisations(key_of("a")) == []
    with pytest.raises(IntegrityError):
        store.derivation(derivation)
    assert audit(store.path) == []


def test_the_last_object_with_a_file_frees_it(store: Store) -> None:
    for name in ("one", "two"):
        write_tree(store, {name: Blob(b"s" * 1000)})
    store = restarted(store)
    assert store.collect_garbage().freed_bytes == 1000
    assert list(store.path.joinpath("links").rglob("*-x")) == []
    assert [path for path in store.path.joinpath("links").rglob("*") if path.is_file()] == []


def test_a_name_in_links_that_a_crash_left_is_swept(store: Store) -> None:
    with store.new_tree() as tree:
        tree.write_bytes("f", b"x" * 100)
        tree.register()
        name = Digest.of(b"left")
    left = store.path / "links" / name[:2] / name
    left.parent.mkdir(exist_ok=True)
    left.write_bytes(b"left")
    report = store.collect_garbage()
    assert not left.exists()
    assert report.freed_bytes == 4


def graph(store: Store) -> dict[str, Digest]:
    """Make a run of three builds: weights, then a generation with two results, then a bundle."""
    found = {
        name: write_text(store, name) for name in ("weights", "weights log", "log", "diverged")
    }
    found["results"] = write_tree(store, {"tokens": Blob(b"1")})
    found["bundle"] = write_tree(
        store, {"bundle.json": Blob(b"{}")}, {"results": (found["results"], None)}
    )
    fetch = store.add_derivation(b'{"format":1,"name":"fetch","type":"derivation"}')
    generate = store.add_derivation(
        b'{"format":1,"inputs":{"weights":{"derivation":"%s","output":"out"}},"type":"derivation"}'
        % fetch.encode()
    )
    weights = Input(found["weights"], key_of("weights"))
    store.add_realisation(
        build_of(
            "weights", {"out": found["weights"], "log": found["weights log"]}, derivation=fetch
        )
    )
    for results, log in (("results", "log"), ("diverged", "log")):
        store.add_realisation(
            build_of(
                "generation",
                {"results": found[results], "log": found[log]},
                {"weights": weights},
                generate,
            )
        )
    generation = Input(found["results"], key_of("generation"))
    store.add_realisation(build_of("run", {"bundle": found["bundle"]}, {"generation": generation}))
    found["generate"], found["fetch"] = generate, fetch
    return found


def test_a_run_keeps_its_logs_its_diverging_results_and_its_inputs(store: Store) -> None:
    found = graph(store)
    store.set_root("run", Root(found["bundle"], found["generate"], key_of("run")))
    store = restarted(store)
    report = store.collect_garbage()
    assert (report.objects, report.derivations, report.realisations) == ((), (), ())
    assert store.derivation(found["fetch"])
    assert len(store.realisations(key_of("generation"))) == 2
    assert audit(store.path) == []


def test_a_run_can_give_up_its_inputs(store: Store) -> None:
    found = graph(store)
    store.set_root("run", Root(found["bundle"], found["generate"], key_of("run")))
    store = restarted(store)
    report = store.collect_garbage(drop_inputs=True)
    gone = {each.digest for each in report.objects}
    assert gone == {found[name] for name in ("weights", "weights log", "log", "diverged")}
    assert {each.builder for each in report.realisations} == {"weights", "generation"}
    assert store.chosen(key_of("run")) is not None
    assert audit(store.path) == []


def test_a_record_stays_when_everything_that_came_out_is_alive(store: Store) -> None:
    found = graph(store)
    store.set_root("weights", Root(found["weights"]))
    store.set_root("results", Root(found["results"]))
    store = restarted(store)
    store.collect_garbage()
    # Both builds of the generation lost their log.
    assert store.realisations(key_of("generation")) == []
    assert store.objects() == [found["weights"], found["results"]]
    assert audit(store.path) == []


def test_a_result_link_keeps_its_object_while_it_is_there(store: Store, tmp_path: Path) -> None:
    digest, other = write_text(store, "x"), write_text(store, "y")
    link = tmp_path / "result"
    store.add_result_link(link, Root(digest))
    store = restarted(store)
    assert [found.digest for found in store.collect_garbage().objects] == [other]
    link.unlink()
    report = store.collect_garbage()
    assert report.dead_links == (link,)
    assert store.objects() == []
    assert store.result_links() == []


def test_a_result_link_that_somebody_turned_keeps_what_it_leads_to(
    store: Store, tmp_path: Path
) -> None:
    digest, other = write_text(store, "x"), write_text(store, "y")
    link = tmp_path / "result"
    store.add_result_link(link, Root(digest))
    link.unlink()
    link.symlink_to(store.object_path(other))
    store = restarted(store)
    store.collect_garbage()
    assert store.objects() == [other]


def test_a_moved_store_keeps_what_its_result_links_name(store: Store, tmp_path: Path) -> None:
    digest = write_text(store, "x")
    store.add_result_link(tmp_path / "result", Root(digest))
    store.close()
    store.path.rename(tmp_path / "moved")
    with Store.open(tmp_path / "moved") as moved:
        assert moved.collect_garbage().objects == ()
        assert moved.read_bytes(digest, "text") == b"x"
        assert audit(moved.path) == []


def test_a_living_process_keeps_what_it_wrote_and_asked_for(store: Store, tmp_path: Path) -> None:
    inner = write_text(store, "asked for")
    outer = write_tree(store, {}, {"r": (inner, None)})
    derivation = store.add_derivation(b'{"format":1,"type":"derivation"}')
    store = restarted(store)
    assert store.protect(outer)
    written = write_text(store, "written")
    store.add_derivation(b'{"format":1,"type":"derivation"}')
    at_once([lambda: collect(store.path)])
    assert set(store.objects()) == {inner, outer, written}
    assert store.derivation(derivation)
    store.close()
    collect(store.path)
    with Store.open(store.path) as again:
        assert again.objects() == []
    assert list(store.path.joinpath("temproots").iterdir()) == []


def collect(path: Path) -> None:
    with Store.open(path) as store:
        store.collect_garbage()


def test_an_orphan_is_deleted(store: Store) -> None:
    digest = write_text(store, "x")
    name = Digest.of(b"orphan")
    tree = store.path / "objects" / name[:2] / name
    tree.mkdir(parents=True)
    tree.joinpath("file").write_bytes(b"12345")
    manifest = store.path / "manifests" / name[:2] / f"{name}.json"
    manifest.parent.mkdir(exist_ok=True)
    manifest.write_bytes(b"{}")
    record = store.path / "realisations" / name[:2] / name / "build.json"
    record.parent.mkdir(parents=True)
    record.write_bytes(b"{}")
    foretold = store.collect_garbage(dry_run=True)
    report = store.collect_garbage()
    assert (foretold.orphans, foretold.freed_bytes) == (report.orphans, report.freed_bytes)
    assert report.orphans == tuple(
        str(path.relative_to(store.path)) for path in (tree, manifest, record)
    )
    assert report.freed_bytes == 5
    assert not tree.exists()
    assert not manifest.exists()
    assert not record.exists()
    assert store.objects() == [digest]
    assert audit(store.path) == []


def test_an_orphan_that_a_root_names_is_kept(store: Store) -> None:
    inner = write_text(store, "inner")
    outer = write_tree(store, {}, {"r": (inner, None)})
    store.set_root("name", Root(outer))
    durability.remove_tree(store.object_path(inner))
    store = restarted(store)
    assert store.reindex().incomplete == (outer,)
    report = store.collect_garbage()
    assert report.objects == ()
    assert store.object_path(outer).is_dir()
    assert write_text(store, "inner") == inner
    assert store.reindex().incomplete == ()
    assert store.objects() == [inner, outer]


def test_a_damaged_object_is_deleted_like_another(store: Store) -> None:
    digest = write_tree(store, {"a/b": Blob(b"x")})
    store.object_path(digest).chmod(0o755)
    durability.remove_tree(store.object_path(digest) / "a")
    (store.path / "manifests" / digest[:2] / f"{digest}.json").unlink()
    store = restarted(store)
    store.collect_garbage()
    assert store.objects() == []
    assert audit(store.path) == []


def test_a_plan_is_forgotten_with_its_objects(store: Store) -> None:
    kept, dead = write_text(store, "kept"), write_text(store, "dead")
    store.set_root("name", Root(kept))
    store.remember_plan(key_of("a"), "a", [kept])
    store.remember_plan(key_of("b"), "b", [kept, dead])
    store.remember_plan(key_of("c"), "c", [Digest.of(b"nothing")])
    store = restarted(store)
    store.collect_garbage()
    assert store.recall_plan(key_of("a")) == "a"
    assert store.recall_plan(key_of("b")) is None
    assert store._foundation.index.value("SELECT count(*) FROM plans") == 1


def test_a_large_collection_goes_in_batches(store: Store, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("dis_store.garbage_collection.deletion._LARGE_BATCH", 3)
    names = [write_text(store, "first")]
    for number in range(10):
        names.append(write_tree(store, {"n": Blob(b"%d" % number)}, {"r": (names[-1], None)}))
    store = restarted(store)
    steps: list[tuple[str, int, int]] = []
    store.collect_garbage(progress=lambda *step: steps.append(step))
    assert [step for step in steps if step[0] == "forgetting"] == [
        ("forgetting", done, 11) for done in (0, 3, 6, 9)
    ]
    freeing = [step for step in steps if step[0] == "freeing"]
    assert (freeing[0], freeing[-1]) == (("freeing", 0, 11), ("freeing", 11, 11))
    assert freeing == sorted(freeing)
    assert all(type(done) is int for _, done, _ in steps)
    aside = [step for step in steps if step[0] == "setting aside"]
    assert aside[0] == ("setting aside", 0, 11)
    shards = [
        len(list(group)) for _, group in itertools.groupby(sorted(names), lambda name: name[:2])
    ]
    assert [done for _, done, _ in aside] == [0, *itertools.accumulate(shards)][:-1]
    assert steps[-1][0] == "sweeping"
    assert steps[-1][1] == steps[-1][2]
    assert store.objects() == []


def test_the_reserve_is_there_again_after_a_collection(store: Store) -> None:
    reserve = store.path / "reserve"
    assert reserve.stat().st_blocks * 512 >= 8 << 20
    store.collect_garbage()
    assert reserve.stat().st_blocks * 512 >= 8 << 20


def test_lock_files_of_finished_builds_are_swept(store: Store) -> None:
    left = store.path / "locks" / "build" / f"{key_of('old')}.lock"
    left.touch()
    with store.build_lock(key_of("new")):
        store.collect_garbage()
        assert not left.exists()
        assert len(list(left.parent.iterdir())) == 1
    assert list(left.parent.iterdir()) == []


def test_deleting_never_leaves_the_store(store: Store, tmp_path: Path) -> None:
    precious = tmp_path / "precious"
    precious.mkdir()
    precious.joinpath("file").write_text("precious")
    digest = write_text(store, "x")
    top = store.object_path(digest)
    top.chmod(0o755)
    top.joinpath("link").symlink_to(precious)
    store = restarted(store)
    store.collect_garbage()
    assert not top.exists()
    assert precious.joinpath("file").read_text() == "precious"


def test_what_was_deleted_does_not_come_back_and_goes_in_an_order_that_may_be_cut(
    store: Store, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    derivation = store.add_derivation(b'{"format":1,"type":"derivation"}')
    digest = write_text(store, "x")
    build = store.add_realisation(build_of("a", {"out": digest}, derivation=derivation))
    store.set_root("run", Root(digest, derivation, build.key, automatic=True))
    store.add_result_link(tmp_path / "result", Root(digest))
    (tmp_path / "result").unlink()
    (link,) = (store.path / "roots" / "auto").iterdir()
    store = restarted(store)
    shard = "ab" if digest[:2] != "ab" else "cd"
    orphan = store.path / "objects" / shard / f"{shard}{'0' * 62}"
    orphan.mkdir(parents=True)
    lost = store.path / "realisations" / "ab" / f"ab{'0' * 62}" / "lost.json"
    lost.parent.mkdir(parents=True)
    lost.touch()
    root = store.path / "roots" / "run.json"
    record = store.path / "realisations" / build.key[:2] / build.key / f"{build.build}.json"
    tree, manifest = (
        store.object_path(digest),
        store.path / "manifests" / digest[:2] / f"{digest}.json",
    )
    described = store.path / "derivations" / derivation[:2] / f"{derivation}.json"
    gone = [root, link, record, described, tree, manifest, orphan, lost]
    waits = watch_waits(monkeypatch, gone)
    steps: dict[str, list[Wait]] = {}
    rows: list[object] = []
    for name in ("_delete_records", "_delete_rows", "_set_aside"):

        def watched(
            *arguments: object, name: str = name, step: object = getattr(deletion, name)
        ) -> object:
            steps[name] = list(waits)
            rows.append(store._foundation.has_row(digest))
            return step(*arguments)  # type: ignore[operator] # a function

        monkeypatch.setattr(deletion, name, watched)
    inodes = {path.parent: path.parent.stat().st_ino for path in gone}
    report = store.collect_garbage(policy=RetirementPolicy(keep_last=0))
    assert report.retired_roots == ("run",)

    def is_lastingly_gone(path: Path, by: list[Wait]) -> bool:
        return any(wait.inode == inodes[path.parent] and path not in wait.named for wait in by)

    # No name may keep what is no longer there, and no row may promise it.
    assert [path for path in gone if is_lastingly_gone(path, steps["_delete_records"])] == [
        root,
        link,
    ]
    assert rows == [True, True, False]
    assert all(is_lastingly_gone(path, waits) for path in gone)
    assert store.outputs_of([derivation]) == {}
    assert store.verify(None).ok
    assert not record.parent.exists()
    assert not any(path.exists() for path in gone)
