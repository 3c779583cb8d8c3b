"""Signed documents travel with the objects they are about, as bytes that nobody believes for that."""

import io
from collections.abc import Sequence
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from builds import build_of
from dis_store import (
    Digest,
    DisError,
    IntegrityError,
    InvalidInputError,
    Store,
    UnfitEnvironmentError,
    canonical_json,
    export_closures,
    import_closures,
    plan_import,
)
from dis_store.archives.closure_archive import MAX_HEADER_BYTES, member_header
from dis_store.archives.compression import compressing
from dis_store.signatures import MAX_BYTES, MAX_OF_KEY
from trees import Blob, write_tree

ONE, TWO = b'{"signed":"one"}', b'{"signed":"two"}'
EMPTY = b'{"entries":[],"format":1,"type":"tree"}'
OBJECT = Digest.of(EMPTY)


@pytest.fixture
def other(tmp_path: Path) -> Store:
    return Store.open(tmp_path / "other")


def signed_tree(store: Store, *documents: bytes) -> tuple[Digest, Digest]:
    """Register an object with a part, of which a build with signatures is recorded; return it and the key."""
    part = write_tree(store, {"part": Blob(b"part")})
    digest = write_tree(store, {"file": Blob(b"content")}, {"part": (part, None)})
    record = store.add_realisation(build_of("a key", {"out": digest}))
    for document in documents:
        store.add_signature(record.key, document)
    return digest, record.key


def exported(store: Store, digest: Digest, after: Digest | None = None) -> bytes:
    stream = io.BytesIO()
    export_closures(store, [digest], stream, after=after)
    return stream.getvalue()


def imported(store: Store, data: bytes) -> int:
    return import_closures(store, io.BytesIO(data)).signatures


def test_what_is_signed_of_a_build_arrives_with_what_it_gave(store: Store, other: Store) -> None:
    digest, _ = signed_tree(store, ONE, TWO)
    stream = io.BytesIO()
    assert export_closures(store, [digest], stream).signatures == 2
    assert plan_import(other, io.BytesIO(stream.getvalue())).signatures == 2
    assert imported(other, stream.getvalue()) == 2
    assert other.signatures(digest) == {Digest.of(each): each for each in (ONE, TWO)}
    assert other.verify().ok


def test_an_import_records_no_build(store: Store, other: Store) -> None:
    digest, key = signed_tree(store, ONE)
    imported(other, exported(store, digest))
    assert other.realisations(key) == []
    assert other.builds_of(digest) == []
    assert other.chosen(key) is None
    assert other.signatures(key) == {}


def test_a_crowd_of_signatures_keeps_nothing_out(store: Store, other: Store) -> None:
    digest, _ = signed_tree(store, ONE)
    imported(other, exported(store, digest))
    for number in range(MAX_OF_KEY - 1):
        other.add_signature(digest, str(number).encode())
    store.add_signature(digest, TWO)
    data = exported(store, digest)
    done = import_closures(other, io.BytesIO(data))
    assert done.crowded == (digest,)
    assert len(other.signatures(digest)) == MAX_OF_KEY


def test_what_arrived_travels_on(store: Store, other: Store, tmp_path: Path) -> None:
    digest, _ = signed_tree(store, ONE, TWO)
    data = exported(store, digest)
    imported(other, data)
    assert exported(other, digest) == data
    assert imported(other, data) == 2


documents = st.lists(st.binary(max_size=2000), max_size=6, unique=True)


@settings(
    max_examples=30, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture]
)
@given(of_outer=documents, of_inner=documents, text=st.binary(max_size=100), packed=st.booleans())
def test_any_signatures_survive_the_journey(
    tmp_path_factory: pytest.TempPathFactory,
    of_outer: list[bytes],
    of_inner: list[bytes],
    text: bytes,
    packed: bool,
) -> None:
    top = tmp_path_factory.mktemp("journey")
    with Store.open(top / "one") as one, Store.open(top / "two") as two:
        inner = write_tree(one, {"inner": Blob(text)})
        outer = write_tree(one, {"outer": Blob(text)}, {"part": (inner, None)})
        for digest, signed in ((outer, of_outer), (inner, of_inner)):
            for each in signed:
                one.add_signature(digest, each)
        data = exported(one, outer)
        sent = data
        if packed:
            stream = io.BytesIO()
            with compressing(stream) as compressed:
                compressed.write(data)
            sent = stream.getvalue()
        assert imported(two, sent) == len({*of_outer, *of_inner})
        for digest in (outer, inner):
            assert two.signatures(digest) == one.signatures(digest)
        assert exported(two, outer) == data


def test_without_signatures_an_archive_is_what_it_always_was(store: Store) -> None:
    data = exported(store, write_tree(store, {"file": Blob(b"content")}))
    assert b'"format":1,' in data[512:1024]
    assert b"signatures" not in data[512:1024]


def test_an_archive_that_goes_on_has_the_signatures_as_well(store: Store, other: Store) -> None:
    digest, _ = signed_tree(store, ONE)
    whole = exported(store, digest)
    with pytest.raises(IntegrityError) as broken:
        import_closures(other, io.BytesIO(whole[:-2048]))
    after = Digest((broken.value.hint or "").rpartition(" ")[2])
    rest = exported(store, digest, after)
    assert len(rest) < len(whole)
    assert imported(other, rest) == 1
    assert list(other.signatures(digest).values()) == [ONE]


def test_a_signature_goes_with_its_object(store: Store, other: Store) -> None:
    digest, _ = signed_tree(store, ONE)
    imported(other, exported(store, digest))
    other.close()
    with Store.open(other.path) as later:
        later.collect_garbage(dry_run=True)
        assert list(later.signatures(digest).values()) == [ONE]
        later.collect_garbage()
        assert later.signatures(digest) == {}
        assert list((later.path / "signatures").glob("*/*")) == []


def test_a_signature_stays_with_an_object_that_is_kept(store: Store, other: Store) -> None:
    from dis_store import Root

    digest, _ = signed_tree(store, ONE)
    imported(other, exported(store, digest))
    other.set_root("kept", Root(digest))
    other.close()
    with Store.open(other.path) as later:
        later.collect_garbage()
        assert list(later.signatures(digest).values()) == [ONE]


def test_more_signatures_than_an_archive_holds_are_refused(
    store: Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    digest, _ = signed_tree(store, ONE, TWO)
    monkeypatch.setattr("dis_store.archives.closure_archive.MAX_SIGNATURES_BYTES", len(ONE))
    with pytest.raises(InvalidInputError, match="one archive"):
        exported(store, digest)


# -- made-up archives ------------------------------------------------------------------------------


def packed(*members: tuple[str, bytes]) -> bytes:
    pieces = [
        member_header(name, len(data)) + data + bytes(-len(data) % 512) for name, data in members
    ]
    return b"".join(pieces) + bytes(1024)


def header(signatures: object, **fields: object) -> tuple[str, bytes]:
    document = {"type": "closures", "format": 2, "roots": [OBJECT], "objects": 1}
    return "archive.json", canonical_json.encode(document | {"signatures": signatures} | fields)


def manifest() -> tuple[str, bytes]:
    return f"manifests/{OBJECT}.json", EMPTY


def document(data: bytes, name: str | None = None) -> tuple[str, bytes]:
    return name or f"signatures/{Digest.of(data)}.json", data


LISTED = sorted(map(Digest.of, (ONE, TWO)))
ORDERED: Sequence[bytes] = sorted((ONE, TWO), key=Digest.of)
HUGE = bytes(MAX_BYTES + 1)


@pytest.mark.parametrize(
    "members",
    [
        pytest.param((header({OBJECT: LISTED[:1]}), manifest()), id="lacking"),
        pytest.param((header({OBJECT: LISTED}), manifest(), document(ORDERED[0])), id="one lacks"),
        pytest.param(
            (header({OBJECT: LISTED[:1]}), manifest(), document(ORDERED[1])), id="another"
        ),
        pytest.param(
            (header({OBJECT: LISTED[:1]}), manifest(), document(ORDERED[0]), document(ORDERED[0])),
            id="twice",
        ),
        pytest.param(
            (header({OBJECT: LISTED}), manifest(), *map(document, reversed(ORDERED))),
            id="out of order",
        ),
        pytest.param(
            (header({OBJECT: LISTED[:1]}), manifest(), document(ORDERED[0]), document(ORDERED[1])),
            id="unlisted",
        ),
        pytest.param(
            (header({"b" * 64: LISTED[:1]}), manifest(), document(ORDERED[0])),
            id="of an object elsewhere",
        ),
        pytest.param(
            (header({OBJECT: [Digest.of(HUGE)]}), manifest(), document(HUGE)), id="too large"
        ),
        pytest.param(
            (
                header({OBJECT: LISTED[:1]}),
                manifest(),
                document(ORDERED[0], "signatures/../x.json"),
            ),
            id="path",
        ),
        pytest.param(
            (header({OBJECT: LISTED[:1]}), manifest(), document(ORDERED[0], "/etc/passwd")),
            id="absolute path",
        ),
        pytest.param((header({"../x": LISTED[:1]}), manifest()), id="path of an object"),
        pytest.param((header({OBJECT: ["../x"]}), manifest()), id="path of a document"),
        pytest.param((header({OBJECT: LISTED[:1] * 2}), manifest()), id="listed twice"),
        pytest.param((header({OBJECT: LISTED[::-1]}), manifest()), id="listed out of order"),
        pytest.param((header({OBJECT: []}), manifest()), id="none listed"),
        pytest.param(
            (header({OBJECT: [f"{each:064x}" for each in range(MAX_OF_KEY + 1)]}), manifest()),
            id="too many",
        ),
        pytest.param((header({}), manifest()), id="of the newer format without any"),
        pytest.param((header([]), manifest()), id="a list"),
        pytest.param((header({OBJECT: 1}), manifest()), id="a number"),
        pytest.param(
            (header({OBJECT: LISTED[:1]}, format=1), manifest()), id="of the older format"
        ),
        pytest.param(
            (("archive.json", bytes(MAX_HEADER_BYTES + 1)), manifest()), id="a header too long"
        ),
    ],
)
def test_a_made_up_archive_is_refused_and_nothing_of_it_comes(
    other: Store, members: Sequence[tuple[str, bytes]]
) -> None:
    with pytest.raises(InvalidInputError):
        import_closures(other, io.BytesIO(packed(*members)))
    assert other.objects() == []
    assert list((other.path / "signatures").glob("**/*.json")) == []
    assert list((other.path / "tmp").iterdir()) == []


def test_a_made_up_archive_that_is_right_is_taken(other: Store) -> None:
    members = (header({OBJECT: LISTED}), manifest(), *map(document, ORDERED))
    assert imported(other, packed(*members)) == 2


def test_a_document_that_is_refused_by_its_form_stops_all(store: Store, other: Store) -> None:
    def check(data: bytes) -> None:
        if data == TWO:
            raise InvalidInputError("no signed document")

    digest, _ = signed_tree(store, ONE, TWO)
    data = exported(store, digest)
    with pytest.raises(InvalidInputError, match="no signed"):
        import_closures(other, io.BytesIO(data), check_signed=check)
    assert other.objects() == []


def test_every_changed_byte_is_found(store: Store, other: Store) -> None:
    digest, _ = signed_tree(store, ONE)
    data = exported(store, digest)
    for place in range(0, len(data), 11):
        changed = data[:place] + bytes([data[place] ^ 1]) + data[place + 1 :]
        with pytest.raises((InvalidInputError, IntegrityError, UnfitEnvironmentError)):
            import_closures(other, io.BytesIO(changed))
    assert other.objects() == []


def test_every_cut_is_found(store: Store, other: Store) -> None:
    digest, _ = signed_tree(store, ONE)
    data = exported(store, digest)
    for length in range(0, len(data), 97):
        with pytest.raises(DisError):
            import_closures(other, io.BytesIO(data[:length]))
    assert other.objects() == []
