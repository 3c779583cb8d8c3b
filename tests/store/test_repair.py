"""Repair: damage is undone from any good copy, and nothing is deleted."""

import os
import shutil
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from auditing import audit
from dis_store import BuildError, Digest, Realisation, Root, Store
from dis_store.integrity.repair import RepairReport
from trees import Blob, write_tree

MODEL = {
    "model/weights": Blob(b"weights" * 100),
    "config": Blob(b"config"),
    "run": Blob(b"x", True),
}


@pytest.fixture
def digest(store: Store) -> Digest:
    return write_tree(store, MODEL)


def spoil(path: Path) -> None:
    """Change the first byte of a file, its mode and size kept."""
    mode = path.stat().st_mode & 0o7777
    path.chmod(0o644)
    data = bytearray(path.read_bytes())
    data[0] = ord("!")
    path.write_bytes(data)
    path.chmod(mode)


def unshare(store: Store, digest: Digest, path: str) -> Path:
    """Give a file an inode of its own, as after a limit on links."""
    file = store.object_path(digest) / path
    file.parent.chmod(0o755)
    copy = file.with_name("copy")
    shutil.copy2(file, copy)
    os.utime(copy, ns=(10**9, 10**9))
    copy.rename(file)
    file.parent.chmod(0o555)
    return file


def repaired(store: Store, **options: object) -> RepairReport:
    report = store.verify(jobs=2)
    assert not report.ok
    return store.repair(report.problems, **options)  # type: ignore[arg-type]


def complaints(store: Store) -> list[str]:
    """Return what the audit has to say, beside that something is in quarantine."""
    return [each for each in audit(store.path) if not each.startswith("quarantine/")]


def in_quarantine(store: Store) -> set[bytes]:
    files = (path for path in (store.path / "quarantine").rglob("*") if path.is_file())
    return {path.read_bytes() for path in files}


def test_a_changed_file_is_taken_from_another_object(store: Store, digest: Digest) -> None:
    write_tree(store, {"other": Blob(MODEL["config"].data)})
    spoil(unshare(store, digest, "config"))
    assert repaired(store).repaired == (digest,)
    assert store.verify(jobs=2).ok
    assert store.read_bytes(digest, "config") == b"config"
    assert b"!onfig" in in_quarantine(store)
    assert not complaints(store)


def test_a_changed_file_that_objects_share_is_repaired_in_all_of_them(
    store: Store, digest: Digest, tmp_path: Path
) -> None:
    other = write_tree(store, {"other": Blob(b"config")})
    spoil(store.file_path(digest, "config"))
    (tmp_path / "copy").write_bytes(b"config")
    report = repaired(store, donors=[tmp_path / "copy"])
    assert set(report.repaired) == {digest, other}
    assert store.verify(jobs=2).ok
    assert store.file_path(digest, "config").samefile(store.file_path(other, "other"))
    assert not complaints(store)


def test_a_directory_outside_the_store_is_searched_and_not_trusted(
    store: Store, digest: Digest, tmp_path: Path
) -> None:
    donors = tmp_path / "donors"
    (donors / "deep").mkdir(parents=True)
    (donors / "wrong").write_bytes(b"CONFIG")
    (donors / "deep" / "right").write_bytes(b"config")
    (donors / "link").symlink_to(donors / "deep" / "right")
    spoil(store.file_path(digest, "config"))
    assert repaired(store, donors=[donors]).repaired == (digest,)
    assert store.read_bytes(digest, "config") == b"config"
    assert (donors / "deep" / "right").read_bytes() == b"config"


def test_what_an_earlier_repair_set_aside_is_a_source_for_the_next(
    store: Store, digest: Digest
) -> None:
    kept = store.path / "quarantine" / "an-old-file"
    kept.write_bytes(b"config")
    spoil(store.file_path(digest, "config"))
    assert repaired(store).repaired == (digest,)
    assert kept.read_bytes() == b"config"


@pytest.mark.parametrize("damage", ["mode", "top mode", "extra", "manifest", "no manifest"])
def test_damage_beside_the_contents_needs_no_copy(
    store: Store, digest: Digest, damage: str
) -> None:
    top = store.object_path(digest)
    manifest = store.path / "manifests" / digest[:2] / f"{digest}.json"
    if damage == "mode":
        (top / "config").chmod(0o666)
    elif damage == "top mode":
        top.chmod(0o700)
    elif damage == "extra":
        top.chmod(0o755)
        (top / "extra").write_bytes(b"extra")
        top.chmod(0o555)
    elif damage == "manifest":
        spoil(manifest)
    else:
        manifest.unlink()
    assert repaired(store).repaired == (digest,)
    assert store.verify(jobs=2).ok
    assert damage != "extra" or b"extra" in in_quarantine(store)
    assert not complaints(store)


def test_a_lost_manifest_with_references_is_made_again(store: Store, digest: Digest) -> None:
    with store.new_tree() as tree:
        tree.write_bytes("a/file", b"file")
        tree.reference("a/model", digest, "model")
        tree.reference("whole", digest)
        holder = tree.register()
    (store.path / "manifests" / holder[:2] / f"{holder}.json").unlink()
    assert repaired(store).repaired == (holder,)
    assert store.references(holder) == [digest]
    assert not complaints(store)


def test_a_lost_tree_is_written_anew_from_copies(
    store: Store, digest: Digest, tmp_path: Path
) -> None:
    shutil.copytree(store.object_path(digest), tmp_path / "copy")
    shutil.rmtree(store.path / "links")
    (store.path / "links").mkdir()
    top = store.object_path(digest)
    for directory in (top, top / "model"):
        directory.chmod(0o755)
    shutil.rmtree(top)
    assert repaired(store, donors=[tmp_path / "copy"]).repaired == (digest,)
    assert store.verify(jobs=2).ok


def test_without_a_copy_the_object_is_built_again(store: Store, digest: Digest) -> None:
    spoil(store.file_path(digest, "config"))
    asked: list[Digest] = []

    def rebuild(wanted: Digest) -> None:
        assert not store.is_valid(wanted)
        asked.append(wanted)
        write_tree(store, MODEL)

    report = repaired(store, rebuild=rebuild)
    assert (report.rebuilt, report.lost, asked) == ((digest,), (), [digest])
    assert store.verify(jobs=2).ok
    assert b"!onfig" in in_quarantine(store)


def test_what_comes_out_otherwise_is_lost_and_out_of_service(store: Store, digest: Digest) -> None:
    spoil(store.file_path(digest, "config"))
    report = repaired(
        store, rebuild=lambda _: write_tree(store, {"another": Blob(b"tree")}) and None
    )
    assert [loss.subject for loss in report.lost] == [digest]
    assert "came out otherwise" in report.lost[0].reason
    assert not store.is_valid(digest)
    assert store.verify(jobs=2).ok
    assert {b"!onfig", b"weights" * 100} <= in_quarantine(store)


def test_what_refers_to_a_lost_object_is_out_of_service_too(store: Store, digest: Digest) -> None:
    with store.new_tree() as tree:
        tree.reference("model", digest)
        holder = tree.register()
    store.remember_plan(Digest.of(b"plan"), "{}", [holder])
    spoil(store.file_path(digest, "config"))

    def refuse(_: Digest) -> None:
        raise BuildError("no build of it is remembered")

    report = repaired(store, rebuild=refuse)
    assert [(loss.subject, loss.reason) for loss in report.lost] == [
        (digest, "there is no good copy of 'config'; no build of it is remembered")
    ]
    assert not store.is_valid(holder)
    assert store.recall_plan(Digest.of(b"plan")) is None
    # The same files again bring it back, and then what refers to it.
    assert write_tree(store, MODEL) == digest
    with store.new_tree() as tree:
        tree.reference("model", digest)
        assert tree.register() == holder
    assert store.verify(jobs=2).ok


def test_what_was_lost_comes_back_to_its_root_once_there_is_a_copy(
    store: Store, digest: Digest, tmp_path: Path
) -> None:
    for name in ("kept", "kept twice"):
        store.set_root(name, Root(digest))
    spoil(store.file_path(digest, "config"))
    assert [loss.subject for loss in repaired(store).lost] == [digest]
    # As long as there is none it is lost, and nothing else happens.
    again = repaired(store)
    assert (again.repaired, again.roots) == ((), ())
    assert "there is no good copy of 'config'" in again.lost[0].reason
    (tmp_path / "a copy").write_bytes(b"config")
    report = repaired(store, donors=[tmp_path / "a copy"])
    assert (report.repaired, report.lost) == ((digest,), ())
    assert report.roots == ("kept", "kept twice")
    assert store.verify(jobs=2).ok
    assert {path: store.read_bytes(digest, path) for path in MODEL} == {
        path: blob.data for path, blob in MODEL.items()
    }
    assert not complaints(store)


def test_a_manifest_in_quarantine_that_is_damaged_brings_nothing_back(
    store: Store, digest: Digest
) -> None:
    store.set_root("kept", Root(digest))
    spoil(store.file_path(digest, "config"))
    repaired(store)
    (manifest,) = (store.path / "quarantine").glob(f"{digest}.json-*")
    spoil(manifest)
    report = repaired(store)
    assert (report.repaired, report.lost, report.roots) == ((), (), ())


def test_the_record_of_a_build_is_written_again_from_the_index(
    store: Store, digest: Digest
) -> None:
    record = store.add_realisation(build_of(digest))
    path = store.path / "realisations" / record.key[:2] / record.key / f"{record.build}.json"
    spoil(path)
    report = repaired(store)
    assert report.records == (f"{record.key}/{record.build}.json",)
    assert path.read_bytes() == record.encode()
    assert store.verify(jobs=2).ok


def test_a_damaged_derivation_is_set_aside_and_can_be_added_again(store: Store) -> None:
    data = b'{"inputs":{},"name":"example","type":"derivation"}'
    derivation = store.add_derivation(data)
    spoil(store.path / "derivations" / derivation[:2] / f"{derivation}.json")
    assert [loss.subject for loss in repaired(store).lost] == [derivation]
    assert store.verify(jobs=2).ok
    assert store.add_derivation(data) == derivation
    assert store.derivation(derivation) == data


@given(st.data())
@settings(
    suppress_health_check=[HealthCheck.function_scoped_fixture], deadline=None, max_examples=40
)
def test_with_a_copy_of_everything_every_damage_is_repaired(
    tmp_path_factory: pytest.TempPathFactory, data: st.DataObject
) -> None:
    place = tmp_path_factory.mktemp("repair")
    with Store.open(place / "store") as store:
        digest = write_tree(store, MODEL)
        other = write_tree(store, {"other": Blob(b"config"), "more": Blob(b"more")})
        copies = place / "copies"
        for each in (digest, other):
            shutil.copytree(store.object_path(each), copies / each)
        files = [store.file_path(digest, path) for path in MODEL]
        files += [store.file_path(other, path) for path in ("other", "more")]
        for file in data.draw(st.lists(st.sampled_from(files), min_size=1, unique=True)):
            action = data.draw(st.sampled_from(["flip", "delete", "cut", "mode"]))
            _damage(file, action)
        store.repair(store.verify(jobs=1).problems, donors=[copies])
        assert store.verify(jobs=1).ok
        assert not complaints(store)


def _damage(file: Path, action: str) -> None:
    if not file.exists():
        return
    file.parent.chmod(0o755)
    if action == "flip":
        spoil(file)
    elif action == "delete":
        file.unlink()
    elif action == "cut":
        file.chmod(0o644)
        os.truncate(file, file.stat().st_size // 2)
        file.chmod(0o444)
    else:
        file.chmod(0o600)
    file.parent.chmod(0o555)


def build_of(output: Digest) -> Realisation:
    return Realisation(
        key=Digest.of(b"key"),
        builder="example",
        outputs={"out": output},
        compared=("out",),
        inputs={},
        derivation=None,
        platform={"class": "any", "facts": {}},
        origin="built",
        started_at="2026-01-01T12:00:00+00:00",
        finished_at="2026-01-01T12:00:01+00:00",
        host="a-host",
        user="a-user",
    )
