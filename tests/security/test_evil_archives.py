"""Archives from elsewhere: whatever is in them, nothing outside the store changes, and nothing wrong comes in.

Each is given to the command as root, where the tests may, and as a user without rights, with little memory and time.
"""

import os
import re
import shutil
import tempfile
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path

import pytest

import evil_compression
import evil_documents
from auditing import problems
from bundles import Run
from canaries import Surroundings, surround
from command_line import Outcome, call
from confined_calls import MIB, NOBODY, confined
from dis_store import Store
from dis_store.digest import Digest
from dis_store.tree import FileEntry, Tree
from evil_archives import REFUSED, STRUCTURES, Good
from evil_documents import CLOSURE_HEADERS, MANIFESTS, RUN_HEADERS, header_for, whole
from tar_bytes import Member
from users import check_clear

USERS = [None, NOBODY] if os.geteuid() == 0 else [None]
DEFAULT_MEMORY = 256 * MIB
STEERING = re.compile("[\x00-\x08\x0b-\x1f\x7f-\x9f\u202a-\u202e\u2066-\u2069]")


def good_closures() -> Good:
    inner = Tree((FileEntry("x", 5, Digest.of(b"inner")), FileEntry("y", 5, Digest.of(b"other"))))
    return whole(
        "closures",
        header_for("closures", inner.encode()),
        inner.encode(),
        contents=(b"inner", b"other"),
    )


def archive_of(files: Mapping[str, bytes]) -> Good:
    """Return the archive of a run of these files."""
    tree = Tree(tuple(FileEntry(path, len(data), Digest.of(data)) for path, data in files.items()))
    members = [
        ("archive.json", header_for("run", tree.encode())),
        (f"manifests/{tree.digest}.json", tree.encode()),
        *((f"run/{path}", data) for path, data in sorted(files.items())),
    ]
    return Good("run", tuple(Member(name, data) for name, data in members), 10240)


GOOD = {"closures": good_closures(), "run": archive_of(Run().files())}


class Place:
    """Surroundings for each user, with a store in which one object and one root are."""

    def __init__(self, top: Path) -> None:
        self.of_users: list[tuple[int | None, Surroundings]] = []
        for user in USERS:
            around = surround(top / str(user))
            with Store.open(around.store) as store, store.new_tree() as tree:
                tree.write_bytes("mine", b"mine")
                tree.register()
            if user is not None:
                _give_to(around.store, user)
            self.of_users.append((user, around))

    def attack(
        self,
        data: bytes,
        calls: Callable[[str], Sequence[Sequence[str]]],
        *,
        suffix: str = ".tar",
        memory: int = DEFAULT_MEMORY,
    ) -> Iterator[Outcome]:
        """Yield what each call does with an archive, and fail if anything else changes by it."""
        for user, around in self.of_users:
            archive = around.top / f"evil{suffix}"
            archive.write_bytes(data)
            before, objects = around.seen(), _objects(around.store)
            outcomes = confined(calls(str(archive)), around.top, user=user, memory=memory)
            for outcome in outcomes:
                assert "dis failed unexpectedly" not in outcome.err, _faults(around)
            assert around.seen() == before
            assert problems(around.store) == []
            assert _objects(around.store) == objects or outcomes[0].code == 0
            archive.unlink()
            yield from outcomes


def _faults(around: Surroundings) -> str:
    return "".join(path.read_text("utf-8") for path in around.top.glob("xdg/dis/error-*.log"))


def _give_to(store: Path, user: int) -> None:
    for path in [store, *store.rglob("*")]:
        os.chown(path, user, user, follow_symlinks=False)


def _objects(store: Path) -> list[str]:
    return sorted(path.name for path in store.glob("objects/*/*"))


@pytest.fixture(scope="module")
def place() -> Iterator[Place]:
    # Not in pytest's own directory: nobody but its owner can enter that.
    with tempfile.TemporaryDirectory() as directory:
        top = Path(directory)
        top.chmod(0o755)
        made = Place(top)
        _learn(made)
        yield made
        for path in top.rglob("*"):
            if path.is_dir() and not path.is_symlink():
                path.chmod(0o755)


def _learn(place: Place) -> None:
    """Import all that a call needs: another user may not be able to read the interpreter's own modules."""
    _, around = place.of_users[0]
    for good, calls in ((GOOD["closures"], imported), (GOOD["run"], read)):
        for name, data in (
            ("good", good.data),
            ("bad", good.data[:-600]),
            ("noise", b"noise" * 999),
        ):
            archive = around.top / f"{name}.tar"
            archive.write_bytes(data)
            for argv in calls(str(archive)):
                call([*argv, "--store", str(around.top / "learning")])
            archive.unlink()
    with Store.open(around.top / "learning"):
        pass
    for path in (around.top / "learning").rglob("*"):
        if path.is_dir() and not path.is_symlink():
            path.chmod(0o755)
    shutil.rmtree(around.top / "learning")


def imported(archive: str) -> list[list[str]]:
    return [["store", "import", archive, "--store", "store", "--progress", "plain"]]


def read(archive: str) -> list[list[str]]:
    common = ["--store", "store", "--progress", "none"]
    return [
        ["inspect", archive, *common],
        ["diff", archive, archive, *common],
        ["ls", archive, *common],
    ]


CALLS = {"closures": imported, "run": read}


def refuse(
    place: Place, kind: str, data: bytes, codes: frozenset[int] = REFUSED, **options: object
) -> None:
    outcomes = list(place.attack(data, CALLS[kind], **options))  # type: ignore[arg-type]
    for outcome in outcomes:
        assert outcome.code in codes, outcome.err
        check_clear(outcome.err)
        assert outcome.out == ""


def test_the_good_archives_are_read(place: Place) -> None:
    for kind, good in GOOD.items():
        for outcome in place.attack(good.data, CALLS[kind]):
            assert outcome.code == 0, outcome.err


@pytest.mark.parametrize("kind", GOOD)
@pytest.mark.parametrize("name", STRUCTURES)
def test_an_attack_by_the_structure_changes_nothing(place: Place, kind: str, name: str) -> None:
    data = STRUCTURES[name](GOOD[kind], str(place.of_users[0][1].outside))
    assert data != GOOD[kind].data
    refuse(place, kind, data)


@pytest.mark.parametrize("kind", GOOD)
@pytest.mark.parametrize("name", MANIFESTS)
def test_a_manifest_that_lies_is_refused(place: Place, kind: str, name: str) -> None:
    refuse(place, kind, evil_documents.with_manifest(kind, MANIFESTS[name]))


@pytest.mark.parametrize("name", CLOSURE_HEADERS)
def test_the_header_of_closures_that_lies_is_refused(place: Place, name: str) -> None:
    refuse(place, "closures", evil_documents.with_header("closures", CLOSURE_HEADERS[name]))


@pytest.mark.parametrize("name", RUN_HEADERS)
def test_the_header_of_a_run_that_lies_is_refused(place: Place, name: str) -> None:
    refuse(place, "run", evil_documents.with_header("run", RUN_HEADERS[name]))


@pytest.mark.parametrize("kind", GOOD)
def test_a_newer_format_is_told_from_damage(place: Place, kind: str) -> None:
    good = GOOD[kind]
    first = good.members[0]
    newer = first.but(data=first.data.replace(b'"format":1', b'"format":9'))
    refuse(place, kind, good.pack([newer, *good.members[1:]]), frozenset({5}))


@pytest.mark.parametrize("name", evil_compression.GZIP)
def test_a_gzip_archive_that_attacks_is_refused_in_little_memory(place: Place, name: str) -> None:
    refuse(place, "run", evil_compression.GZIP[name](GOOD["run"].data), suffix=".tar.gz")


@pytest.mark.parametrize("name", evil_compression.ZSTD)
def test_a_zstd_archive_that_attacks_is_refused_in_little_memory(place: Place, name: str) -> None:
    refuse(place, "run", evil_compression.ZSTD[name](GOOD["run"].data), suffix=".tar.zst")


@pytest.mark.parametrize("name", evil_compression.UNKNOWN)
def test_an_archive_of_another_compression_is_refused_by_name(place: Place, name: str) -> None:
    data = evil_compression.UNKNOWN[name](GOOD["run"].data)
    refuse(place, "run", data, frozenset({5}), suffix=".tar.xz")


@pytest.mark.parametrize("name", evil_compression.ZSTD)
def test_a_zstd_archive_of_closures_that_attacks_is_refused_in_little_memory(
    place: Place, name: str
) -> None:
    refuse(place, "closures", evil_compression.ZSTD[name](GOOD["closures"].data))


def test_closures_are_decompressed_from_zstd_alone(place: Place) -> None:
    refuse(place, "closures", evil_compression.gzipped(GOOD["closures"].data))


@pytest.mark.parametrize("name", evil_compression.HARMLESS)
def test_what_a_gzip_header_says_beside_its_method_changes_nothing(place: Place, name: str) -> None:
    data = evil_compression.HARMLESS[name](GOOD["run"].data)
    for outcome in place.attack(data, read, suffix=".tar.gz"):
        assert outcome.code == 0
        assert not STEERING.search(outcome.out + outcome.err)


def test_a_run_behind_a_chain_of_references_without_end_is_refused(place: Place) -> None:
    refuse(place, "run", evil_documents.chain("run", 3000))


def test_closures_in_a_chain_of_hundreds_come_in_and_are_not_walked_to_the_end(
    place: Place,
) -> None:
    data = evil_documents.chain("closures", 300)
    for outcome in place.attack(data, imported):
        assert outcome.code == 0, outcome.err
    for user, around in place.of_users:
        top = evil_documents.top_of_chain(300)
        [listed] = confined([["ls", top, "--store", "store"]], around.top, user=user)
        assert listed.code == 4
        check_clear(listed.err)
        assert "64 objects" in listed.err


def test_references_that_fan_out_are_refused(place: Place) -> None:
    refuse(place, "run", evil_documents.fan("run", 40))


def test_references_that_put_a_file_too_deep_are_refused(place: Place) -> None:
    refuse(place, "run", evil_documents.nested("run"))


@pytest.mark.parametrize("kind", GOOD)
def test_many_deep_directories_cost_little(place: Place, kind: str) -> None:
    data = evil_documents.wide(kind, 3000)
    for outcome in place.attack(data[:-600], CALLS[kind]):
        assert outcome.code in REFUSED
        check_clear(outcome.err)


def test_a_size_that_no_disk_has_is_refused_before_anything_is_read(place: Place) -> None:
    for kind in GOOD:
        manifest = evil_documents.GOOD_MANIFEST.replace(b'"size":11', b'"size":9007199254740991')
        refuse(place, kind, evil_documents.with_manifest(kind, manifest), frozenset({5}))


DOCUMENTS = ("bundle.json", "manifest.used.json", "lock.used.json", "tokens.json", "engine.json")
LIES = {
    "nothing": b"",
    "null": b"null",
    "list": b"[]",
    "key twice": b'{"a":1,"a":2}',
    "not a number": b'{"a":NaN}',
    "half a character": b'{"a":"\\ud800"}',
    "fifty thousand levels": b"[" * 50_000,
    "terminal": b'{"kind":"\x1b[2J"}',
    "terminal in an escape": b'{"kind":"\\u001b[2J\\u202e"}',
    "more than any document has": b" " * (64 * MIB + 1),
}


@pytest.mark.parametrize("document", DOCUMENTS)
@pytest.mark.parametrize("lie", LIES)
def test_a_run_whose_document_lies_is_refused(place: Place, document: str, lie: str) -> None:
    files = {**Run().files(), document: LIES[lie]}
    data = archive_of(files).data
    for outcome in place.attack(data, lambda archive: read(archive)[:2]):
        assert outcome.code in REFUSED, outcome.err
        check_clear(outcome.err)


def test_values_that_steer_a_terminal_are_shown_as_escapes(place: Place) -> None:
    evil = "\x1b]0;owned\x07\x1b[2J\u202e\r\x9b31m"
    data = archive_of(Run(name=evil, engine={"engine": evil}).files()).data
    for outcome in place.attack(data, read):
        assert outcome.code == 0, outcome.err
        assert not STEERING.search(outcome.out + outcome.err)


def test_two_archives_of_which_the_first_prepares_for_the_second(place: Place) -> None:
    good, out = GOOD["closures"], str(place.of_users[0][1].outside)
    first = good.pack([Member("files", type="2", link=out), *good.members])
    for data in (first, good.pack([*good.members, Member("files/planted", b"x")])):
        refuse(place, "closures", data)


def test_at_least_eighty_archives_are_tried() -> None:
    counted = 2 * (len(STRUCTURES) + len(MANIFESTS)) + len(CLOSURE_HEADERS) + len(RUN_HEADERS)
    counted += len(evil_compression.GZIP) + len(evil_compression.ZSTD)
    assert counted >= 600
