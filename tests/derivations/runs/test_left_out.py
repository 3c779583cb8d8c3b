"""What a policy leaves out of an archive or a directory is listed there, and the rest is checked as ever."""

import gzip
import json
import shlex
import tarfile
from io import BytesIO
from pathlib import Path
from typing import get_args

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from bundles import FILES, Answer, Run, Tensor
from dis_derivations.comparison.diff import diff_bundles
from dis_derivations.comparison.rules import Rule
from dis_derivations.comparison.verification import verify_bundles
from dis_derivations.manifest.include_words import ALWAYS, CAPTURES, RUN_LOG_WORD
from dis_derivations.manifest.outputs_block import IncludeWord
from dis_derivations.runs import archive_layout as layout
from dis_derivations.runs import left_out
from dis_derivations.runs.archive import archive_run, plan_archive
from dis_derivations.runs.archive_reader import ArchiveBundle
from dis_derivations.runs.bundle_documents import load_bundle
from dis_derivations.runs.bundle_reader import BundleReader, DirectoryBundle, StoredBundle
from dis_derivations.runs.contents import Contents
from dis_derivations.runs.reference import resolve
from dis_derivations.runs.run_directory import lay_out
from dis_store import Root, Store, canonical_json
from dis_store.digest import Digest
from dis_store.errors import DisError, IntegrityError, InvalidInputError
from run_shelf import add_object, make_writable

WORDS = (*ALWAYS, *CAPTURES, RUN_LOG_WORD)
VALUES = np.arange(8.0).reshape(2, 4)
CAPTURING = Run(
    answers=(Answer("first", (2, 3), text="six"),),
    logits={"00000.decode": Tensor(VALUES)},
    activations={"00000.decode.layer.000": Tensor(VALUES)},
    trace=({"step": 0, "requests": [{"id": "first", "tokens": 3}]},),
)
# Whatever a tree may have, with what only a tree of unportable names has.
SUBPATHS = st.lists(
    st.text(
        st.characters(exclude_categories=["Cs", "Cc", "Zl", "Zp"], exclude_characters="/"),
        min_size=1,
        max_size=60,
    ).filter(lambda name: name not in (".", "..")),
    min_size=1,
    max_size=4,
).map("/".join)
OTHER = CAPTURING.having(logits={"00000.decode": Tensor(VALUES + 1)})


def add(store: Store, run: Run, name: str = "run", include: tuple[str, ...] = ()) -> Digest:
    """Register a run as dis makes it: what was captured is in the results."""
    files = run.files()
    of_results = {path: files.pop(path) for path in ("engine.json", *FILES.values())}
    results = add_object(store, {**of_results, "tokens.json": b"of the results"})
    document = json.loads(files["bundle.json"])
    files["bundle.json"] = json.dumps({**document, "results": results}).encode()
    with store.new_tree() as tree:
        for path, data in files.items():
            tree.write_bytes(path, data)
        for path in of_results:
            tree.reference(path, results, path)
        bundle = tree.register()
    store.set_root(name, Root(bundle, include=include))
    return bundle


@pytest.fixture
def capturing(store: Store) -> Digest:
    return add(store, CAPTURING)


@pytest.fixture
def archive(store: Store, capturing: Digest, tmp_path: Path) -> Path:
    del capturing
    return pack(store, tmp_path / "part.tar.gz", ("activations",))


def pack(store: Store, output: Path, include: tuple[str, ...] | None, ref: str = "run") -> Path:
    return archive_run(store, resolve(store, ref), output, include=include).path


def test_the_words_of_the_schema_are_those_that_mean_something() -> None:
    assert get_args(IncludeWord) == WORDS


@settings(
    suppress_health_check=[HealthCheck.function_scoped_fixture], deadline=None, max_examples=40
)
@given(words=st.sets(st.sampled_from(WORDS)))
def test_an_archive_has_what_was_asked_for_and_lists_the_rest(
    store: Store, capturing: Digest, tmp_path: Path, words: set[str]
) -> None:
    wanted = {word for word in CAPTURES if not words or word in words}
    done = archive_run(
        store, resolve(store, "run"), tmp_path / "x.tar.gz", replace=True, include=words
    )
    reader = ArchiveBundle(done.path)
    stored = StoredBundle(store, capturing)
    assert reader.digest() == capturing
    gaps = {FILES[word] for word in CAPTURES} - {FILES[word] for word in wanted}
    assert {each.path for each in done.left_out} == set(reader.left_out()) == gaps
    extra = {left_out.LEFT_OUT_DOCUMENT} if gaps else set()
    assert set(reader.names()) == (set(stored.names()) - gaps) | extra
    for entry in reader.left_out().values():
        real = store.file_path(entry.object, entry.subpath)
        assert Digest.of(real.read_bytes()) == entry.blake3
        assert real.stat().st_size == entry.size
        assert entry.path not in reader.names()
    bundle = load_bundle(reader)
    assert {name for name in CAPTURES if bundle.has(name)} == wanted
    assert all(map(bundle.captured, CAPTURES))
    plan = plan_archive(store, resolve(store, "run"), done.path, include=words)
    assert plan.left_out == done.left_out


def test_what_a_bundle_is_read_by_is_always_there(
    store: Store, capturing: Digest, tmp_path: Path
) -> None:
    del capturing
    reader = ArchiveBundle(pack(store, tmp_path / "x.tar.gz", ("run_log",)))
    assert [each.text for each in load_bundle(reader).sequences] == ["six"]


def test_an_archive_that_leaves_nothing_out_is_the_one_that_there_always_was(
    store: Store, capturing: Digest, tmp_path: Path
) -> None:
    del capturing
    whole = pack(store, tmp_path / "a.tar.gz", ()).read_bytes()
    for words in (CAPTURES, WORDS, None):
        assert pack(store, tmp_path / f"{len(words or ())}.tar.gz", words).read_bytes() == whole


def test_the_words_come_from_the_root_that_is_named_else_from_one_that_has_some(
    store: Store, tmp_path: Path
) -> None:
    bundle = add(store, CAPTURING, "automatic", ("tokens",))
    store.set_root("mine", Root(bundle))
    found = {
        ref: {each.path for each in plan_archive(store, resolve(store, ref)).left_out}
        for ref in ("automatic", "mine", str(bundle))
    }
    everything = set(FILES.values())
    assert found == {"automatic": everything, "mine": set(), str(bundle): everything}
    assert tmp_path.is_dir()


def test_a_directory_says_what_it_lacks_and_is_archived_as_the_run_it_is_of(
    store: Store, capturing: Digest, archive: Path, tmp_path: Path
) -> None:
    directory = lay_out(store, capturing, None, tmp_path / "out", ("activations",))
    assert not (directory / FILES["logits"]).exists()
    reader = DirectoryBundle(directory)
    assert set(reader.left_out()) == {FILES["logits"], FILES["engine_trace"]}
    assert load_bundle(reader).lacks("logits")
    packed = pack(store, tmp_path / "again.tar.gz", ("activations",), f"{directory}/")
    assert packed.read_bytes() == archive.read_bytes()


def test_the_run_log_is_in_directories_whose_policy_names_it(
    store: Store, capturing: Digest, tmp_path: Path
) -> None:
    log = add_object(store, {"run_log.json": b"{}"})
    for words, there in ((("tokens", "run_log"), True), (("tokens",), False), ((), True)):
        directory = lay_out(store, capturing, log, tmp_path / "-".join(("d", *words)), words)
        assert (directory / "run_log.json").exists() is there


def test_a_directory_that_lacks_what_is_wanted_now_is_in_the_way(
    store: Store, capturing: Digest, tmp_path: Path
) -> None:
    directory = lay_out(store, capturing, None, tmp_path / "out", ("tokens",))
    lay_out(store, capturing, None, directory, ("tokens",))
    with pytest.raises(InvalidInputError, match="in the way") as refused:
        lay_out(store, capturing, None, directory)
    assert "safetensors" in str(refused.value.cause)


def test_a_directory_that_has_more_than_is_wanted_now_is_left_as_it_is(
    store: Store, capturing: Digest, tmp_path: Path
) -> None:
    directory = lay_out(store, capturing, None, tmp_path / "out")
    before = sorted(path.name for path in directory.iterdir())
    lay_out(store, capturing, None, directory, ("tokens",))
    assert sorted(path.name for path in directory.iterdir()) == before
    (directory / FILES["logits"]).write_bytes(b"other")
    with pytest.raises(InvalidInputError, match="in the way"):
        lay_out(store, capturing, None, directory, ("tokens",))


# -- comparing -------------------------------------------------------------------------------------------------------


def statuses(a: BundleReader, b: BundleReader) -> dict[str, str]:
    return dict(diff_bundles(a, b, store=None).examination.status)


def test_what_is_left_out_is_the_same_where_its_digest_is(
    store: Store, capturing: Digest, archive: Path, tmp_path: Path
) -> None:
    part, stored = ArchiveBundle(archive), StoredBundle(store, capturing)
    directory = DirectoryBundle(lay_out(store, capturing, None, tmp_path / "out"))
    every = dict.fromkeys(("tokens", *CAPTURES), "identical")
    for other in (stored, directory, ArchiveBundle(archive)):
        assert statuses(part, other) == statuses(other, part) == every
        assert verify_bundles(part, other).grade == "conformant"
    assert diff_bundles(part, directory, store=None).bundles_identical


@pytest.mark.parametrize("both", [False, True])
def test_what_is_left_out_and_is_another_file_is_not_called_different(
    store: Store, archive: Path, tmp_path: Path, both: bool
) -> None:
    add(store, OTHER, "other")
    words = ("activations",) if both else ()
    other = ArchiveBundle(pack(store, tmp_path / "other.tar.gz", words, "other"))
    report = diff_bundles(ArchiveBundle(archive), other, store=None)
    status = report.examination.status
    assert status["logits"] == ("left out of both" if both else "left out of A")
    assert (status["activations"], status["engine_trace"]) == ("identical", "identical")
    assert not report.same
    assert any("logits.safetensors" in note and "left out" in note for note in report.notes)
    graded = verify_bundles(ArchiveBundle(archive), other)
    (outcome,) = (each for each in graded.outcomes if each.observable == "logits")
    assert outcome.outcome == "failed"
    assert str(outcome.reason).startswith("left out of ")


def test_a_file_that_the_store_has_is_compared_in_full(
    store: Store, archive: Path, tmp_path: Path
) -> None:
    add(store, OTHER, "other")
    reader = resolve(store, str(archive)).bundle(store)
    assert not reader.lacks(FILES["logits"])
    report = diff_bundles(reader, resolve(store, "other").bundle(store), store=None)
    assert report.examination.status["logits"] == "differ"
    assert report.examination.tensors["logits"].total.differing == VALUES.size
    with Store.open(tmp_path / "empty") as empty:
        assert resolve(empty, str(archive)).bundle(empty).lacks(FILES["logits"])
    make_writable(tmp_path / "empty")


def test_the_hash_of_what_is_left_out_is_that_of_the_side_that_has_it(
    store: Store, capturing: Digest, archive: Path
) -> None:
    part, whole = ArchiveBundle(archive), StoredBundle(store, capturing)
    for pair, known in (((part, whole), True), ((part, part), False)):
        graded = verify_bundles(*pair, rules={"logits": Rule("hash")})
        (outcome,) = (each for each in graded.outcomes if each.observable == "logits")
        assert outcome.outcome == "passed"
        assert (outcome.hashes is not None) is known


def test_asking_for_a_file_that_was_left_out_says_where_it_is(store: Store, archive: Path) -> None:
    contents = Contents(store, resolve(store, str(archive)))
    with pytest.raises(InvalidInputError, match="was left out") as refused:
        contents.file(FILES["logits"])
    assert "dis cat" in str(refused.value.hint)


# -- from elsewhere --------------------------------------------------------------------------------------------------


@settings(
    suppress_health_check=[HealthCheck.function_scoped_fixture], deadline=None, max_examples=40
)
@given(data=st.data())
def test_no_flipped_bit_of_an_archive_with_gaps_changes_what_is_read(
    archive: Path, capturing: Digest, tmp_path: Path, data: st.DataObject
) -> None:
    content = bytearray(gzip.decompress(archive.read_bytes()))
    # Half of them in what says what is left out, which is short.
    at = data.draw(st.integers(0, 2047) | st.integers(0, len(content) - 1))
    content[at] ^= 1 << data.draw(st.integers(0, 7))
    path = tmp_path / "flipped.tar"
    path.write_bytes(content)
    try:
        reader = ArchiveBundle(path)
    except DisError as error:
        newer = at == content.index(b'"format":') + 9 and content[at] in b"36"
        assert error.exit_code in ({5} if newer else {2, 4})  # noqa: PT017
        return
    assert reader.digest() == capturing
    assert reader.left_out() == ArchiveBundle(archive).left_out()


def changed(archive: Path, target: Path, change: dict[str, object]) -> Path:
    """Write an archive whose header says other things of what is left out."""
    with (
        tarfile.open(archive) as old,
        tarfile.open(target, "w", format=tarfile.PAX_FORMAT) as new,
    ):
        for member in old:
            stream = old.extractfile(member)
            assert stream is not None
            data = stream.read()
            if member.name == "archive.json":
                header = json.loads(data)
                header["left_out"][0].update(change)
                data = canonical_json.encode(header)
            new.addfile(layout.information(member.name, len(data)), BytesIO(data))
    return target


def test_an_archive_with_gaps_that_is_written_again_as_it_was_is_read(
    archive: Path, tmp_path: Path
) -> None:
    copy = ArchiveBundle(changed(archive, tmp_path / "x.tar", {}))
    assert copy.left_out() == ArchiveBundle(archive).left_out()


@pytest.mark.parametrize(
    "change",
    [
        {"size": 1},
        {"size": -1},
        {"size": True},
        {"size": "1"},
        {"blake3": "0" * 64},
        {"blake3": "x"},
        {"object": "0" * 64},
        {"subpath": "../x"},
        {"subpath": 1},
        {"path": "tokens.json"},
        {"path": "../logits.safetensors"},
        {"path": ["logits.safetensors"]},
        {"path": "activations.safetensors"},
        {"more": 1},
    ],
)
def test_a_header_that_lies_about_what_is_left_out_is_damage(
    archive: Path, tmp_path: Path, change: dict[str, object]
) -> None:
    with pytest.raises(IntegrityError, match="damaged"):
        ArchiveBundle(changed(archive, tmp_path / "x.tar", change))


@pytest.mark.parametrize(
    "data",
    [
        b"",
        b"[]",
        b"{}",
        b'{"type":"left-out","format":1,"bundle":"x","files":[]}',
        b'{"type":"left-out","format":1,"bundle":"x","files":[1]}',
        b'{"type":"left-out","format":1,"bundle":"x","files":{"a":1}}',
    ],
)
def test_a_malformed_list_in_a_directory_is_refused(
    store: Store, capturing: Digest, tmp_path: Path, data: bytes
) -> None:
    directory = lay_out(store, capturing, None, tmp_path / "out", ("tokens",))
    (directory / left_out.LEFT_OUT_DOCUMENT).write_bytes(data)
    with pytest.raises(InvalidInputError, match="run directory"):
        load_bundle(DirectoryBundle(directory))


def edited(directory: Path, subpath: str) -> DirectoryBundle:
    """Write another subpath into the list of a directory, in the encoding of dis."""
    document = directory / left_out.LEFT_OUT_DOCUMENT
    content = json.loads(document.read_bytes())
    for each in content["files"]:
        each["subpath"] = subpath
    document.write_bytes(canonical_json.encode(content))
    return DirectoryBundle(directory)


@pytest.mark.parametrize(
    "subpath",
    [
        "x; touch PWNED #\nB is bit-identical to A",
        "x\x1b[2J",
        "x\r",
        "x\u2028y",
        "../../etc/passwd",
        "/etc/passwd",
        "a//b",
        "",
    ],
)
def test_a_list_with_a_subpath_that_forges_lines_or_leaves_its_object_is_refused(
    store: Store, capturing: Digest, tmp_path: Path, subpath: str
) -> None:
    directory = lay_out(store, capturing, None, tmp_path / "out", ("tokens",))
    with pytest.raises(InvalidInputError, match="run directory"):
        edited(directory, subpath).left_out()


@pytest.mark.parametrize("subpath", ["x; touch PWNED #", "$(touch PWNED)", "-x", "a b"])
def test_the_hint_for_a_file_that_was_left_out_is_one_safe_command(
    store: Store, capturing: Digest, tmp_path: Path, subpath: str
) -> None:
    directory = lay_out(store, capturing, None, tmp_path / "out", ("tokens",))
    (entry, *_) = edited(directory, subpath).left_out().values()
    with pytest.raises(InvalidInputError, match="was left out") as refused:
        Contents(store, resolve(store, str(directory))).file(entry.path)
    command = str(refused.value.hint).partition(": ")[2]
    words = shlex.split(command, comments=True)
    end = ["--", subpath] if subpath.startswith("-") else [subpath]
    assert words == ["dis", "cat", entry.object[:12], *end]


def test_a_list_and_a_file_of_the_same_name_contradict_each_other(
    store: Store, capturing: Digest, tmp_path: Path
) -> None:
    directory = lay_out(store, capturing, None, tmp_path / "out", ("tokens",))
    (directory / FILES["logits"]).write_bytes(CAPTURING.files()[FILES["logits"]])
    with pytest.raises(InvalidInputError, match="captures are not what they should be"):
        load_bundle(DirectoryBundle(directory))


@given(
    st.lists(
        st.builds(
            left_out.LeftOut,
            st.sampled_from(sorted(FILES.values())),
            st.integers(0, 2**53 - 1),
            st.binary(max_size=2).map(Digest.of),
            st.binary(max_size=2).map(Digest.of),
            SUBPATHS,
        ),
        min_size=1,
        unique_by=lambda each: each.path,
    )
)
def test_a_list_decodes_to_the_entries_that_it_encodes(entries: list[left_out.LeftOut]) -> None:
    entries.sort(key=lambda each: each.path)
    data = left_out.document(Digest.of(b"x"), entries)
    assert list(left_out.read_document(data).values()) == entries


def test_a_word_that_means_nothing_is_refused_with_the_nearest() -> None:
    with pytest.raises(InvalidInputError, match="'logit'") as refused:
        left_out.check_words(["tokens", "logit"])
    assert "logits" in str(refused.value.hint)
