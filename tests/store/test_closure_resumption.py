"""Archives of closures that break off and are gone on with, and compressed ones."""

import io
import re
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from auditing import audit
from dis_store import (
    Digest,
    DisError,
    IntegrityError,
    InvalidInputError,
    Store,
    export_closures,
    import_closures,
)
from dis_store.archives.compression import compressing, decompressing
from trees import Blob, write_tree

FILES = {f"file-{number}": Blob(bytes([number]) * 700 * number) for number in range(8)}
OUTER = {"run": Blob(bytes([3]) * 2100, executable=True), "plain": Blob(b"plain")}


@pytest.fixture(scope="module")
def source(tmp_path_factory: pytest.TempPathFactory) -> Store:
    return Store.open(tmp_path_factory.mktemp("source") / "store")


@pytest.fixture(scope="module")
def root(source: Store) -> Digest:
    return write_tree(source, OUTER, {"inner": (write_tree(source, FILES), None)})


def exported(store: Store, root: Digest, after: Digest | None = None) -> bytes:
    stream = io.BytesIO()
    export_closures(store, [root], stream, after=after)
    return stream.getvalue()


@given(share=st.floats(min_value=0, max_value=1, exclude_max=True))
@settings(
    suppress_health_check=[HealthCheck.function_scoped_fixture], deadline=None, max_examples=40
)
def test_wherever_an_import_breaks_off_the_rest_can_come(
    source: Store, root: Digest, tmp_path_factory: pytest.TempPathFactory, share: float
) -> None:
    whole = exported(source, root)
    with Store.open(tmp_path_factory.mktemp("target") / "store") as target:
        with pytest.raises(IntegrityError) as broken:
            import_closures(target, io.BytesIO(whole[: int(len(whole) * share)]))
        assert not target.objects()
        found = re.search(r"--after ([0-9a-f]{64})", broken.value.hint or "")
        after = None if found is None else Digest(found[1])
        rest = exported(source, root, after)
        assert after is None or len(rest) < len(whole)
        assert import_closures(target, io.BytesIO(rest)).new == 2
        assert target.verify().ok
    assert audit(target.path) == []


def test_nothing_is_written_after_a_file_that_is_none_of_them(source: Store, root: Digest) -> None:
    stream = io.BytesIO()
    with pytest.raises(InvalidInputError, match="none of the files"):
        export_closures(source, [root], stream, after=Digest.of(b"another"))
    assert stream.getvalue() == b""


def test_what_arrived_is_not_written_again(source: Store, root: Digest, tmp_path: Path) -> None:
    whole = exported(source, root)
    with Store.open(tmp_path / "target") as target:
        with pytest.raises(IntegrityError, match="ends too early"):
            import_closures(target, io.BytesIO(whole[: len(whole) * 2 // 3]))
        kept = {path: path.stat().st_ino for path in (target.path / "links").glob("*/*")}
        assert kept
        import_closures(target, io.BytesIO(whole))
        now = {path.stat().st_ino for path in (target.path / "objects").rglob("*")}
        assert set(kept.values()) <= now


def test_what_arrived_goes_with_the_next_collection_and_the_rest_is_refused_then(
    source: Store, root: Digest, tmp_path: Path
) -> None:
    whole = exported(source, root)
    with Store.open(tmp_path / "target") as target:
        with pytest.raises(IntegrityError) as broken:
            import_closures(target, io.BytesIO(whole[: len(whole) * 2 // 3]))
        after = Digest((broken.value.hint or "").rpartition(" ")[2])
        target.collect_garbage()
        assert not list((target.path / "links").glob("*/*"))
        with pytest.raises(InvalidInputError, match="the store lacks"):
            import_closures(target, io.BytesIO(exported(source, root, after)))
        assert not target.objects()
        assert audit(target.path) == []


def test_a_content_that_was_damaged_while_it_waited_is_not_used(
    source: Store, root: Digest, tmp_path: Path
) -> None:
    whole = exported(source, root)
    with Store.open(tmp_path / "target") as target:
        with pytest.raises(IntegrityError):
            import_closures(target, io.BytesIO(whole[: len(whole) * 2 // 3]))
        for path in (target.path / "links").glob("*/*"):
            path.chmod(0o644)
            path.write_bytes(b"!" * path.stat().st_size)
            path.chmod(0o444)
        import_closures(target, io.BytesIO(whole))
        assert target.verify().ok


def test_an_archive_that_goes_on_changes_no_mode_of_what_is_there(
    source: Store, root: Digest, tmp_path: Path
) -> None:
    with Store.open(tmp_path / "target") as target:
        there = write_tree(target, {**FILES, "runs": Blob(bytes([3]) * 2100, executable=True)})
        last = max(Digest.of(blob.data) for blob in (*FILES.values(), *OUTER.values()))
        write_tree(target, {"plain": Blob(b"plain")})
        assert import_closures(target, io.BytesIO(exported(source, root, last))).new == 2
        assert target.verify([there]).ok
        assert target.verify().ok


def test_a_compressed_archive_has_the_same_bytes_every_time_and_comes_in_as_it_is(
    source: Store, root: Digest, tmp_path: Path
) -> None:
    packed = [io.BytesIO(), io.BytesIO()]
    for stream in packed:
        with compressing(stream) as compressor:
            export_closures(source, [root], compressor)
    assert packed[0].getvalue() == packed[1].getvalue()
    assert len(packed[0].getvalue()) < len(exported(source, root))
    with Store.open(tmp_path / "target") as target:
        assert import_closures(target, io.BytesIO(packed[0].getvalue())).new == 2


@given(data=st.data())
@settings(
    suppress_health_check=[HealthCheck.function_scoped_fixture], deadline=None, max_examples=60
)
def test_a_damaged_compressed_archive_is_refused(
    source: Store, root: Digest, tmp_path_factory: pytest.TempPathFactory, data: st.DataObject
) -> None:
    stream = io.BytesIO()
    with compressing(stream) as compressor:
        export_closures(source, [root], compressor)
    whole = stream.getvalue()
    changes = st.sampled_from(["cut", "flip", "append"])
    position = data.draw(st.integers(min_value=4, max_value=len(whole) - 1))
    change = data.draw(changes)
    spoilt = bytearray(whole)
    if change == "cut":
        del spoilt[position:]
    elif change == "flip":
        spoilt[position] ^= 1 << data.draw(st.integers(min_value=0, max_value=7))
    else:
        spoilt += whole
    with Store.open(tmp_path_factory.mktemp("target") / "store") as target:
        try:
            import_closures(target, io.BytesIO(bytes(spoilt)))
        except DisError:
            assert not target.objects()
        else:
            # A bit that means nothing, such as one of the frame that only hints at sizes.
            assert change == "flip"
            assert target.verify().ok


@given(st.binary(max_size=50))
def test_what_is_not_compressed_passes_as_it_is(data: bytes) -> None:
    with decompressing(io.BytesIO(data), "it") as stream:
        if not data.startswith(b"\x28\xb5\x2f\xfd"):
            assert b"".join(iter(lambda: stream.read(7), b"")) == data


def test_a_bomb_is_read_no_further_than_a_manifest_may_go(source: Store, tmp_path: Path) -> None:
    del source
    stream = io.BytesIO()
    with compressing(stream) as compressor:
        for _ in range(64):
            compressor.write(bytes(1 << 20))
    with (
        Store.open(tmp_path / "target") as target,
        pytest.raises(InvalidInputError, match="not an archive of closures"),
    ):
        import_closures(target, io.BytesIO(stream.getvalue()))
