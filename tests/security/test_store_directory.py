"""Attacks on the directory of a store: links in place of its rooms, names that somebody planted, hostile sources."""

import errno
import os
import re
import shutil
import socket
import stat
import tempfile
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path

import pytest

from canaries import Surroundings, surround
from command_line import Outcome, call
from confined_calls import NOBODY, confined
from dis_derivations.runs import archive_reader
from dis_store import (
    Digest,
    FileEntry,
    InvalidInputError,
    Root,
    Store,
    Tree,
    UnfitEnvironmentError,
    add_path,
)
from dis_store.writing import addition
from processes import forked, waited_for
from trees import Blob, write_tree
from users import check_clear

ROOMS = [
    "objects", "manifests", "derivations", "realisations", "links", "roots", "roots/auto", "tmp", "trash", "locks",
    "locks/build", "temproots", "quarantine",
]  # fmt: skip
SHARDED = ["objects", "manifests", "links", "realisations", "derivations"]
STEERING = re.compile("[\x00-\x08\x0b-\x1f\x7f-\x9f\u202a-\u202e\u2066-\u2069]")


@pytest.fixture
def around(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Surroundings]:
    """Surroundings with a store that has an object, a root, a damaged object, and garbage."""
    made = surround(tmp_path)
    for name in ("CONFIG", "DATA", "STATE"):
        monkeypatch.setenv(f"XDG_{name}_HOME", str(tmp_path / "tmp" / "xdg"))
    monkeypatch.chdir(tmp_path / "tmp")
    monkeypatch.setenv("DIS_STORE", str(made.store))
    with Store.open(made.store) as store:
        kept = write_tree(store, {"a/b": Blob(b"kept"), "c": Blob(b"more", executable=True)})
        store.set_root("kept", Root(kept))
        write_tree(store, {"garbage": Blob(b"garbage")})
        damaged = write_tree(store, {"damaged": Blob(b"damaged")})
    path = store.object_path(damaged) / "damaged"
    path.chmod(0o644)
    path.write_bytes(b"DAMAGED")
    source = made.top / "tmp" / "source"
    source.mkdir()
    (source / "new").write_bytes(b"new")
    yield made
    for each in tmp_path.rglob("*"):
        if each.is_dir() and not each.is_symlink():
            each.chmod(0o755)


COMMANDS = (
    ["store", "add", "source"],
    ["store", "add", "source", "--name", "named"],
    ["store", "verify", "--all"],
    ["store", "optimise"],
    ["root", "add", "again", "kept"],
    ["root", "remove", "again"],
    ["store", "reindex"],
    ["gc", "--yes"],
    ["gc"],
    ["list"],
    ["store", "stats"],
)


def all_commands() -> list[Outcome]:
    return [call([*argv, "--progress", "plain"]) for argv in COMMANDS]


@pytest.mark.parametrize("room", ROOMS)
@pytest.mark.parametrize("moved", [False, True], ids=["canaries", "the room itself"])
def test_a_room_that_is_a_symlink_leads_nothing_out_of_the_store(
    around: Surroundings, room: str, moved: bool
) -> None:
    place, elsewhere = around.store / room, around.outside / "victim"
    if moved:
        elsewhere = around.outside / "room"
        place.rename(elsewhere)
    else:
        shutil.rmtree(place)
    place.symlink_to(elsewhere)
    before = around.seen()
    for outcome in all_commands():
        assert outcome.code != 0
        check_clear(outcome.err)
    assert around.seen() == before
    place.unlink()
    place.mkdir()


@pytest.mark.parametrize("room", SHARDED)
def test_a_shard_that_is_a_symlink_leads_nothing_out_of_the_store(
    around: Surroundings, room: str
) -> None:
    """The attacker knows what is going to be added, and so where it will lie."""
    content = Digest.of(b"new")
    digest = content if room == "links" else Tree((FileEntry("new", 3, content),)).digest
    shard = around.store / room / digest[:2]
    if shard.exists():
        shutil.rmtree(shard)
    victim = around.outside / "victim"
    shard.symlink_to(victim)
    # What would be garbage if it lay in the store.
    (victim / f"{digest[:2]}{'0' * 62}").mkdir(mode=0o777)
    (victim / f"{digest[:2]}{'1' * 62}.json").write_bytes(b"{}")
    (victim / f"{digest[:2]}{'2' * 62}").write_bytes(b"with one name only")
    (victim / f"{digest[:2]}{'3' * 62}").mkdir()
    (victim / f"{digest[:2]}{'3' * 62}" / "record.json").write_bytes(b"{}")
    before = around.seen()
    for outcome in all_commands():
        assert "Traceback" not in outcome.err
        assert "dis failed unexpectedly" not in outcome.err, outcome.err
    assert around.seen() == before


@pytest.mark.parametrize("room", SHARDED)
@pytest.mark.parametrize("target", ["victim", "victim/inside", "nowhere"])
def test_a_symlink_in_place_of_what_lies_in_a_shard_leads_nothing_out_of_the_store(
    around: Surroundings, room: str, target: str
) -> None:
    content = Digest.of(b"new")
    digest = content if room == "links" else Tree((FileEntry("new", 3, content),)).digest
    shard = around.store / room / digest[:2]
    shard.mkdir(exist_ok=True)
    (around.outside / "victim" / "record.json").write_bytes(b"{}")
    for name in (digest, f"{digest}.json", f"{digest[:2]}{'0' * 62}"):
        (shard / name).symlink_to(around.outside / target)
    before = around.seen()
    for outcome in all_commands():
        assert "Traceback" not in outcome.err
        assert "dis failed unexpectedly" not in outcome.err, outcome.err
    assert around.seen() == before


@pytest.mark.parametrize("room", ["tmp", "trash", "quarantine", "links", "roots", "roots/auto"])
def test_links_that_were_planted_in_a_room_are_removed_and_not_followed(
    around: Surroundings, room: str
) -> None:
    for number, target in enumerate(("canary", "victim", "nowhere")):
        (around.store / room / f"{number:032x}").symlink_to(around.outside / target)
        (around.store / room / f"planted{number}.json").symlink_to(around.outside / target)
    before = around.seen()
    for outcome in all_commands():
        assert "Traceback" not in outcome.err
        assert "dis failed unexpectedly" not in outcome.err, outcome.err
    assert around.seen() == before


def test_a_name_that_was_guessed_is_not_written_through(
    around: Surroundings, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Names are random; should somebody guess one, what he planted there is in the way and no more."""
    with Store.open(around.store) as store:
        monkeypatch.setattr("os.urandom", bytes)
        guessed = around.store / "tmp" / bytes(16).hex()
        for target in ("canary", "nowhere", "victim"):
            guessed.symlink_to(around.outside / target)
            before = around.seen()
            with pytest.raises(UnfitEnvironmentError, match="File exists"):
                write_tree(store, {"x": Blob(b"x")})
            with pytest.raises(UnfitEnvironmentError, match="File exists"):
                store.set_root("x", Root(store.objects()[0]))
            assert around.seen() == before
            guessed.unlink()


def test_unfinished_work_has_names_that_nobody_can_guess_and_is_closed_to_others(
    around: Surroundings,
) -> None:
    with Store.open(around.store) as store, store.new_tree() as one, store.new_tree() as two:
        for tree in (one, two):
            tree.write_bytes("secret", b"secret")
        found = list((around.store / "tmp").iterdir())
        assert len(found) == 2
        for path in found:
            assert re.fullmatch(r"[0-9a-f]{32}", path.name)
            assert stat.S_IMODE(path.lstat().st_mode) == 0o700


@pytest.mark.skipif(os.geteuid() != 0, reason="only root may become another user")
def test_another_user_can_neither_read_nor_plant_in_unfinished_work(around: Surroundings) -> None:
    with Store.open(around.store) as store, store.new_tree() as tree:
        tree.write_bytes("secret", b"secret")
        [work] = (around.store / "tmp").iterdir()

        def refused(action: Callable[[], object]) -> bool:
            try:
                action()
            except PermissionError:
                return True
            return False

        def intrude() -> None:
            os.setgroups([])
            os.setresgid(NOBODY, NOBODY, NOBODY)
            os.setresuid(NOBODY, NOBODY, NOBODY)
            assert refused(lambda: list(work.iterdir()))
            assert refused((work / "tree" / "secret").read_bytes)
            assert refused(partial((work / "tree" / "planted").symlink_to, "/etc/passwd"))
            for room in ROOMS:
                planted = around.store / room / "planted"
                assert refused(partial(planted.symlink_to, "/etc/passwd"))

        assert waited_for(forked(intrude)) == 0


def test_an_archive_is_unpacked_where_nobody_else_can_look(
    around: Surroundings, monkeypatch: pytest.MonkeyPatch
) -> None:
    shared = around.top / "shared"
    shared.mkdir()
    shared.chmod(0o1777)
    monkeypatch.setattr(tempfile, "tempdir", str(shared))
    seen: list[int] = []

    def unpack(_archive: Path, directory: Path) -> Digest:
        seen.append(stat.S_IMODE(directory.lstat().st_mode))
        raise InvalidInputError("it is no archive")

    monkeypatch.setattr(archive_reader, "unpack", unpack)
    with pytest.raises(InvalidInputError):
        archive_reader.ArchiveBundle(around.top / "canary")
    assert seen == [0o700]
    assert list(shared.iterdir()) == []


# -- sources ---------------------------------------------------------------------------------------------------------


def a_device(place: Path) -> None:
    if os.geteuid() != 0:
        pytest.skip("only root may make a device")
    try:
        os.mknod(place, stat.S_IFCHR | 0o666, os.makedev(1, 5))  # /dev/zero, which never ends
    except PermissionError:
        pytest.skip("no device can be made here")


def a_socket(place: Path) -> None:
    with socket.socket(socket.AF_UNIX) as opened:
        opened.bind(str(place))


KINDS: dict[str, Callable[[Path], None]] = {
    "named pipe": lambda place: os.mkfifo(place),  # noqa: PLW0108
    "device that never ends": a_device,
    "socket": a_socket,
    "symlink to a file outside": lambda place: place.symlink_to("/etc/passwd"),
    "symlink to itself": lambda place: place.symlink_to(place),
    "symlink to the directory above": lambda place: place.symlink_to(".."),
}


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize(
    "options", [[], ["--adopt"], ["--dry-run"]], ids=["copy", "adopt", "dry run"]
)
@pytest.mark.parametrize("alone", [False, True], ids=["in a directory", "alone"])
def test_a_source_that_is_no_file_is_refused_and_never_waited_for(
    around: Surroundings, kind: str, options: list[str], alone: bool
) -> None:
    place = around.top / "tmp" / "source" / "evil"
    KINDS[kind](place)
    [outcome] = confined(
        [["store", "add", str(place if alone else place.parent), *options, "--store", "store"]],
        around.top, seconds=5,
    )  # fmt: skip
    assert outcome.code == 2
    check_clear(outcome.err)
    assert (place.parent / "new").read_bytes() == b"new"


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("adopt", [False, True])
def test_a_source_that_is_exchanged_after_it_was_looked_at_is_refused(
    around: Surroundings, monkeypatch: pytest.MonkeyPatch, kind: str, adopt: bool
) -> None:
    source = around.top / "tmp" / "source"
    survey = addition._survey

    def exchange(store: Store, path: Path) -> object:
        found = survey(store, path)
        (source / "new").unlink()
        KINDS[kind](source / "new")
        return found

    monkeypatch.setattr(addition, "_survey", exchange)
    with Store.open(around.store) as store:
        before = store.objects()
        with pytest.raises(InvalidInputError):
            add_path(store, source, adopt=adopt)
        assert store.objects() == before


@pytest.mark.parametrize("adopt", [False, True])
def test_a_hard_link_to_a_file_of_the_victim_changes_nothing_of_that_file(
    around: Surroundings, adopt: bool
) -> None:
    victim = around.outside / "canary"
    os.link(victim, around.top / "tmp" / "source" / "linked")
    status, data = victim.lstat(), victim.read_bytes()
    with Store.open(around.store) as store:
        digest = add_path(store, around.top / "tmp" / "source", adopt=adopt)
        stored = store.object_path(digest) / "linked"
        assert stored.read_bytes() == data
        assert stored.lstat().st_ino != status.st_ino
        victim.write_bytes(b"changed by its owner")
        assert stored.read_bytes() == data
    now = victim.lstat()
    assert (now.st_mode, now.st_uid, now.st_ino) == (status.st_mode, status.st_uid, status.st_ino)


@pytest.mark.parametrize("adopt", [False, True])
@pytest.mark.parametrize("mode", [0o4755, 0o2755, 0o6711, 0o1777, 0o4644])
def test_set_user_id_and_all_other_modes_are_dropped(
    around: Surroundings, mode: int, adopt: bool
) -> None:
    source = around.top / "tmp" / "source" / "new"
    source.chmod(mode)
    assert stat.S_IMODE(source.lstat().st_mode) == mode
    with Store.open(around.store) as store:
        digest = add_path(store, source.parent, adopt=adopt)
        found = stat.S_IMODE((store.object_path(digest) / "new").lstat().st_mode)
    assert found == (0o555 if mode & 0o111 else 0o444)


NAMES = {
    "only by case": ("A", "a"),
    "only by case of a directory": ("A/x", "a/y"),
    "only by composition": ("\u00e9", "e\u0301"),
    "only by a sharp s (CVE-2026-23950)": ("stra\u00dfe", "STRASSE"),
}


@pytest.mark.parametrize("difference", NAMES)
@pytest.mark.parametrize("adopt", [False, True])
def test_sources_whose_names_differ_too_little_are_refused(
    around: Surroundings, difference: str, adopt: bool
) -> None:
    source = around.top / "tmp" / "source"
    for name in NAMES[difference]:
        (source / name).parent.mkdir(exist_ok=True)
        (source / name).write_bytes(name.encode())
    with Store.open(around.store) as store, pytest.raises(InvalidInputError):
        add_path(store, source, adopt=adopt)
    assert all((source / name).read_bytes() == name.encode() for name in NAMES[difference])


@pytest.mark.parametrize("levels", [64, 65, 500])
def test_deep_trees_come_in_up_to_the_limit(around: Surroundings, levels: int) -> None:
    top = around.top / "tmp" / "deep"
    place = top
    for _ in range(levels - 1):
        place = place / "d"
    place.mkdir(parents=True)
    (place / "f").write_bytes(b"deep")
    outcome = call(["store", "add", str(top)])
    assert outcome.code == (0 if levels == 64 else 2), outcome.err
    if outcome.code:
        check_clear(outcome.err)
        assert "64 are the limit" in outcome.err
    else:
        digest = Path(outcome.out.strip()).name
        assert call(["store", "verify", digest]).code == 0


def test_a_name_of_255_bytes_comes_in_and_none_of_256(around: Surroundings) -> None:
    source = around.top / "tmp" / "source"
    (source / ("\u00e9" * 127 + "x")).write_bytes(b"long")
    with Store.open(around.store) as store:
        digest = add_path(store, source)
        assert store.verify([digest]).ok
        with pytest.raises(InvalidInputError, match="255 bytes"), store.new_tree() as tree:
            tree.write_bytes("\u00e9" * 128, b"longer")
    with pytest.raises(OSError, match="too long") as refused:
        (source / ("x" * 256)).write_bytes(b"longer")
    assert refused.value.errno == errno.ENAMETOOLONG


@pytest.mark.parametrize(
    "name",
    [
        b"a\nerror: forged",
        b"\x1b[2J\x1b]0;owned\x07",
        b"\xff\xfe",
        "\u202egnp.exe".encode(),
        b"\x9b31m",
        b"a\rb",
    ],
)
@pytest.mark.parametrize(
    "options", [[], ["--adopt"], ["--dry-run"]], ids=["copy", "adopt", "dry run"]
)
def test_names_of_sources_that_steer_a_terminal_are_refused_and_shown_as_escapes(
    around: Surroundings, name: bytes, options: list[str]
) -> None:
    source = around.top / "tmp" / "source"
    Path(os.fsdecode(os.fsencode(source) + b"/" + name)).write_bytes(b"x")
    outcome = call(["store", "add", str(source), *options, "--progress", "plain"])
    assert outcome.code == 2
    check_clear(outcome.err)
    assert (source / "new").read_bytes() == b"new"


EVIL = "\u202egnp.\u2066exe"
LISTINGS = (
    ["ls", "{0}"], ["ls", "-l", "{0}"], ["ls", "-R", "{0}"], ["ls", "{0}", EVIL], ["cat", "{0}", "\x1b[2J"],
    ["inspect", "{0}"], ["path-info", "{0}"], ["path-info", "-r", "{0}"], ["why-alive", "{0}"],
    ["why-depends", "{1}", "{0}"],
    ["root", "list"], ["list"], ["log", "evil"], ["show", "evil"], ["store", "verify", "--all"], ["gc", "--dry-run"],
    ["ls", "\x1b[2J"], ["inspect", "\x1b]0;x\x07.json"], ["root", "add", "\x1b[2J", "{0}"],
    ["root", "remove", "\x1b[2J"],
    ["gc", "--older-than", "\x1b[2J"], ["\x1b[2J"], ["ls", "--\x1b[2J"], ["diff", "evil", "evil"],
    ["store", "import", "\x1b[2J"], ["store", "add", "\x1b[2J"], ["realize", "\x1b[2J.json"], ["help", "\x1b[2J"],
)  # fmt: skip


@pytest.mark.parametrize("argv", LISTINGS, ids=lambda argv: ascii(" ".join(argv)))
def test_names_labels_and_arguments_that_steer_a_terminal_are_shown_as_escapes(
    around: Surroundings, argv: list[str]
) -> None:
    with Store.open(around.store) as store:
        with store.new_tree(portable_names=False) as tree:
            tree.write_bytes(f"d{EVIL}/{EVIL}", b"x")
            digest = tree.register()
        outer = write_tree(store, {}, {"inner": (digest, None)})
        store.set_root("evil", Root(outer, label=f"\x1b[2J{EVIL}", created_at="\x1b[2J"))
    damaged = store.object_path(digest) / f"d{EVIL}" / EVIL
    damaged.chmod(0o644)
    damaged.write_bytes(b"y")
    outcome = call([part.format(digest, outer) for part in argv])
    assert "dis failed unexpectedly" not in outcome.err
    assert not STEERING.search(outcome.out.replace("\n", "") + outcome.err.replace("\n", ""))
    if outcome.code == 2:
        check_clear(outcome.err)
