"""What is alive, and what of the rest goes, where builds and the disk are not as simple as they should be."""

import errno
import os
import time
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from auditing import audit
from builds import build_of, key_of
from descriptors import nothing_left_open
from dis_store import Digest, Input, Root, Store, durability, last_use
from dis_store.garbage_collection import collection, deletion
from trees import write_text, write_tree


def restarted(store: Store) -> Store:
    """Return the store as a new process sees it, whose predecessor's temporary roots are gone."""
    store.close()
    return Store.open(store.path)


def kept(store: Store) -> set[Digest]:
    store = restarted(store)
    store.collect_garbage()
    assert audit(store.path) == []
    return set(store.objects())


def test_an_input_that_no_build_made_is_kept_with_what_was_made_of_it(store: Store) -> None:
    given, inner, out = (write_text(store, text) for text in ("given", "inner", "out"))
    with_references = write_tree(store, {}, {"r": (inner, None)})
    inputs = {"a": Input(given, None), "b": Input(with_references, key_of("lost"))}
    build = store.add_realisation(build_of("a", {"out": out}, inputs))
    store.set_root("run", Root(out, key=build.key))
    assert kept(store) == {given, inner, out, with_references}


def test_builds_that_name_each_other_keep_what_they_name_and_come_to_an_end(store: Store) -> None:
    outs = [write_text(store, name) for name in "abc"]
    logs = [write_text(store, f"log of {name}") for name in "abc"]
    dead = write_text(store, "dead")
    # Each names itself as well, before and after the others.
    names = {"first": "a", "b": "b", "c": "c", "then": "a"}
    inputs = {name: Input(outs["abc".index(key)], key_of(key)) for name, key in names.items()}
    for name, out, log in zip("abc", outs, logs, strict=True):
        store.add_realisation(build_of(name, {"out": out, "log": log}, inputs))
    store.set_root("run", Root(outs[0], key=key_of("a")))
    assert dead not in kept(store)
    assert kept(store) == {*outs, *logs}


def test_a_root_of_a_key_without_a_build_keeps_its_object(store: Store) -> None:
    digest = write_text(store, "x")
    store.set_root("run", Root(digest, key=key_of("nothing")))
    assert kept(store) == {digest}


def test_of_two_builds_of_a_key_one_may_go(store: Store) -> None:
    one, other = write_text(store, "one"), write_text(store, "other")
    first = store.add_realisation(build_of("a", {"out": one}))
    store.add_realisation(build_of("a", {"out": other}))
    store.set_root("one", Root(one))
    assert kept(store) == {one}
    assert store.realisations(key_of("a")) == [first]
    room = store.path / "realisations" / first.key[:2] / first.key
    assert [path.name for path in room.iterdir()] == [f"{first.build}.json"]


def test_of_a_derivation_that_goes_nothing_is_remembered_though_an_output_stays(
    store: Store,
) -> None:
    derivation = store.add_derivation(b'{"format":1,"type":"derivation"}')
    out, log = write_text(store, "out"), write_text(store, "log")
    store.add_realisation(build_of("a", {"out": out, "log": log}, derivation=derivation))
    store.set_root("out", Root(out))
    store = restarted(store)
    assert store.collect_garbage().derivations == (derivation,)
    assert store.objects() == [out]
    assert store.outputs_of([derivation]) == {}


def test_what_a_root_keeps_of_an_incomplete_object_is_kept_with_it(store: Store) -> None:
    names = ("there", "below", "gone", "dead")
    there, below, gone, dead = (write_text(store, name) for name in names)
    middle = write_tree(store, {}, {"a": (below, None), "b": (gone, None)})
    outer = write_tree(store, {}, {"middle": (middle, None), "there": (there, None)})
    store.set_root("name", Root(outer))
    durability.remove_tree(store.object_path(gone))
    store.reindex()
    assert set(store.objects()) == {there, below, dead}
    store = restarted(store)
    report = store.collect_garbage()
    assert [each.digest for each in report.objects] == [dead]
    assert report.orphans == ()
    assert write_text(store, "gone") == gone
    assert store.reindex().incomplete == ()
    assert store.verify(None).ok
    assert set(store.objects()) == {there, below, gone, middle, outer}


def test_what_bears_the_name_of_a_living_object_in_the_wrong_place_goes(store: Store) -> None:
    digest = write_text(store, "x")
    store.set_root("name", Root(digest))
    store = restarted(store)
    shard = "00" if digest[:2] != "00" else "01"
    room = store.path / "objects"
    strangers = [room / shard / digest, room / shard / "notes", room / digest[:1] / digest]
    for stranger in strangers:
        stranger.mkdir(parents=True)
    report = store.collect_garbage()
    assert report.orphans == tuple(str(path.relative_to(store.path)) for path in sorted(strangers))
    assert not any(path.exists() for path in strangers)
    assert store.objects() == [digest]


def test_a_root_keeps_its_derivation_and_those_that_it_names_without_any_build(
    store: Store,
) -> None:
    fetch = store.add_derivation(b'{"format":1,"name":"fetch","type":"derivation"}')
    make = store.add_derivation(
        b'{"format":1,"inputs":{"a":{"derivation":"%s","output":"out"}},"type":"derivation"}'
        % fetch.encode()
    )
    other = store.add_derivation(b'{"format":1,"name":"other","type":"derivation"}')
    store.set_root("run", Root(write_text(store, "x"), derivation=make))
    store = restarted(store)
    assert store.collect_garbage().derivations == (other,)
    assert store.derivation(make)
    assert store.derivation(fetch)


def test_a_record_that_stays_keeps_the_derivation_that_was_built(store: Store) -> None:
    derivation = store.add_derivation(b'{"format":1,"type":"derivation"}')
    dead = store.add_derivation(b'{"format":1,"name":"dead","type":"derivation"}')
    out = write_text(store, "out")
    store.add_realisation(build_of("a", {"out": out}, derivation=derivation))
    store.add_realisation(build_of("b", {"out": out}))
    store.set_root("out", Root(out))
    store = restarted(store)
    report = store.collect_garbage()
    assert (report.derivations, report.realisations) == ((dead,), ())
    assert store.derivation(derivation)


def test_what_a_dead_process_held_is_swept_by_a_collection_and_not_by_a_look(store: Store) -> None:
    left = store.path / "temproots" / "left"
    left.write_text("")
    store.collect_garbage(dry_run=True)
    assert left.exists()
    store.collect_garbage()
    assert not left.exists()


def test_what_somebody_deleted_already_is_no_error(store: Store) -> None:
    derivation = store.add_derivation(b'{"format":1,"type":"derivation"}')
    build = store.add_realisation(
        build_of("a", {"out": write_text(store, "x")}, derivation=derivation)
    )
    record = store.path / "realisations" / build.key[:2] / build.key / f"{build.build}.json"
    record.unlink()
    (store.path / "derivations" / derivation[:2] / f"{derivation}.json").unlink()
    assert kept(store) == set()
    assert store.realisations(build.key) == []


@pytest.mark.parametrize(("free", "batch"), [(1 << 30, 5), ((1 << 30) - 1, 2)])
def test_on_a_full_disk_rows_go_in_small_steps(
    store: Store, monkeypatch: pytest.MonkeyPatch, free: int, batch: int
) -> None:
    monkeypatch.setattr(deletion, "_LARGE_BATCH", 5)
    monkeypatch.setattr(deletion, "_SMALL_BATCH", 2)
    monkeypatch.setattr(deletion, "free_bytes", lambda _: free)
    for number in range(6):
        write_text(store, str(number))
    store = restarted(store)
    steps: list[tuple[str, int, int]] = []
    store.collect_garbage(progress=lambda *step: steps.append(step))
    assert [done for name, done, _ in steps if name == "forgetting"] == list(range(0, 6, batch))
    assert store.objects() == []


def test_what_is_freed_is_told_also_of_what_is_half_gone(store: Store) -> None:
    digest = write_text(store, "x")
    (store.path / "manifests" / digest[:2] / f"{digest}.json").unlink()
    store = restarted(store)
    steps: list[tuple[str, int, int]] = []
    store.collect_garbage(progress=lambda *step: steps.append(step))
    assert [step for step in steps if step[0] == "freeing"] == [
        ("freeing", 0, 1),
        ("freeing", 1, 1),
    ]


def test_a_directory_is_closed_when_all_was_moved_out_of_it(tmp_path: Path) -> None:
    with nothing_left_open():
        with deletion._opened(tmp_path) as descriptor:
            assert descriptor is not None
        with deletion._opened(tmp_path / "lost") as descriptor:
            assert descriptor is None


@pytest.mark.parametrize(
    ("name", "label"), [('"nice"', "nice.out"), ("5", "a.out"), (None, "a.out")]
)
def test_what_goes_is_called_after_its_derivation_or_else_its_builder(
    store: Store, name: str | None, label: str
) -> None:
    said = "" if name is None else f'"name":{name},'
    derivation = store.add_derivation(f'{{"format":1,{said}"type":"derivation"}}'.encode())
    out = write_text(store, "x")
    build = build_of("a", {"out": out}, derivation=derivation)
    store.add_realisation(build)
    # A later one gives it no other name.
    store.add_realisation(replace(build, builder="later", derivation=None))
    (found,) = restarted(store).collect_garbage(dry_run=True).objects
    assert found.label == label


def test_the_reserve_is_given_up_first_and_its_loss_is_no_error(
    store: Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    reserve = store.path / "reserve"
    seen: list[bool] = []
    decide = collection._decide

    def watched(*arguments: Any) -> Any:
        seen.append(reserve.exists())
        return decide(*arguments)

    monkeypatch.setattr(collection, "_decide", watched)
    store.collect_garbage()
    reserve.unlink()
    store.collect_garbage()
    assert seen == [False, False]
    assert reserve.stat().st_size > 0


def test_a_reserve_that_does_not_fit_is_made_by_a_later_collection(
    store: Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    def full(_: object) -> None:
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    with monkeypatch.context() as patched:
        patched.setattr(collection, "fill_reserve", full)
        assert store.collect_garbage().objects == ()
    assert not (store.path / "reserve").exists()
    store.collect_garbage()
    assert (store.path / "reserve").exists()


def test_a_collection_notes_its_day_and_forgets_those_that_a_wrong_clock_left(store: Store) -> None:
    days = store.path / "roots" / "days"
    days.mkdir(exist_ok=True)
    for path in days.iterdir():
        path.unlink()
    (days / "2999-01-01").touch()
    store.collect_garbage()
    assert [path.name for path in days.iterdir()] == [last_use.today().isoformat()]


def test_a_download_that_nobody_goes_on_with_is_freed_as_foretold(store: Store) -> None:
    left = store.path / "downloads" / f"{key_of('file')}-{os.geteuid()}"
    left.mkdir(parents=True)
    (left / "lock").touch()
    (left / "part").write_bytes(b"x" * 1000)
    long_ago = time.time() - 30 * 24 * 3600
    for path in (left / "lock", left):
        os.utime(path, (long_ago, long_ago))
    write_text(store, "x")
    store = restarted(store)
    foretold = store.collect_garbage(dry_run=True).freed_bytes
    assert foretold == store.collect_garbage().freed_bytes > 1000
    assert not left.exists()


def test_what_a_root_keeps_is_weighed_as_the_collection_would_keep_it(store: Store) -> None:
    given, out = write_text(store, "given" * 100), write_text(store, "out")
    build = store.add_realisation(build_of("a", {"out": out}, {"a": Input(given, None)}))
    store.set_root("run", Root(out, key=build.key))
    for drop_inputs, size in ((False, 503), (True, 3)):
        (weight,) = store.collect_garbage(dry_run=True, drop_inputs=drop_inputs).roots
        assert (weight.name, weight.only_bytes) == ("run", size)
