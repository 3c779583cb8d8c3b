"""Files in parts: cut where tensors begin, sent once, put together again, and refused where anything is off."""

import os
from dataclasses import replace
from itertools import pairwise
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from dis_derivations.distribution import file_parts, layout
from dis_derivations.distribution.file_parts import FilePart, cut, parts_of_files
from dis_derivations.distribution.joining import JoinedFile, joined_key
from dis_derivations.distribution.object_documents import decode_object, encode_object
from dis_derivations.distribution.pulling import plan_pull, pull
from dis_derivations.distribution.pushing import Push, Pushed, plan_push
from dis_derivations.registry.client import RegistryClient
from dis_derivations.registry.documents import (
    MAX_MANIFEST_BYTES,
    Descriptor,
    ImageManifest,
    read_manifest,
)
from dis_derivations.registry.errors import RegistryMismatchError
from dis_derivations.registry.reference import RegistryReference, parse_reference
from dis_store import FileEntry, Store, Tree
from dis_store.digest import Digest, Sha256
from dis_store.errors import IntegrityError, InterruptedBuildError
from dis_store.writing.downloads import downloading
from part_models import add_weights, kept_weights, model_bytes
from real_registry import RealRegistry
from small_closures import files_of

MIB = 1 << 20
TENSOR = 5 * MIB // 4


@pytest.fixture
def small_parts(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let files of megabytes travel as those of gigabytes do."""
    monkeypatch.setattr(file_parts, "LARGEST", 3 * MIB)
    monkeypatch.setattr(file_parts, "SMALLEST", (MIB, 3 * MIB))


# -- where files are cut ---------------------------------------------------------------------------

lengths = st.lists(st.one_of(st.integers(0, 2 * MIB), st.integers(0, 300 * MIB)), max_size=40)


@given(
    lengths, st.integers(0, MIB), st.integers(0, 200 * MIB), st.sampled_from(file_parts.SMALLEST)
)
def test_parts_cover_a_file_and_begin_where_tensors_do(
    sizes: list[int], head: int, rest: int, smallest: int
) -> None:
    tensors, position = [], head
    for size in sizes:
        tensors.append((position, size))
        position += size
    total = position + rest

    ends = cut(total, tensors, smallest)

    assert ends[0] == 0
    assert ends[-1] == total
    parts = list(pairwise(ends))
    assert all(0 < end - start <= file_parts.LARGEST for start, end in parts)
    edges = {0, head, position, total, *(offset for offset, _ in tensors)}
    large = [(offset, size) for offset, size in tensors if size > file_parts.LARGEST]
    for start, _ in parts:
        inside = [offset for offset, size in large if offset < start < offset + size]
        if start < head or start > position:
            continue
        assert start in edges or (inside and (start - inside[0]) % file_parts.LARGEST == 0)
    for offset, size in large:
        assert {offset, offset + size} <= set(ends)


@given(lengths.filter(bool), st.data())
def test_a_tensor_that_is_a_part_stays_one_whatever_is_before_it(
    sizes: list[int], data: st.DataObject
) -> None:
    """What changes in front of a large tensor moves its parts, and does not cut it elsewhere."""
    large = 65 * MIB

    def pieces(before: list[int]) -> list[int]:
        tensors, position = [], 8
        for size in [*before, large]:
            tensors.append((position, size))
            position += size
        ends = cut(position, tensors, 4 * MIB)
        start = position - large
        return [end - start for end in ends if end >= start]

    assert pieces(sizes) == pieces(data.draw(lengths)) == [0, 64 * MIB, large]


def test_the_example_of_the_format_is_cut_as_it_says() -> None:
    tensors = [(1000, 3 * MIB), (1000 + 3 * MIB, 2 * MIB), (1000 + 5 * MIB, 100 * MIB)]
    size = 1000 + 105 * MIB

    assert list(pairwise(cut(size, tensors, 4 * MIB))) == [
        (0, 1000),
        (1000, 1000 + 5 * MIB),
        (1000 + 5 * MIB, 1000 + 69 * MIB),
        (1000 + 69 * MIB, size),
    ]
    assert cut(130 * MIB, [], 4 * MIB) == [0, 64 * MIB, 128 * MIB, 130 * MIB]


# -- documents -------------------------------------------------------------------------------------


def sha256_of(blake3: Digest) -> Sha256:
    return Sha256(f"sha256:{blake3}")


def in_parts(tree: Tree, file: FileEntry, sizes: list[int]) -> ImageManifest:
    parts, offset = [], 0
    for number, size in enumerate(sizes):
        parts.append(FilePart(offset, size, Sha256.of(b"%d" % number)))
        offset += size
    return encode_object(tree, "weights", sha256_of, None, {file.blake3: parts}).manifest


FILE = FileEntry("model.safetensors", 100 * MIB, Digest.of(b"a model"))
TREE = Tree((FileEntry("config.json", 2, Digest.of(b"{}")), FILE))


def decoded(manifest: ImageManifest) -> dict[Digest, list[int]]:
    found = decode_object(read_manifest(manifest.encode()), TREE.digest, lambda _: TREE.encode())
    return {blake3: [part.size for part in parts] for blake3, parts in found.parts.items()}


def test_the_parts_of_a_file_come_back_in_order_and_it_is_no_model_any_more() -> None:
    manifest = in_parts(TREE, FILE, [60 * MIB, 39 * MIB, MIB])

    assert manifest.artifact_type == layout.OBJECT
    assert decoded(manifest) == {FILE.blake3: [60 * MIB, 39 * MIB, MIB]}
    assert (
        encode_object(TREE, "weights", sha256_of, None, {}).manifest.artifact_type == layout.MODEL
    )


@pytest.mark.parametrize(
    "sizes",
    [
        [64 * MIB],
        [64 * MIB, 36 * MIB - 1],
        [64 * MIB, 36 * MIB + 1],
        [64 * MIB, 36 * MIB, 1],
        [64 * MIB + 1, 36 * MIB - 1],
        [100 * MIB],
        [50 * MIB, 0, 50 * MIB],
        [1 << 52, 100 * MIB],
    ],
    ids=str,
)
def test_parts_that_do_not_make_up_their_file_are_refused(sizes: list[int]) -> None:
    with pytest.raises(RegistryMismatchError):
        decoded(in_parts(TREE, FILE, sizes))


@pytest.mark.parametrize(
    "annotations", [{}, {layout.BLAKE3_NAME: "x"}, {layout.BLAKE3_NAME: str(Digest.of(b"other"))}]
)
def test_a_part_of_no_file_of_the_tree_is_refused(annotations: dict[str, str]) -> None:
    good = in_parts(TREE, FILE, [64 * MIB, 36 * MIB])
    stray = Descriptor(layout.PART_LAYER, Sha256.of(b"x"), 1, annotations)

    with pytest.raises(RegistryMismatchError):
        decoded(replace(good, layers=(*good.layers, stray)))


def test_a_file_that_is_there_in_parts_lacks_none_of_them_and_another_is_not_made_up() -> None:
    good = in_parts(TREE, FILE, [64 * MIB, 36 * MIB])

    with pytest.raises(RegistryMismatchError):
        decoded(replace(good, layers=good.layers[:-1]))
    with pytest.raises(RegistryMismatchError):
        decoded(replace(good, layers=tuple(x for x in good.layers if x.size != 2)))


def test_the_most_parts_fit_into_a_manifest() -> None:
    file = FileEntry("m", file_parts.MOST * 64 * MIB, Digest.of(b"huge"))
    tree = Tree((file,))
    manifest = in_parts(tree, file, [64 * MIB] * file_parts.MOST)

    data = manifest.encode()

    assert len(data) < MAX_MANIFEST_BYTES
    found = decode_object(read_manifest(data), tree.digest, lambda _: tree.encode())
    assert len(found.parts[file.blake3]) == file_parts.MOST


# -- files of a store ------------------------------------------------------------------------------


def test_the_parts_of_a_file_are_hashed_once(here: Store, small_parts: None) -> None:
    data = model_bytes(TENSOR)
    tree = here.tree(add_weights(here, {"model.safetensors": data, "small": b"x"}))

    found = parts_of_files(here, tree, lambda: None, wanted=True)

    (parts,) = found.values()
    assert [part.size for part in parts[1:]] == [TENSOR] * 16
    for part in parts:
        assert Sha256.of(data[part.offset : part.offset + part.size]) == part.sha256
    again = parts_of_files(here, tree, lambda: pytest.fail("it is read again"), wanted=True)
    assert again == found
    assert parts_of_files(here, tree, lambda: None, wanted=False) == {}


def test_only_the_largest_files_are_cut_without_being_asked(
    here: Store, small_parts: None, monkeypatch: pytest.MonkeyPatch
) -> None:
    files = {"large": bytes(5 * MIB), "small": b"x" * 4 * MIB}
    tree = here.tree(add_weights(here, files))
    monkeypatch.setattr(file_parts, "WHOLE_UP_TO", 4 * MIB)

    found = parts_of_files(here, tree, lambda: None, wanted=False)

    assert {key: len(parts) for key, parts in found.items()} == {Digest.of(files["large"]): 2}


def test_parts_are_larger_where_there_would_be_too_many_and_files_whole_where_that_does_not_help(
    here: Store, small_parts: None, monkeypatch: pytest.MonkeyPatch
) -> None:
    tree = here.tree(add_weights(here, {"model.safetensors": model_bytes(MIB)}))
    counts = []
    for most in (17, 16, 7, 6):
        monkeypatch.setattr(file_parts, "MOST", most)
        found = parts_of_files(here, tree, lambda: None, wanted=True)
        counts.append([len(parts) for parts in found.values()])

    assert counts == [[17], [7], [7], []]


def test_a_file_that_has_rotten_is_not_sent_in_parts(here: Store, small_parts: None) -> None:
    digest = add_weights(here, {"model.safetensors": model_bytes(TENSOR)})
    tree = here.tree(digest)
    path = here.object_path(digest) / "model.safetensors"
    path.chmod(0o644)
    with path.open("r+b") as file:
        file.seek(9 * TENSOR)
        file.write(b"rot")

    with pytest.raises(IntegrityError):
        parts_of_files(here, tree, lambda: None, wanted=True)


# -- through a registry ----------------------------------------------------------------------------


def place_in(registry: RealRegistry, name: str) -> RegistryReference:
    return parse_reference(registry.reference(name))


def push_parts(
    store: Store, client: RegistryClient, digest: Digest, place: RegistryReference
) -> Pushed:
    return Push(client, plan_push(store, kept_weights(digest), place, in_parts=True)).run()


def test_a_changed_tensor_of_sixteen_sends_a_sixteenth(
    registry: RealRegistry, client: RegistryClient, here: Store, there: Store, small_parts: None
) -> None:
    files = {"config.json": b"{}", "model.safetensors": model_bytes(TENSOR)}
    first = push_parts(here, client, add_weights(here, files), place_in(registry, "parts:one"))
    changed = {**files, "model.safetensors": model_bytes(TENSOR, changed=5)}
    digest = add_weights(here, changed)
    place = place_in(registry, "parts:two")

    second = push_parts(here, client, digest, place)

    assert first.sent == first.size > 16 * TENSOR
    assert TENSOR < second.sent < 0.07 * second.size
    assert push_parts(here, client, digest, place).sent == 0
    pull(there, client, plan_pull(there, client, place))
    assert files_of(there, digest) == changed
    assert there.verify().problems == ()
    assert not list((there.path / "downloads").glob("*/part"))


def test_equal_parts_are_sent_and_fetched_once(
    registry: RealRegistry, client: RegistryClient, here: Store, there: Store, small_parts: None
) -> None:
    files = {"zeros": bytes(20 * MIB), "same": bytes(20 * MIB), "more": bytes(9 * MIB) + b"end"}
    digest = add_weights(here, files)
    place = place_in(registry, "zeros:one")

    pushed = push_parts(here, client, digest, place)

    assert pushed.sent < 7 * MIB
    plan = plan_pull(there, client, place)
    assert plan.size < 7 * MIB
    pull(there, client, plan)
    assert files_of(there, digest) == files


def test_a_file_that_the_store_has_is_not_fetched_in_parts(
    registry: RealRegistry, client: RegistryClient, here: Store, there: Store, small_parts: None
) -> None:
    data = model_bytes(TENSOR)
    place = place_in(registry, "known:one")
    digest = add_weights(here, {"model.safetensors": data})
    push_parts(here, client, digest, place)
    add_weights(there, {"elsewhere": data, "config.json": b"{}"})
    before = len(registry.requests())

    pull(there, client, plan_pull(there, client, place))

    blobs = [line for line in registry.requests()[before:] if "/blobs/" in line]
    assert len(blobs) <= 3, "the tree manifest and the records"
    assert files_of(there, digest) == {"model.safetensors": data}


def test_of_a_model_whose_older_state_is_there_only_what_has_changed_is_fetched(
    registry: RealRegistry, client: RegistryClient, here: Store, there: Store, small_parts: None
) -> None:
    older, newer = model_bytes(TENSOR), model_bytes(TENSOR, changed=11)
    foreign = bytes(len(newer))
    digest = add_weights(here, {"model.safetensors": newer})
    place = place_in(registry, "newer:one")
    push_parts(here, client, digest, place)
    add_weights(there, {"foreign": foreign})
    add_weights(there, {"older": older})
    before = len(registry.requests())

    pull(there, client, plan_pull(there, client, place))

    asked = [line for line in registry.requests()[before:] if "/blobs/" in line]
    part = Sha256.of(newer[-5 * TENSOR :][:TENSOR])
    assert sum(str(part) in line for line in asked) >= 1
    assert len({line.split()[1] for line in asked}) <= 4, "the tree, the records, and one part"
    assert files_of(there, digest) == {"model.safetensors": newer}
    assert there.verify().problems == ()


def test_a_pull_in_parts_that_was_interrupted_goes_on(
    registry: RealRegistry, client: RegistryClient, here: Store, there: Store, small_parts: None
) -> None:
    data = model_bytes(TENSOR, seed=7)
    place = place_in(registry, "stopped:one")
    digest = add_weights(here, {"model.safetensors": data})
    push_parts(here, client, digest, place)
    came = 0

    def stop(amount: int, _total: int) -> None:
        nonlocal came
        came += amount
        if came > 9 * TENSOR:
            raise InterruptedBuildError("stopped")

    with pytest.raises(InterruptedBuildError):
        pull(there, client, plan_pull(there, client, place), progress=stop)
    assert there.objects() == []
    before = len(registry.requests())
    pull(there, client, plan_pull(there, client, place))

    again = {
        line.split()[1]
        for line in registry.requests()[before:]
        if "GET" in line and "/blobs/" in line
    }
    assert len(again) < 16
    assert files_of(there, digest) == {"model.safetensors": data}
    assert there.unfinished_bytes() == 0


def test_what_is_joined_is_compared_as_a_whole_and_thrown_away_if_it_is_wrong(
    tmp_path: Path,
) -> None:
    pieces = [b"a" * 1000, b"b" * 500, b"c"]
    parts = [Descriptor(layout.PART_LAYER, Sha256.of(each), len(each)) for each in pieces]
    with Store.open(tmp_path / "store") as store:
        foundation = store.new_tree().foundation
        key = joined_key("x", Digest.of(b"".join(pieces)), parts)
        with downloading(foundation, key, lambda: None) as download:
            joined = JoinedFile(download, parts)
            joined.place(1, [pieces[1][:7], pieces[1][7:]])
            joined.close()
            again = JoinedFile(download, parts)
            assert again.missing() == [0, 2]
            again.place(0, [pieces[0]])
            again.place(2, [pieces[2]])
            assert again.missing() == []
            assert again.content(lambda: None).blake3 == Digest.of(b"".join(pieces))
            again.close()
            for note in (b"", b"1", b"1 zz", b"2 7", b"1 8", b"1 -1", b"\xff", b"1 " + b"f" * 99):
                download.note(note)
                spoilt = JoinedFile(download, parts)
                assert spoilt.missing() == [0, 1, 2]
                spoilt.close()
            os.truncate(download.part, 7)
            download.note(b"1 1")
            short = JoinedFile(download, parts)
            assert short.missing() == [0, 1, 2]
            short.close()
