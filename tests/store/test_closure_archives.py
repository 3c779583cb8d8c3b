"""Carrying closures from one store to another."""

import io
import subprocess
import tarfile
from collections.abc import Callable
from pathlib import Path

import pytest
from hypothesis import given, settings

from auditing import audit
from dis_store import (
    Digest,
    IntegrityError,
    InvalidInputError,
    Store,
    UnfitEnvironmentError,
    export_closures,
    import_closures,
)
from dis_store.archives.closure_archive import member_header
from trees import TREES, Blob, Files, write_tree

INNER = {"x": Blob(b"inner" * 300), "run": Blob(b"equal", executable=True)}
OUTER = {"a/b": Blob(b"outer"), "plain": Blob(b"equal"), "empty": Blob(b"")}


def write_closure(store: Store) -> Digest:
    inner = write_tree(store, INNER)
    return write_tree(store, OUTER, {"whole": (inner, None), "part": (inner, "x")})


def exported(store: Store, *digests: Digest) -> bytes:
    stream = io.BytesIO()
    done = export_closures(store, digests, stream)
    assert done.size == len(stream.getvalue())
    assert done.blake3 == Digest.of(stream.getvalue())
    return stream.getvalue()


@pytest.fixture
def other(tmp_path: Path) -> Store:
    return Store.open(tmp_path / "other")


@pytest.fixture
def archive(store: Store) -> bytes:
    return exported(store, write_closure(store))


def test_a_closure_arrives_whole(store: Store, other: Store) -> None:
    digest = write_closure(store)
    done = import_closures(other, io.BytesIO(exported(store, digest)))
    assert (done.roots, done.objects, done.new) == ((digest,), 2, 2)
    assert other.read_bytes(digest, "whole/x") == INNER["x"].data
    assert other.verify().ok
    other.close()
    assert audit(other.path) == []


@settings(max_examples=40, deadline=None)
@given(files=TREES)
def test_any_tree_survives_the_journey(shared_store: Store, files: Files) -> None:
    digest = write_tree(shared_store, files)
    data = exported(shared_store, digest)
    assert import_closures(shared_store, io.BytesIO(data)).new == 0
    assert exported(shared_store, digest) == data


def test_the_same_closures_are_the_same_bytes_in_any_order(store: Store, other: Store) -> None:
    one, two = write_closure(store), write_tree(store, {"f": Blob(b"two")})
    data = exported(store, one, two)
    assert exported(store, two, one, two) == data
    import_closures(other, io.BytesIO(data))
    assert exported(other, one, two) == data


def test_what_is_there_already_is_not_new(store: Store, other: Store, archive: bytes) -> None:
    write_tree(other, INNER)
    assert import_closures(other, io.BytesIO(archive)).new == 1
    assert import_closures(other, io.BytesIO(archive)).new == 0


def test_each_content_is_there_once_under_its_digest(archive: bytes, tmp_path: Path) -> None:
    (tmp_path / "a.tar").write_bytes(archive)
    subprocess.run(["tar", "xf", "a.tar"], cwd=tmp_path, check=True)
    found = sorted(tmp_path.joinpath("files").iterdir())
    assert len(found) == 4
    for file in (*found, *tmp_path.joinpath("manifests").iterdir()):
        assert Digest.of(file.read_bytes()) == file.name.removesuffix(".json")


def test_a_size_beyond_octal_fits_into_one_block() -> None:
    block = member_header("files/" + "0" * 64, 40 << 30)
    assert len(block) == 512
    assert tarfile.TarInfo.frombuf(block, "utf-8", "strict").size == 40 << 30


def test_a_damaged_file_is_not_exported(store: Store) -> None:
    digest = write_closure(store)
    file = store.file_path(digest, "a/b")
    file.chmod(0o644)
    file.write_bytes(b"OUTER")
    with pytest.raises(IntegrityError, match="damaged"):
        exported(store, digest)


def nothing_came(store: Store) -> bool:
    left = [*store.path.joinpath("tmp").iterdir(), *store.path.joinpath("objects").iterdir()]
    return store.objects() == [] and not left


def test_every_changed_byte_is_found(other: Store, store: Store) -> None:
    data = exported(store, write_tree(store, {"f": Blob(b"content"), "g": Blob(b"g")}))
    for place in range(0, len(data), 13):
        changed = data[:place] + bytes([data[place] ^ 1]) + data[place + 1 :]
        with pytest.raises((InvalidInputError, IntegrityError, UnfitEnvironmentError)):
            import_closures(other, io.BytesIO(changed))
    assert nothing_came(other)


def test_every_cut_is_found(other: Store, archive: bytes) -> None:
    for length in range(0, len(archive), 97):
        with pytest.raises((IntegrityError, InvalidInputError)):
            import_closures(other, io.BytesIO(archive[:length]))
    with pytest.raises(InvalidInputError, match="follows"):
        import_closures(other, io.BytesIO(archive + b"\0"))
    assert nothing_came(other)


def repacked(data: bytes, change: Callable[[tarfile.TarInfo], object]) -> bytes:
    """Return the archive with the headers of its files changed."""
    result = io.BytesIO()
    with (
        tarfile.open(fileobj=io.BytesIO(data)) as old,
        tarfile.open(fileobj=result, mode="w", format=tarfile.GNU_FORMAT) as new,
    ):
        for member in old:
            content = old.extractfile(member)
            if member.name.startswith("files/"):
                change(member)
            new.addfile(member, content if member.isreg() else None)
    return result.getvalue()


@pytest.mark.parametrize(
    ("field", "value"),
    [
        ("name", "../../escape"),
        ("name", "/etc/passwd"),
        ("type", tarfile.SYMTYPE),
        ("type", tarfile.LNKTYPE),
        ("type", tarfile.CHRTYPE),
        ("type", tarfile.DIRTYPE),
        ("mode", 0o4755),
        ("uid", 1000),
        ("mtime", 7),
        ("uname", "somebody"),
    ],
)
def test_a_header_that_an_export_does_not_write_is_refused(
    other: Store, archive: bytes, field: str, value: object
) -> None:
    hostile = repacked(archive, lambda member: setattr(member, field, value))
    with pytest.raises((InvalidInputError, IntegrityError)):
        import_closures(other, io.BytesIO(hostile))
    assert nothing_came(other)


def packed(*members: tuple[str, bytes]) -> io.BytesIO:
    pieces = [
        member_header(name, len(data)) + data + bytes(-len(data) % 512) for name, data in members
    ]
    return io.BytesIO(b"".join(pieces) + bytes(1024))


def header(*roots: str, objects: int, **fields: object) -> tuple[str, bytes]:
    from dis_store import canonical_json

    document = {"type": "closures", "format": 1, "roots": list(roots), "objects": objects}
    return "archive.json", canonical_json.encode(document | fields)


def manifest(data: bytes) -> tuple[str, bytes]:
    return f"manifests/{Digest.of(data)}.json", data


EMPTY = b'{"entries":[],"format":1,"type":"tree"}'
HUGE = (
    b'{"entries":[{"blake3":"%s","path":"f","size":9007199254740991}],"format":1,"type":"tree"}'
    % (b"a" * 64)
)
ESCAPING = HUGE.replace(b'"f"', b'"../f"').replace(b"9007199254740991", b"1")


@pytest.mark.parametrize(
    ("stream", "error"),
    [
        (packed(), InvalidInputError),
        (packed(("other.json", b"{}")), InvalidInputError),
        (packed(header(objects=0)), InvalidInputError),
        (packed(header("b" * 64, objects=0)), InvalidInputError),
        (packed(header("b" * 64, objects=1), manifest(EMPTY)), InvalidInputError),
        (packed(header(Digest.of(EMPTY), objects=1, format=3), manifest(EMPTY)), UnfitEnvironmentError),
        (packed(header(Digest.of(EMPTY), objects=1, more=1), manifest(EMPTY)), InvalidInputError),
        (packed(header(Digest.of(EMPTY), objects=2), manifest(EMPTY), manifest(EMPTY)), InvalidInputError),
        (packed(header(Digest.of(HUGE), objects=1), manifest(HUGE)), UnfitEnvironmentError),
        (packed(header(Digest.of(ESCAPING), objects=1), manifest(ESCAPING)), IntegrityError),
        (io.BytesIO(member_header("archive.json", 7 << 30)), InvalidInputError),
        (io.BytesIO(b"\x1f\x8b" + bytes(2000)), InvalidInputError),
        (io.BytesIO(b""), IntegrityError),
    ],
)  # fmt: skip
def test_a_made_up_archive_is_refused(
    other: Store, stream: io.BytesIO, error: type[Exception]
) -> None:
    stream.seek(0)
    with pytest.raises(error):
        import_closures(other, stream)
    assert nothing_came(other)


def test_a_manifest_that_no_root_needs_is_refused(store: Store, other: Store) -> None:
    extra = b'{"entries":[],"format":1,"portable_names":false,"type":"tree"}'
    members = sorted([manifest(EMPTY), manifest(extra)])
    stream = packed(header(Digest.of(EMPTY), objects=2), *members)
    with pytest.raises(InvalidInputError, match="no root"):
        import_closures(other, stream)


class Dripping(io.RawIOBase):
    """A pipe that gives and takes a few bytes at a time."""

    def __init__(self, data: bytes = b"") -> None:
        self.data = bytearray(data)

    def readable(self) -> bool:
        return True

    def writable(self) -> bool:
        return True

    def read(self, size: int = -1) -> bytes:
        taken = bytes(self.data[: min(size, 100)])
        del self.data[: len(taken)]
        return taken

    def write(self, data: object) -> int:
        piece = bytes(memoryview(data))[:100]  # type: ignore[arg-type]
        self.data += piece
        return len(piece)


def test_pipes_that_take_and_give_little_are_enough(store: Store, other: Store) -> None:
    digest = write_closure(store)
    pipe = Dripping()
    export_closures(store, [digest], pipe)  # type: ignore[arg-type]
    assert bytes(pipe.data) == exported(store, digest)
    assert import_closures(other, pipe).new == 2  # type: ignore[arg-type]
